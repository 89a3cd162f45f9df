"""Responses that last: they begin at once, and end with their caller or with what they show."""

from abc import abstractmethod
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import ClientError
from gateway.call import Call
from gateway.feed_counts import FeedCount
from gateway.raw_messages import INERT
from gateway.response_body import ResponseBody

EVENTS = "text/event-stream"
COMMENT = b":\n\n"
"""An event that no reader sees: the connection lives."""


class Lasting(Response):
    """A body of unknown length, sent as it comes. `close` is called in any case.

    Args:
        call: the request.
        media_type: of the body.
        headers: more headers.
        count: where a feed is counted; None: it is none.
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
        """Send everything. A connection to the server that is lost ends the body early."""
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
        """Send the body. Raises what ends it."""

    @abstractmethod
    def wake(self) -> None:
        """Wait no longer: the caller has gone."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what was read."""
