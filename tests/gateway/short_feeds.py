"""Feeds that end by themselves, for callers that read every answer to its end."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FEEDS = ("text/event-stream", "x-ndjson")


class ShortFeeds:
    """Ends server-sent events, and the lines of a watch, after their first piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; one to a feed disconnects when it has something."""
        path = scope["path"]
        if not (path.endswith((":watch", "/v1/advisories", "/tail")) or "/v1/tail/" in path):
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()
        asked = done = False

        async def receive_once() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return await receive()
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send_on(message: Message) -> None:
            nonlocal done
            await send(message)
            if message["type"] == "http.response.body":
                done = not message.get("more_body")
                if message["body"]:
                    begun.set()

        await self._app(scope, receive_once, send_on)
        if not done:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
