"""Reading a stream in order, at the pace of the reader.

An ephemeral pull consumer without acks (ADR-17 and ADR-37: an ordered consumer), made anew behind
what was read when it is lost or skips something. A pull request asks for no more than a reader may
hold, and the next one is sent while the reader works on what the last one brought: at most two of
them are in memory, however slow the reader is.

A request of the last messages of subjects has no `max_bytes`: nats-server 2.15.1 leaves out the
message that does not fit any more, and goes on behind it. Such a request is of few messages, fewer
when one of them was large.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from core.client.errors import ClientError
from core.client.jetstream import NANOS, JetStream
from core.client.msg import Msg
from core.client.pull import Pull
from core.errors import ApiError
from core.model.codec import encode
from core.model.consumer import (
    AckPolicy,
    ConsumerConfig,
    CreateConsumerRequest,
    DeliverPolicy,
    NextRequest,
)
from core.runtime.nuid import nuid
from core.runtime.tasks import spawn

_CAREFUL_FIRST = 8
_CAREFUL_MOST = 64
_EXPIRES_S = 20
_GRACE_S = 3.0
_INACTIVE_S = 300
_OVERHEAD = 64 * 1024
_TIMED_OUT = 408
_NONE = 404
_CONFLICT = 409
_ENDED = (0, _TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message and its place: `pending` is how many follow. `time` in ns since the epoch."""

    subject: str
    seq: int
    time: int
    pending: int
    headers: bytes
    payload: bytes


