"""A pull request of the client to a consumer, and its result."""

from dataclasses import dataclass, field

from core.client.client import Client
from core.client.gathering import InboxCollector
from core.client.msg import Msg, status_of
from core.model.codec import encode
from core.model.consumer import NextRequest

_IDLE_HEARTBEAT = 100
NO_RESPONDERS = 503


@dataclass(slots=True)
class Fetched:
    """The messages of one pull request.

    `status` and `text` are those of the status message that ended it; status 0 if it got all its
    messages or was released before.
    """

    messages: list[Msg] = field(default_factory=list)
    status: int = 0
    text: str = ""


class Pull(InboxCollector):
    """A pull request to a consumer, which collects messages until it ends.

    Call `release` at the end. The request has its own subscription, and the server drops the
    request when that ends. With `is_ack` the subject is the reply subject of a delivery, which the
    request also acknowledges (`+NXT`). `heartbeats` counts the idle heartbeats; each makes
    `changed` return.
    """

    def __init__(
        self, client: Client, subject: bytes, request: NextRequest, *, is_ack: bool = False
    ) -> None:
        client.check(subject)
        super().__init__(client, subject)
        self.status = 0
        self.text = ""
        self.heartbeats = 0
        self._wanted = request.batch or 1
        body = encode(request)
        client.publish(subject, b"+NXT " + body if is_ack else body, reply=self._inbox)

    def result(self) -> Fetched:
        """Return the messages received since the last call, and the status of the request."""
        return Fetched(self.pop_messages(), self.status, self.text)

    def _on_batch(self, batch: list[Msg]) -> None:
        for msg in batch:
            if msg.headers and not msg.payload and not msg.reply:
                code, text = status_of(msg.headers)
                if code == _IDLE_HEARTBEAT:
                    self.heartbeats += 1
                    continue
                if code:
                    self.ended, self.status, self.text = True, code, text
                    continue
            self.messages.append(msg)
            self._wanted -= 1
        if self._wanted <= 0:
            self.ended = True
        self._wake()

    def _on_end(self) -> None:
        if not self.ended:
            self.status = NO_RESPONDERS
        super()._on_end()
