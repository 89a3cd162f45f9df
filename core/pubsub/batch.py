"""Delivers a batch, consecutive messages of one client in columns, by as few calls as possible.

Either one service (such as a stream) takes all messages with one call, or the messages are
acknowledgements of several consumers, on this node or on others.
"""

from collections.abc import Callable

from core.protocol.messages import MessageColumns
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.publish_rules import are_any_reserved, is_system
from core.pubsub.receivers import BatchCall, Receivers, Session

_FEW = 8
"""Smallest number of acknowledgements of one consumer that are applied together."""


def deliver_together(account: Account, batch: MessageColumns) -> bool:
    """Pass consecutive messages of a client with one call to the only receiver of all of them.

    Return False, without any effect, if they have different receivers, if the receiver takes only
    single messages, or if they need checks of single messages.
    """
    if _is_led_here(account, batch.subjects[0]) or _is_led_here(account, batch.subjects[-1]):
        return False
    by_subject, by_prefix = account.receivers_by_subject, account.receivers_by_prefix
    found: BatchCall | None = None
    before: Receivers | None = None
    for subject in _kinds(batch):
        receivers = by_subject.get(subject)
        if receivers is None:
            if subject.startswith(ACK_PREFIX):
                if _is_led_here(account, subject):
                    return False
                receivers = account.resolve(subject)
            elif is_system(subject):
                return False
            else:
                head, _, last = subject.rpartition(b".")
                receivers = (by_prefix.get(head) if last else None) or account.resolve(subject)
        if receivers is before:
            continue
        before = receivers
        if receivers.batch is None or (found is not None and receivers.batch is not found):
            return False
        found = receivers.batch
    if found is None or are_any_reserved(batch.replies):
        return False
    found(batch)
    return True


def _is_led_here(account: Account, subject: bytes) -> bool:
    """Return True for an acknowledgement of a consumer that this node leads."""
    return subject.startswith(ACK_PREFIX) and subject.rsplit(b".", 5)[0] in account.ack_handlers


def _kinds(batch: MessageColumns) -> set[bytes]:
    """Return the subjects whose receivers must be looked up, without repetitions.

    All acknowledgements of one consumer have the same receiver, so where they are consecutive, only
    one of their subjects is returned.
    """
    subjects = batch.subjects
    if not (subjects[0].startswith(ACK_PREFIX) or subjects[-1].startswith(ACK_PREFIX)):
        return set(subjects)
    kinds: set[bytes] = set()
    for start, stop in batch.rows():
        row = subjects[start:stop]
        if min(row).startswith(ACK_PREFIX) and max(row).startswith(ACK_PREFIX):
            # All acknowledgements of one consumer go to the leader of its stream.
            row = list({subject.rsplit(b".", 5)[0]: subject for subject in row}.values())
        kinds.update(row)
    return kinds


def deliver_ack_row(
    account: Account, batch: MessageColumns, start: int, stop: int, source: Session | None = None
) -> bool:
    """Pass consecutive acknowledgements of one consumer to it with one call.

    They have the index range [start, stop) of `batch`. Return False, without any effect, if the
    range has fewer than 8 messages or other messages, or if this node does not lead the consumer.
    """
    subjects = batch.subjects[start:stop]
    if len(subjects) < _FEW or not subjects[0].startswith(ACK_PREFIX):
        return False
    head = subjects[0].rsplit(b".", 5)[0]
    handler = account.ack_handlers.get(head)
    if handler is None or not subjects[-1].startswith(head):  # cheap check before all are split
        return False
    if batch.has_headers or any(batch.replies[start:stop]):
        return False
    parted = [parts for each in subjects if (parts := each.rsplit(b".", 5))[0] == head]
    if len(parted) < len(subjects):
        return False
    handler.handle_row(parted, source, batch.payloads[start:stop])
    return True


def deliver_acks(
    account: Account,
    batch: MessageColumns,
    source: Session,
    publish: Callable[[bytes, bytes, bytes, bytes], None],
) -> bool:
    """Process consecutive messages of a client that contain acknowledgements.

    Acknowledgements of one consumer on this node are passed to it together; those for another node
    are sent to it together. `publish` is called for each other message (subject, reply, headers,
    payload), after the acknowledgements before it. Acknowledgements of one consumer stay in order.
    Return False, without any effect, if all messages have to be delivered one by one.
    """
    subjects = batch.subjects
    if not (subjects[0].startswith(ACK_PREFIX) or subjects[-1].startswith(ACK_PREFIX)):
        return False
    if account.watches_acks or are_any_reserved(batch.replies):
        return False
    remote_acks = _RemoteAcks(account)
    for start, stop in batch.rows():
        if deliver_ack_row(account, batch, start, stop, source):
            continue
        for message in batch.slice(start, stop):
            subject = message[0]
            if subject.startswith(ACK_PREFIX):
                parts = subject.rsplit(b".", 5)
                if (handler := account.ack_handlers.get(parts[0])) is not None:
                    handler.handle(parts, source, *message[1:])
                    continue
                if remote_acks.add(parts[0], message):
                    continue
            remote_acks.send()
            publish(*message)
    remote_acks.send()
    return True


class _RemoteAcks:
    """Acknowledgements that are sent to other nodes together, one batch per node."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._of: dict[bytes, MessageColumns | None] = {}
        self._batches: dict[BatchCall, MessageColumns] = {}

    def add(self, head: bytes, message: tuple[bytes, bytes, bytes, bytes]) -> bool:
        """Add an acknowledgement of the consumer with the ack prefix `head`.

        Return False if no other node leads the consumer.
        """
        if head not in self._of:
            call = self._account.resolve(message[0]).batch
            self._of[head] = (
                None if call is None else self._batches.setdefault(call, MessageColumns())
            )
        if (gathered := self._of[head]) is None:
            return False
        gathered.add(*message)
        return True

    def send(self) -> None:
        """Send the collected acknowledgements to their nodes."""
        for call, gathered in self._batches.items():
            call(gathered)
        self._batches.clear()
        self._of.clear()
