"""Delivers a batch of messages from another server of the cluster to the receivers of this server.

The receivers are those of `core.pubsub.forwarding.deliver_here`: streams, consumers and clients.
Consecutive messages with the same receivers are delivered together: publishes to one stream,
acknowledgements, and messages for one client subscription, on one subject or on the subjects of one
inbox. All others are delivered one by one.
"""

from collections.abc import Sequence

from core.protocol.messages import MessageColumns
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.batch import deliver_ack_row, deliver_together
from core.pubsub.forwarding import ClusterForwarder, ack_and_subject, deliver_here, names_of_ack
from core.pubsub.receivers import MESSAGE, Receivers, Subscription

_FEW = 8
"""Smallest number of messages that are written together to one subscription."""


def deliver_batch_here(account: Account, batch: MessageColumns) -> None:
    """Deliver messages of one account that name no queue group to the receivers of this server.

    The caller calls `loop_tick.arm` to flush the outputs.
    """
    subjects = batch.subjects
    if not subjects[0].startswith(ACK_PREFIX):
        receivers = account.receivers(subjects[0])
        if (
            receivers.forwarder is None
            and receivers.batch is not None
            and deliver_together(account, batch)
        ):
            return
    at, is_watched = 0, account.watches_acks
    for start, stop in batch.rows():
        if at == start and not is_watched and deliver_ack_row(account, batch, start, stop):
            at = stop
        while at < stop:
            if subjects[at].startswith(ACK_PREFIX):
                at = _acknowledge(account, batch, at, stop)
            else:
                at = _deliver(account, batch, at)


def _acknowledge(account: Account, batch: MessageColumns, at: int, stop: int) -> int:
    """Deliver acknowledgements from index `at`; return the index behind them, at most `stop`."""
    replies, headers, payloads = batch.replies, batch.headers, batch.payloads
    acks = {} if account.watches_acks else account.ack_handlers
    for place in range(at, stop):
        subject = batch.subjects[place]
        if not subject.startswith(ACK_PREFIX):
            return place
        parts = subject.rsplit(b".", 5)
        if (handler := acks.get(parts[0])) is not None:
            handler.handle(parts, None, replies[place], headers[place], payloads[place])
        else:
            deliver_here(account, subject, replies[place], (), headers[place], payloads[place])
    return stop


def _deliver(account: Account, batch: MessageColumns, at: int) -> int:
    """Deliver the message at index `at`, and the following ones with the same receivers.

    Return the index of the next message.
    """
    subjects = batch.subjects
    receivers, stop = account.receivers(subjects[at]), at + 1
    if (target := _sole_target(receivers)) is not None and not batch.has_headers:
        stop = _end_of_run(account, receivers, subjects, at)
        if stop - at >= _FEW and _write(account, target, batch, at, stop):
            return stop
    replies, headers, payloads = batch.replies, batch.headers, batch.payloads
    for place in range(at, stop):
        message = (subjects[place], replies[place], (), headers[place], payloads[place])
        deliver_here(account, *message)
    return stop


def _sole_target(receivers: Receivers) -> Subscription | None:
    """Return the only local receiver, if it is a subscription without limit and permissions."""
    if len(receivers.targets) != 1 or not receivers.plain:
        return None
    target = receivers.targets[0]
    if target.guard is not None or target.session.closed:
        return None
    return (
        target if all(isinstance(each, ClusterForwarder) for each in receivers.services) else None
    )


def _end_of_run(account: Account, receivers: Receivers, subjects: Sequence[bytes], at: int) -> int:
    """Return the index behind the messages with the same receivers as the one at index `at`."""
    first, stop, count = subjects[at], at + 1, len(subjects)
    head = first.rpartition(b".")[0]
    if account.receivers_by_prefix.get(head) is receivers:
        while stop < count:
            other, _, last = subjects[stop].rpartition(b".")
            if other != head or not last:
                break
            stop += 1
    else:
        while stop < count and subjects[stop] == first:
            stop += 1
    return stop


def _parted(
    replies: Sequence[bytes], lowest: bytes, highest: bytes
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Split the replies of deliveries into their ack subjects and the subjects of their messages.

    Each reply is split as by `core.pubsub.forwarding.ack_and_subject`. `lowest` and `highest` are
    the smallest and the greatest of the replies.
    """
    names = names_of_ack(lowest)
    if names and b"@" not in names and highest.startswith(names):  # all for one consumer
        replies, _, subjects = zip(*(each.partition(b"@") for each in replies), strict=True)
    else:
        replies, subjects = zip(*map(ack_and_subject, replies), strict=True)
    return replies, subjects


def _write(
    account: Account, target: Subscription, batch: MessageColumns, at: int, stop: int
) -> bool:
    """Write messages without headers to one subscription.

    Return False, with nothing written, if only some of them are deliveries of consumers or have a
    reply subject; the caller then writes them one by one.
    """
    subjects: Sequence[bytes] = batch.subjects[at:stop]
    replies: Sequence[bytes] = batch.replies[at:stop]
    payloads = batch.payloads[at:stop]
    lowest, highest = min(replies), max(replies)
    if lowest.startswith(ACK_PREFIX) and highest.startswith(ACK_PREFIX):
        replies, subjects = _parted(replies, lowest, highest)
        if not all(subjects):
            return False
    elif highest and (not lowest or ACK_PREFIX in b" ".join(replies)):
        return False
    sizes = list(map(len, payloads))
    mid = target.mid.replace(b"%", b"%%")
    out = target.session.out
    if not out:
        account.loop_tick.dirty.append(target.session)
    target.sent += len(sizes) * MESSAGE + sum(sizes)
    if highest:
        line = b"MSG %%b%b%%b %%d\r\n%%b\r\n" % mid
        out += map(line.__mod__, zip(subjects, replies, sizes, payloads, strict=True))
    else:
        line = b"MSG %%b%b%%d\r\n%%b\r\n" % mid
        out += map(line.__mod__, zip(subjects, sizes, payloads, strict=True))
    return True
