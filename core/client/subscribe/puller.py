"""Consecutive pull requests, limited by the room in the receiver's buffer.

One request is open at a time. Each has its own reply subject, so a status for an earlier request is
not attributed to it. Nothing is created or awaited per message.
"""

from typing import Protocol

from core.client.client import Subscription, Watch
from core.client.errors import ClientError, ConnectionLost, NotPermitted
from core.client.jetstream import JetStream
from core.client.msg import Msg
from core.client.subscribe.acks import PREFIX, JsMsg
from core.client.subscribe.errors import HeartbeatsMissed, NotJetStream, StatusRaised
from core.client.subscribe.message_buffer import BufferLimits
from core.client.subscribe.status import CONTROL, HIDDEN, Control, HeartbeatWatch, read_status
from core.model.codec import encode
from core.model.consumer import NextRequest
from core.units import NANOS_PER_SECOND

_MISSED = 3
_TOO_LARGE = "Message Size Exceeds MaxBytes"
_ENDS = ("Batch Completed", _TOO_LARGE)
_NONE = 404
ANY_SIZE = 1 << 62
"""A byte limit that restricts no request."""
_EXPIRES_S = 60.0


class PullReceiver(Protocol):
    """The receiver of pulled messages.

    Every method but `room` may close the puller or start another.
    """

    def room(self) -> BufferLimits:
        """Return how much may be pulled now. One message may exceed the bytes."""
        ...

    def on_message(self, msg: JsMsg) -> None: ...

    def on_heartbeat(self, last_consumer: int | None) -> None:
        """Check the consumer sequence of the last delivery (None: the heartbeat has none)."""
        ...

    def on_read(self) -> None:
        """Handle the end of one read, after its messages."""
        ...

    def on_nothing(self) -> None:
        """Handle the absence of further messages; called only if requests do not wait."""
        ...

    def on_failure(self, error: ClientError) -> None:
        """Handle a request that ended with an error or in silence; `ask` starts the next one."""
        ...

    def on_stray(self, error: NotJetStream) -> None:
        """Handle a message that does not come from JetStream."""
        ...

    def on_restored(self) -> None:
        """Handle a reconnect, which has ended the request."""
        ...

    def on_closed(self) -> None:
        """Handle the end of the client."""
        ...


class Puller:
    """The pull requests to one consumer. *Life cycle*: `ask` as soon as there is room, `close`.

    Creating one raises NotPermitted and ConnectionLost.

    Args:
        receiver: Receives the messages.
        consumer: `<stream>.<name>`.
        batch_max: Largest batch that the consumer allows per request; 0: no limit.
        heartbeat: Seconds between the server's idle heartbeats.
        waits: True if requests wait for messages that do not exist yet.
    """

    def __init__(
        self,
        js: JetStream,
        receiver: PullReceiver,
        consumer: str,
        *,
        batch_max: int,
        heartbeat: float,
        waits: bool = True,
    ) -> None:
        self._client = js.client
        self._receiver = receiver
        self._subject = f"{js.prefix}.CONSUMER.MSG.NEXT.{consumer}".encode()
        js.client.check(self._subject)
        self._waits = waits
        self._batch_max = batch_max
        self._heartbeat = heartbeat
        self._watch = HeartbeatWatch(heartbeat * _MISSED, self._on_silence)
        self._inbox = js.client.new_inbox()
        self._requests = 0
        self._reply = b""
        self._wanted = 0
        self._next_is_large = False
        watch = Watch(receiver.on_closed, self._on_restored, self._subject, self._on_denied)
        self._sub: Subscription | None = js.client.subscribe(
            self._inbox + b".*", self._on_batch, watch=watch
        )

    @property
    def is_asking(self) -> bool:
        """True while a request is open."""
        return self._reply != b""

    def close(self) -> None:
        """Stop receiving; the server drops the request."""
        self._end()
        if self._sub is not None:
            self._sub.unsubscribe()
            self._sub = None

    def ask(self) -> None:
        """Send a request, unless one is open or there is no room."""
        if self._sub is None or self._reply:
            return
        room = self._receiver.room()
        if room.messages < 1 or room.nbytes < 1:
            return
        most = min(room.messages, self._batch_max) if self._batch_max else room.messages
        any_size = self._next_is_large or room.nbytes >= ANY_SIZE
        request = NextRequest(
            batch=1 if self._next_is_large else most,
            max_bytes=0 if any_size else room.nbytes,
            no_wait=not self._waits,
            expires=round(max(_EXPIRES_S, 4 * self._heartbeat) * NANOS_PER_SECOND)
            if self._waits
            else 0,
            idle_heartbeat=round(self._heartbeat * NANOS_PER_SECOND) if self._waits else 0,
        )
        self._requests += 1
        self._reply = b"%b.%d" % (self._inbox, self._requests)
        self._wanted = request.batch
        self._next_is_large = False
        self._watch.start()
        try:
            self._client.publish(self._subject, encode(request), reply=self._reply)
        except ConnectionLost:
            pass  # the reconnect sends the next request
        except NotPermitted:
            self._on_denied()

    def _end(self) -> None:
        self._reply = b""
        self._watch.stop()

    # -- receiving ---------------------------------------------------------------------------

    def _on_batch(self, batch: list[Msg]) -> None:
        self._watch.reset()
        receiver = self._receiver
        for msg in batch:
            if self._sub is None:
                break  # an earlier message has closed the puller
            if not msg.reply.startswith(PREFIX):
                self._on_status(msg)
                continue
            try:
                made = JsMsg.of(msg, takes_acks=False)
            except NotJetStream as error:
                receiver.on_stray(error)
                continue
            self._wanted -= 1
            if not self._wanted:
                self._end()
            receiver.on_message(made)
        receiver.on_read()
        self.ask()

    def _on_status(self, msg: Msg) -> None:
        code, text = read_status(msg)
        if not code:
            self._receiver.on_stray(NotJetStream(msg.reply))
        elif msg.subject != self._reply:
            return  # status of an earlier request
        elif code == CONTROL:
            self._receiver.on_heartbeat(Control(msg).last_consumer)
        elif code in HIDDEN or text in _ENDS:
            self._next_is_large = text == _TOO_LARGE
            self._end()
            if code == _NONE and not self._waits:
                self._receiver.on_nothing()
        else:
            self._end()
            self._receiver.on_failure(StatusRaised(code, text))

    def _on_silence(self, seconds: float) -> None:
        self._end()
        self._receiver.on_failure(HeartbeatsMissed(seconds))

    def _on_denied(self) -> None:
        self._end()
        self._receiver.on_failure(NotPermitted(self._subject))

    def _on_restored(self) -> None:
        self._end()
        self._receiver.on_restored()
