"""Messages in columns that a client has published: all to one service, which takes them with one
call, or acknowledgements of several consumers, which take them or are led on other nodes.
"""

from collections.abc import Callable
from operator import methodcaller

from core.protocol.gather import Batch
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.route import BatchCall, Route, Session

_dots = methodcaller("count", b".")
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
    for subject in _kinds(batch):
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


def _kinds(batch: Batch) -> set[bytes]:
    """Return all subjects but those of acknowledgements that go as another one of them does."""
    subjects = batch.subjects
    if not (subjects[0].startswith(ACK_PREFIX) or subjects[-1].startswith(ACK_PREFIX)):
        return set(subjects)
    kinds: set[bytes] = set()
    for start, stop in batch.rows():
        row = subjects[start:stop]
        kinds.update((row[0],) if _are_of_one_consumer(row) else row)
    return kinds


def _are_of_one_consumer(subjects: list[bytes]) -> bool:
    """Say whether all are acknowledgements with the same names."""
    if not subjects[0].startswith(ACK_PREFIX):
        return False
    names = subjects[0].rsplit(b".", 5)[0] + b"."
    if not (min(subjects).startswith(names) and max(subjects).startswith(names)):
        return False  # else what stands in order between the two begins so as well
    return len(set(map(_dots, subjects))) == 1


def take_acks(
    account: Account,
    batch: Batch,
    source: Session,
    publish: Callable[[bytes, bytes, bytes, bytes], None],
) -> bool:
    """Take the acknowledgements of a batch by consumer, and `publish` what stands between them.

    Those for one other node go there together. What is published comes after the acknowledgements
    before it, and those of one consumer stay in order. Returns False when all have to be looked at
    one by one; nothing has happened then.
    """
    subjects = batch.subjects
    if not (subjects[0].startswith(ACK_PREFIX) or subjects[-1].startswith(ACK_PREFIX)):
        return False
    replies = b" " + b" ".join(batch.replies)
    if account.watches_acks or any(reserved in replies for reserved in _RESERVED):
        return False
    acks = account.acks
    onward: dict[bytes, Batch | None] = {}
    parcels: dict[BatchCall, Batch] = {}
    for subject, reply, headers, payload in batch.messages():
        if subject.startswith(ACK_PREFIX):
            parts = subject.rsplit(b".", 5)
            head = parts[0]
            if (take := acks.get(head)) is not None:
                take(parts, source, reply, headers, payload)
                continue
            if head not in onward:
                call = account.resolve(subject).batch
                onward[head] = None if call is None else parcels.setdefault(call, Batch())
            if (parcel := onward[head]) is not None:
                parcel.add(subject, reply, headers, payload)
                continue
        _send(parcels)
        onward.clear()
        publish(subject, reply, headers, payload)
    _send(parcels)
    return True


def _send(parcels: dict[BatchCall, Batch]) -> None:
    for call, parcel in parcels.items():
        call(parcel)
    parcels.clear()
