"""Reading of a stream by pull requests, one page (bounded list of messages) per request.

A page is pulled when its reader requests it, and is not larger than requested. Between two pages
this process buffers no messages. The server deletes the ephemeral consumer after 30 s without a
pull request.
"""

from dataclasses import dataclass, field

from core.client import (
    ConnectionLost,
    JetStream,
    Msg,
    NoResponders,
    NotPermitted,
    RequestTimeout,
)
from core.client.subscribe import JsMsg, Position
from core.client.subscribe.deleting import delete_consumer
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy, NextRequest
from core.runtime.tasks import spawn
from core.units import NANOS_PER_SECOND
from gateway.readers.entries import Entry, Filters, Gap, Item, Start, has_jump, with_gaps

_INACTIVE_S = 30
_FEW = 8
_PAGE_WAIT_S = 5.0
_GONE = (503, 409)
_EMPTY = (404, 408)
_TOO_MANY = err_code("JSMaximumConsumersLimit")
_TOO_LARGE = "Message Size Exceeds MaxBytes"


class ConsumerGone(Exception):
    """The ephemeral consumer no longer exists; its reader can create a new one."""


@dataclass(slots=True)
class PageReader:
    """A reader of a stream, or of the subjects in `filters`, by an ephemeral pull consumer.

    Attributes:
        position: Position of the last message read, or the position before the first message.
        at_end: True if the last page reached the end of the stream.
        of_subjects: True if the consumer delivers the last message of each subject. Then a new
            consumer that starts after `position` would deliver other messages.
    """

    js: JetStream
    stream: str
    filters: Filters
    position: Position = field(default_factory=lambda: Position(0, 0))
    at_end: bool = False
    of_subjects: bool = False
    _consumer: str = ""
    _next: int = 1

    @property
    def is_open(self) -> bool:
        """True if there is a consumer to pull from."""
        return bool(self._consumer)

    async def open(self, start: Start) -> Gap | None:
        """Create the consumer. Returns the gap between the requested start and the actual one.

        Returns None if there is no gap. Raises ApiError if the server refuses, ClientError if it
        does not respond.
        """
        if start.after is not None:
            gap = await self.find(start.after)
            await self._create(Start(after=self.position))
            return gap
        made = await self._create(start)
        info = await self.js.stream_info(self.stream)
        self.position = Position(info.created, made)
        return None

    async def find(self, after: Position) -> Gap | None:
        """Set `position` to `after`, or to the next position from which messages still exist.

        Returns the gap between the two, or None. Raises ApiError if the server refuses, ClientError
        if it does not respond.
        """
        info = await self.js.stream_info(self.stream)
        state = info.state
        if after.incarnation != info.created or after.seq > state.last_seq:
            self.position = Position(info.created, max(state.first_seq, 1) - 1)
        elif after.seq + 1 < state.first_seq:
            self.position = Position(info.created, state.first_seq - 1)
        else:
            self.position = after
            return None
        return Gap(after, self.position, state.first_seq, state.last_seq)

    async def page(self, messages: int, nbytes: int) -> list[Item]:
        """Pull the next messages and return them with the gaps between them; empty at the stream's
        end.

        At most `messages` messages and `nbytes` bytes; a single message may be larger. Raises
        ConsumerGone if the consumer was deleted, ApiError if the server refuses, ClientError if it
        does not respond.
        """
        if self.of_subjects:
            # nats-server 2.15.1 skips the message that does not fit, and continues after it.
            messages, nbytes = min(messages, _FEW), 0
        batch = await self._pull(messages, nbytes)
        size = sum([msg.size for msg in batch])
        self.at_end = len(batch) < messages and (not nbytes or size < nbytes)
        position = self.position
        items: list[Item] = [Entry(msg) for msg in batch]
        if has_jump(position.seq, batch):
            info = await self.js.stream_info(self.stream)
            state = info.state
            if info.created == position.incarnation and position.seq + 1 < state.first_seq:
                items = with_gaps(position, batch, state.first_seq, state.last_seq)
        if batch:
            self.position = Position(position.incarnation, batch[-1].stream_seq)
        return items

    def close(self) -> None:
        """Delete the consumer in the background."""
        if self._consumer and not self.js.client.closed:
            spawn(self.forget(), name="pages close")

    async def forget(self) -> None:
        """Delete the consumer and wait for it; the next page needs a new consumer."""
        consumer, self._consumer = self._consumer, ""
        if consumer:
            await delete_consumer(self.js, self.stream, consumer)

    async def _create(self, start: Start) -> int:
        """Create a consumer. Returns the stream sequence after which it starts."""
        after, policy, seq = start.after, start.policy, start.seq
        if after is not None:
            policy, seq = DeliverPolicy.BY_START_SEQUENCE, after.seq + 1
        per_subject = policy is DeliverPolicy.LAST_PER_SUBJECT
        filters = self.filters or ((">",) if per_subject else ())
        config = ConsumerConfig(
            deliver_policy=policy,
            opt_start_seq=seq,
            opt_start_time=start.time or None,
            ack_policy=AckPolicy.NONE,
            filter_subject=filters[0] if len(filters) == 1 else "",
            filter_subjects=filters if len(filters) > 1 else (),
            inactive_threshold=_INACTIVE_S * NANOS_PER_SECOND,
            mem_storage=True,
            num_replicas=1,
        )
        made = await self.js.create_ephemeral(self.stream, config)
        self.of_subjects = per_subject
        self._consumer, self._next = made.name, 1
        return made.delivered.stream_seq

    async def _pull(self, messages: int, nbytes: int) -> list[JsMsg]:
        request = NextRequest(batch=messages, max_bytes=nbytes, no_wait=True)
        pull = self.js.pull(self.stream, self._consumer, request)
        try:
            while not pull.ended:
                if not await pull.changed(_PAGE_WAIT_S):
                    raise RequestTimeout(self._consumer.encode(), _PAGE_WAIT_S)
        finally:
            await pull.release()
        batch = self._in_order(pull.pop_messages())
        if batch:
            return batch
        if pull.status in _GONE:
            if pull.text == _TOO_LARGE and nbytes:
                return await self._pull(1, 0)
            raise ConsumerGone(pull.text)
        return []

    def _in_order(self, messages: list[Msg]) -> list[JsMsg]:
        batch: list[JsMsg] = []
        for msg in messages:
            made = JsMsg.of(msg, takes_acks=False)
            if made.consumer_seq != self._next:
                self.close()  # a message was lost: the next page begins after the last one received
                break
            self._next += 1
            batch.append(made)
        return batch


def is_over(js: JetStream, error: Exception) -> bool:
    """Return True if an error means that the stream can never be read again.

    Examples are a deleted stream, a missing permission and a closed connection.
    """
    if isinstance(error, NotPermitted):
        return True
    if isinstance(error, ConnectionLost):
        return js.client.closed
    if isinstance(error, NoResponders | RequestTimeout | ConsumerGone):
        return False
    if not isinstance(error, ApiError) or error.err_code == _TOO_MANY:
        return False
    return error.code in (400, 404)