class OrderedReader:
    """Reads the messages that a consumer of this configuration has, in order.

    Life cycle: `open`, then `read` until nobody wants more, then `close`.

    Args:
        js: Whose connection and permissions are used.
        stream: The stream's name.
        config: Filters, where to begin, and whether headers are enough.
        batch: Messages of one pull request.
        max_bytes: Bytes of one pull request; it grows when a single message is larger.
        finite: Read what is there; `read` returns nothing at its end instead of waiting.
    """

    def __init__(
        self,
        js: JetStream,
        stream: str,
        config: ConsumerConfig,
        *,
        batch: int = 500,
        max_bytes: int = 1 << 20,
        finite: bool = False,
    ) -> None:
        self.pending = 0
        """How many messages there were when the reader was opened."""
        self.is_over = False
        """Whether a finite reader has read everything."""
        self._js = js
        self._stream = stream
        self._config = config
        self._batch = batch
        self._max_bytes = max_bytes
        self._finite = finite
        self._name = ""
        self._pull: Pull | None = None
        self._pull_until = 0.0
        self._pull_had = 0
        self._consumer_seq = 0
        self._last_seq = 0
        self._largest_seen = 0
        self._careful = _CAREFUL_FIRST
        self._is_of_subjects = False
        self._has_gap = False
        self._interrupted = False

    async def open(self) -> None:
        """Create the consumer. Raises ApiError or ClientError."""
        self.pending = await self._create(self._config)

    async def read(self, within: float) -> list[Delivered]:
        """Wait for messages; none after so many seconds, or at the end of a finite reader.

        Raises ApiError when the stream is gone, ClientError when the connection is.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not (self.is_over or self._interrupted):
            if self._has_gap:
                await self._renew()
            pull = self._pull or self._ask()
            messages = self._in_order(pull.take())
            if pull.ended:
                await self._next(pull)
            if messages:
                return messages
            if self._pull is pull:
                now = loop.time()
                if now >= deadline:
                    return []
                if now >= self._pull_until:
                    await self._renew()
                else:
                    await pull.changed(min(deadline, self._pull_until) - now)
        return []

    async def close(self) -> None:
        """End the consumer, without waiting for that."""
        pull, self._pull = self._pull, None
        name, self._name = self._name, ""
        if pull is not None:
            with suppress(ClientError):
                await pull.release()
        if name:
            spawn(self._delete(name), name="reader end")

    def interrupt(self) -> None:
        """Make `read` return nothing, at once and from now on."""
        self._interrupted = True
        if self._pull is not None:
            self._pull.interrupt()

    async def _create(self, config: ConsumerConfig) -> int:
        name = nuid()
        request = CreateConsumerRequest(stream_name=self._stream, config=_ordered(config, name))
        # With a filter in the subject, permissions may speak of it.
        place = f".{config.filter_subject}" if config.filter_subject else ""
        subject = f"CONSUMER.CREATE.{self._stream}.{name}{place}"
        reply = await self._js.call(subject, encode(request))
        self._name = name
        self._consumer_seq = 0
        self._has_gap = False
        if config.deliver_policy is DeliverPolicy.NEW:
            # Made anew, it begins behind what was there now, not behind what is there then.
            self._last_seq = int(reply["delivered"]["stream_seq"])
        of_subjects = config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
        self._is_of_subjects = of_subjects and not config.headers_only
        return int(reply.get("num_pending", 0))

    async def _delete(self, name: str) -> None:
        with suppress(ClientError, ApiError):
            await self._js.call(f"CONSUMER.DELETE.{self._stream}.{name}")

    def _ask(self) -> Pull:
        expires = 0 if self._finite else _EXPIRES_S
        batch, max_bytes = self._batch, self._max_bytes
        if self._is_of_subjects:
            batch = max(1, min(batch, self._careful, max_bytes // max(1, self._largest_seen)))
            self._careful = min(self._careful * 2, _CAREFUL_MOST)
            max_bytes = 0
        request = NextRequest(
            batch=batch,
            max_bytes=max_bytes,
            expires=expires * NANOS,
            no_wait=self._finite,
        )
        self._pull = pull = self._js.pull(self._stream, self._name, request)
        self._pull_until = asyncio.get_running_loop().time() + _GRACE_S
        self._pull_until += expires or self._js.timeout
        self._pull_had = 0
        return pull

    def _in_order(self, messages: list[Msg]) -> list[Delivered]:
        """What was delivered; ends at a gap, from which the reader then begins anew."""
        delivered: list[Delivered] = []
        for msg in messages:
            place = msg.reply.decode().split(".")
            # $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>, in the
            # later form with domain and account before the stream, and a token at the end.
            stream_seq, consumer_seq, time, pending = map(
                int, place[7:11] if len(place) > 9 else place[5:9]
            )
            if consumer_seq != self._consumer_seq + 1:
                self._has_gap = True
                break
            self._consumer_seq = consumer_seq
            self._last_seq = stream_seq
            self._largest_seen = max(self._largest_seen, len(msg.payload))
            delivered.append(
                Delivered(
                    msg.subject.decode(errors="replace"),
                    stream_seq,
                    time,
                    pending,
                    msg.headers,
                    msg.payload,
                )
            )
        self._pull_had += len(delivered)
        return delivered

    async def _next(self, pull: Pull) -> None:
        """Go on after a pull request that has ended."""
        await pull.release()
        self._pull = None
        if pull.status in _ENDED:
            self._ask()
        elif pull.status == _NONE:
            self.is_over = self._finite
        elif pull.status == _CONFLICT and "MaxBytes" in pull.text:
            if not self._pull_had:
                self._max_bytes = max(self._max_bytes * 2, self._most())
            self._ask()
        else:
            await self._renew()

    def _most(self) -> int:
        return self._js.client.info.max_payload + _OVERHEAD

    async def _renew(self) -> None:
        """Replace the consumer by one that begins behind what was read."""
        await self.close()
        config = self._config
        if self._last_seq:
            config = _after(config, self._last_seq)
        await self._create(config)


def _ordered(config: ConsumerConfig, name: str) -> ConsumerConfig:
    return msgspec.structs.replace(
        config,
        name=name,
        ack_policy=AckPolicy.NONE,
        max_deliver=1,
        mem_storage=True,
        num_replicas=1,
        inactive_threshold=_INACTIVE_S * NANOS,
    )


def _after(config: ConsumerConfig, seq: int) -> ConsumerConfig:
    return msgspec.structs.replace(
        config,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=seq + 1,
        opt_start_time=None,
    )
