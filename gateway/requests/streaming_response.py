"""Long responses: they begin at once, and end with their client or their source."""

from abc import abstractmethod
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import ClientError
from gateway.formats.raw_messages import INERT
from gateway.monitoring.feed_counts import FeedCount
from gateway.requests.call import Call
from gateway.requests.response_body import ResponseBody

EVENTS = "text/event-stream"
COMMENT = b":\n\n"
"""A comment that readers ignore; it keeps the connection alive."""


class StreamingResponse(Response):
    """A body of unknown length, sent as it is produced. `close` is always called.

    Args:
        call: The request.
        media_type: Media type of the body.
        headers: Further headers.
        count: The counter of the feed; None: not counted.
    """

    def __init__(
        self, call: Call, media_type: str, headers: Mapping[str, str], count: FeedCount | None
    ) -> None:
        super().__init__(
            None, headers={"Cache-Control": "no-store", **INERT, **headers}, media_type=media_type
        )
        del self.headers["content-length"]
        self.call = call
        self.count = FeedCount() if count is None else count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The loss of the server connection ends the body early."""
        self.count.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                async with ResponseBody(self.call, send, self.wake) as out:
                    await self.send_body(out)
        except ClientError:
            pass
        finally:
            self.count.open -= 1
            await self.close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @abstractmethod
    async def send_body(self, out: ResponseBody) -> None:
        """Send the body. Raises the error that ends it."""

    @abstractmethod
    def wake(self) -> None:
        """Stop waiting: the client has disconnected."""

    @abstractmethod
    async def close(self) -> None:
        """Release the source of the body."""
