"""One request and its answer, as ASGI has them: uvicorn's, on a connection of ours."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class RequestCycle(RequestResponseCycle):
    """Tells the caller that the connection ends where its body will not be read.

    Attributes:
        asked: the application has asked for the body.
    """

    asked = False

    async def send(self, message: Any) -> None:
        """Take an event of the application.

        A caller that is still sending learns with the head of the answer that nothing after it is
        read; but for answers that are sent while the body is read, such as those to lines.
        """
        if (
            self.more_body
            and not self.response_started
            and (not self.asked or message.get("status", 0) >= 400)
        ):
            self.keep_alive = False
        await super().send(message)

    async def receive(self) -> Any:
        """Return what comes next of the body, or that the caller has gone."""
        self.asked = True
        return await super().receive()
