"""Consecutive pull requests to a consumer, limited by the free capacity of the receiver's buffer.

One request is open at a time. Each has its own reply subject, so a status for an earlier request is
not attributed to the open one. Nothing is created or awaited per message.
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
"""A byte limit so large that requests are sent without one."""
_EXPIRES_S = 60.0


class PullReceiver(Protocol):
    """The receiver of pulled messages, such as an ordered subscription.

    Every method except `room` may close the puller or create another one.
    """

    def room(self) -> BufferLimits:
        """Return the free capacity: how many messages and bytes may be requested now.

        A message that is larger than the bytes is requested alone, without a limit of bytes.
        """
        ...

    def on_message(self, msg: JsMsg) -> None: ...

    def on_heartbeat(self, last_consumer: int | None) -> None:
        """Process an idle heartbeat; `last_consumer` is the last delivery's consumer sequence.

        None if the heartbeat does not contain it.
        """
        ...

    def on_read(self) -> None:
        """Called after all messages of one socket read."""
        ...

    def on_nothing(self) -> None:
        """Called if the consumer has no more messages.

        Never called if requests wait for new messages (`waits` of `Puller`).
        """
        ...

    def on_failure(self, error: ClientError) -> None:
        """Called if a request ended with an error status, or its heartbeats were missed.

        `Puller.ask` sends the next request.
        """
        ...

    def on_stray(self, error: NotJetStream) -> None:
        """Called for a message that no consumer has delivered."""
        ...

    def on_restored(self) -> None:
        """Called after a reconnect, which has ended the open request."""
        ...

    def on_closed(self) -> None:
        """Called when the client is closed."""
        ...


class Puller:
    """Sends pull requests to one consumer. *Life cycle*: `ask` repeatedly, then `close`.

    Its creation raises NotPermitted if the client may not send pull requests to the consumer, and
    ConnectionLost without a connection.

    Args:
        receiver: Receives the messages.
        consumer: `<stream>.<name>`.
        batch_max: Largest batch that the consumer allows per request, in messages; 0: no limit.
        heartbeat: Seconds between the server's idle heartbeats; three missed ones are a failure.
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
        """True while a pull request is open."""
        return self._reply != b""

    def close(self) -> None:
        """Stop receiving; the server then drops the open pull request."""
        self._end()
        if self._sub is not None:
            self._sub.unsubscribe()
            self._sub = None

    def ask(self) -> None:
        """Send a pull request for as many messages as the receiver's buffer can hold.

        The receiver returns its free capacity from `PullReceiver.room`. Does nothing while a
        request is open, or if the buffer is full.
        """
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
