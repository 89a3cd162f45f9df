"""Requests between nodes: one request over a link, and one answer or a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from core.api.request_routing import RequestRouting
from core.runtime.nuid import nuid
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.pubsub.receivers import ServerLink

_WITHIN_S = 2.0
_NODE = b"NODE."
_ANSWER = b"ANSWER."

RequestHandler = Callable[[bytes], Awaitable[bytes]]
"""Returns the answer to a request, given its body."""


class PeerRequests:
    """Sends requests to other nodes, and answers theirs. Life cycle: `serve`, `start`, `stop`.

    Args:
        places: The other nodes.
    """

    def __init__(self, places: RequestRouting) -> None:
        self._places = places
        self._asked: dict[bytes, asyncio.Future[bytes]] = {}
        self._answerers: dict[bytes, RequestHandler] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, verb: bytes, answer: RequestHandler) -> None:
        """Register the function that answers requests of a verb."""
        self._answerers[_NODE + verb] = answer

    def start(self) -> None:
        """Begin to receive requests and answers of other nodes."""
        self._places.listen(_NODE, self._on_asked)
        self._places.listen(_ANSWER, self._on_answer)

    async def stop(self) -> None:
        """Stop receiving requests and answers."""
        self._places.unlisten(_NODE)
        self._places.unlisten(_ANSWER)
        await stop(*self._tasks)

    def tell(self, verb: bytes, body: bytes) -> None:
        """Send a request without answer to every other node."""
        for link in self._places.nodes().values():
            self._places.send(link, _NODE + verb, b"", b"", body)

    async def ask(self, verb: bytes, bodies: Mapping[ServerLink, bytes]) -> list[bytes]:
        """Send each link its body; return the answers that arrive within two seconds."""
        asked = []
        for link, body in bodies.items():
            reply = _ANSWER + nuid().encode()
            self._asked[reply] = future = asyncio.get_running_loop().create_future()
            asked.append((reply, future))
            self._places.send(link, _NODE + verb, reply, b"", body)
        try:
            if asked:
                await asyncio.wait([future for _, future in asked], timeout=_WITHIN_S)
        finally:
            for reply, _ in asked:
                self._asked.pop(reply, None)
        return [future.result() for _, future in asked if future.done()]

    def _on_answer(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        if (future := self._asked.pop(subject, None)) is not None:
            future.set_result(payload)

    def _on_asked(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        answerer = self._answerers.get(subject)
        if answerer is not None:
            task = spawn(self._answer(answerer, reply, payload), name="asked by another node")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, answerer: RequestHandler, reply: bytes, payload: bytes) -> None:
        answer = await answerer(payload)
        for link in self._places.nodes().values() if reply else ():  # Only the asker knows `reply`.
            self._places.send(link, reply, b"", b"", answer)
