"""Requests between nodes: one request over a link, and one answer or a timeout of 2 s."""

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
"""Handles a request of another node: called with its body, returns the body of the answer."""


class PeerRequests:
    """Sends requests to other nodes, and answers their requests.

    Life cycle: `handle` for each kind of request, `start`, `stop`.

    Args:
        routing: Finds the links to other nodes.
    """

    def __init__(self, routing: RequestRouting) -> None:
        self._routing = routing
        self._pending: dict[bytes, asyncio.Future[bytes]] = {}
        self._handlers: dict[bytes, RequestHandler] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, verb: bytes, answer: RequestHandler) -> None:
        """Register the function that answers requests of other nodes with the name `verb`."""
        self._handlers[_NODE + verb] = answer

    def start(self) -> None:
        """Begin to receive requests and answers of other nodes."""
        self._routing.listen(_NODE, self._on_request)
        self._routing.listen(_ANSWER, self._on_answer)

    async def stop(self) -> None:
        """Stop receiving requests and answers, and cancel the handlers that run."""
        self._routing.unlisten(_NODE)
        self._routing.unlisten(_ANSWER)
        await stop(*self._tasks)

    def broadcast(self, verb: bytes, body: bytes) -> None:
        """Send a request to every other node, without waiting for answers."""
        for link in self._routing.nodes().values():
            self._routing.send(link, _NODE + verb, b"", b"", body)

    async def request(self, verb: bytes, bodies: Mapping[ServerLink, bytes]) -> list[bytes]:
        """Send each link its body; return the answers that arrive within 2 s, in any number."""
        sent = []
        for link, body in bodies.items():
            reply = _ANSWER + nuid().encode()
            self._pending[reply] = future = asyncio.get_running_loop().create_future()
            sent.append((reply, future))
            self._routing.send(link, _NODE + verb, reply, b"", body)
        try:
            if sent:
                await asyncio.wait([future for _, future in sent], timeout=_WITHIN_S)
        finally:
            for reply, _ in sent:
                self._pending.pop(reply, None)
        return [future.result() for _, future in sent if future.done()]

    def _on_answer(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        if (future := self._pending.pop(subject, None)) is not None:
            future.set_result(payload)

    def _on_request(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        handler = self._handlers.get(subject)
        if handler is not None:
            task = spawn(self._answer(handler, reply, payload), name="request of another node")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, handler: RequestHandler, reply: bytes, payload: bytes) -> None:
        answer = await handler(payload)
        # Sent to all nodes: only the requesting one knows `reply`.
        for link in self._routing.nodes().values() if reply else ():
            self._routing.send(link, reply, b"", b"", answer)
