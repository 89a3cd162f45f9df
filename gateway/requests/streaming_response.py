"""Responses that are sent while their body is produced, such as feeds and listings."""

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
"""A comment line of server-sent events, which clients ignore; it keeps the connection open."""


class StreamingResponse(Response):
    """An HTTP response of unknown length, sent while it is produced.

    Calling it runs `send_body`, then `close` in every case. `wake` is called if the client
    disconnects meanwhile.

    Args:
        call: The request.
        media_type: Media type of the body.
        headers: Headers in addition to `Cache-Control: no-store`.
        count: The counts of the feed in the metrics; None: not counted.
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
        """Send the response. If the NATS connection is lost, the body ends early."""
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
        """Send the body, chunk by chunk. Raises the error that ends it early."""

    @abstractmethod
    def wake(self) -> None:
        """Stop waiting in `send_body`, because the client has disconnected."""

    @abstractmethod
    async def close(self) -> None:
        """Release the source of the body, such as a subscription."""
