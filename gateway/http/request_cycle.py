"""One request and its response in ASGI: uvicorn's cycle on a connection of `HttpProtocol`."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class RequestCycle(RequestResponseCycle):
    """A cycle that closes the connection after a response if the body will not be read.

    Attributes:
        asked: True once the application has asked for the body.
    """

    body_wanted = False

    async def send(self, message: Any) -> None:
        """Process an event of the application.

        If the client still sends a body that is not read, the head of the response announces the
        close. This does not apply to successful responses that are sent while the body is read,
        such as those to NDJSON.
        """
        if (
            self.more_body
            and not self.response_started
            and (not self.body_wanted or message.get("status", 0) >= 400)
        ):
            self.keep_alive = False
        await super().send(message)

    async def receive(self) -> Any:
        """Return the next piece of the body, or the disconnect."""
        self.body_wanted = True
        return await super().receive()
