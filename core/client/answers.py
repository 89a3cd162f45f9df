"""A request with many replies, which are collected until a status message ends them."""

from core.client.client import Client
from core.client.errors import PayloadTooLarge
from core.client.gathering import InboxCollector
from core.client.msg import Msg, status_of

_NO_RESPONDERS = 503


class Answers(InboxCollector):
    """The replies to one request, until `most` have arrived or a status message ends them.

    Its creation sends the request. Raises NotPermitted if the client may not publish to the
    subject, PayloadTooLarge if the request exceeds the server's limit, or ConnectionLost without a
    connection. Call `release` at the end.

    Args:
        most: Largest number of replies; 0: no limit.
        most_bytes: Largest size of buffered replies (received, not popped yet), in bytes; 0: no
            limit.

    Attributes:
        status: Code of the status message that ended the replies (503: no responders); 0: none.
        text: Text of that status; empty: none.
        headers: Header block of that message; empty: none.
        overflowed: True if more than `most_bytes` were buffered. Later replies are lost.
    """

    def __init__(
        self,
        client: Client,
        subject: bytes,
        payload: bytes,
        *,
        headers: bytes = b"",
        most: int = 0,
        most_bytes: int = 0,
    ) -> None:
        client.check(subject, headers)
        if (size := len(headers) + len(payload)) > client.info.max_payload:
            raise PayloadTooLarge(size, client.info.max_payload)
        super().__init__(client, subject)
        self.status = 0
        self.text = ""
        self.headers = b""
        self.overflowed = False
        self._left = most
        self._most_bytes = most_bytes
        self._held = 0
        client.publish(subject, payload, reply=self._inbox, headers=headers)

    def pop_messages(self) -> list[Msg]:
        """Remove and return the replies that arrived since the last call."""
        self._held = 0
        return super().pop_messages()

    def _on_batch(self, batch: list[Msg]) -> None:
        for msg in batch:
            if self.ended:
                break
            if msg.headers and not msg.payload and (code := status_of(msg.headers)[0]):
                self.ended, self.status, self.headers = True, code, msg.headers
                self.text = status_of(msg.headers)[1]
                break
            self.messages.append(msg)
            self._left -= 1
            self._held += len(msg.payload) + len(msg.headers)
            self.overflowed = 0 < self._most_bytes < self._held
            self.ended = not self._left or self.overflowed
        self._wake()

    def _on_end(self) -> None:
        if not self.ended:
            self.status = _NO_RESPONDERS
        super()._on_end()
