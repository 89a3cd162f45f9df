"""A batch of published messages that all go to one service, which takes them with one call."""

from core.protocol.gather import Batch
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.route import BatchCall, Route

_REFUSED = b"$NRG."
"""How subjects begin that no client may publish to."""
_RESERVED = (b" _R_.", b" $GR.", b" _GR_.", b" $JS.ACK.")
"""How reply subjects begin, after a blank, that no client may use."""


def take_together(account: Account, batch: Batch) -> bool:
    """Give a batch to the only receiver of all its messages, if that takes batches.

    Returns False when its messages have to be looked at one by one; nothing has happened then.
    """
    routes, prefixes = account.routes, account.prefixes
    found: BatchCall | None = None
    before: Route | None = None
    for subject in set(batch.subjects):
        route = routes.get(subject)
        if route is None:
            if subject.startswith(ACK_PREFIX):
                if subject.rsplit(b".", 5)[0] in account.acks:
                    return False  # it is for a consumer that is led here
                route = account.resolve(subject)
            elif subject.startswith(_REFUSED):
                return False
            else:
                head, _, last = subject.rpartition(b".")
                route = (prefixes.get(head) if last else None) or account.resolve(subject)
        if route is before:
            continue
        before = route
        if route.batch is None or (found is not None and route.batch is not found):
            return False
        found = route.batch
    replies = b" " + b" ".join(batch.replies)
    if found is None or any(reserved in replies for reserved in _RESERVED):
        return False
    found(batch)
    return True
