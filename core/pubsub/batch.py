"""Many messages at once: where they may all go together."""

from core.protocol.gather import Batch
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.route import BatchCall

_UNUSUAL = (ACK_PREFIX, b"$NRG.")
_RESERVED = (b" _R_.", b" $GR.", b" _GR_.", b" $JS.ACK.")
"""Replies, after a blank, that no client may ask for."""


def take_together(account: Account, batch: Batch) -> bool:
    """Give a batch to the only receiver of all its messages, if that takes batches.

    Returns False when its messages have to be looked at one by one; nothing has happened then.
    """
    plans = account.plans
    found: BatchCall | None = None
    for subject in set(batch.subjects):
        route = plans.get(subject)
        if route is None:
            if subject.startswith(_UNUSUAL):
                return False
            route = account.resolve(subject)
        if route.batch is None or (found is not None and route.batch != found):
            return False
        found = route.batch
    replies = b" " + b" ".join(batch.replies)
    if found is None or any(reserved in replies for reserved in _RESERVED):
        return False
    found(batch)
    return True
