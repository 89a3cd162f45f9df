"""A batch publish whose NDJSON request and response are streamed at the same time.

Each chunk of the body is published at once, and the next one is read while messages are
unacknowledged. A writer task sends the results in order. If the client does not read the response,
reading of its body pauses at the limit of unread results; `Prefer: return=minimal` avoids that,
because successes have no result lines.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from starlette.responses import Response
from starlette.types import Message as Event
from starlette.types import Receive, Scope, Send

from core.client import ClientError
from core.runtime.step_queue import step_queue
from core.runtime.tasks import spawn, stop
from gateway.http.disconnects import Disconnected
from gateway.http.problems import Problem, respond
from gateway.http.responses import NDJSON
from gateway.messages import idempotency
from gateway.messages.batch_lines import SLICE_LINES, BatchPart, LineDecoder, ResultCounter
from gateway.requests.call import Call

_FAILED_LINES = 1024
"""Failed lines per loop tick; each takes microseconds."""
_SMALL_BYTES = 256 * 1024


class PublishStream(Response):
    """The NDJSON response to an NDJSON body; it reads the body and publishes the lines.

    `brief`: successes are only counted (`Prefer: return=minimal`).
    """

    media_type = NDJSON

    def __init__(self, call: Call, *, brief: bool) -> None:
        super().__init__(None)
        del self.headers["content-length"]
        self._call = call
        self._settings = call.gateway.settings
        self._counter = ResultCounter(brief)
        self._lines = LineDecoder(self._settings, call.gateway.client.info.max_payload)
        self._parts: deque[BatchPart] = deque()
        self._unread = 0
        self._unacked = 0
        self._unacked_bytes = 0
        self._over = False
        self._broken: Problem | None = None
        self._event = asyncio.Event()
        self._room = asyncio.Event()
        self._tail = b""
        self._skipping = False
        self._has_read = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = spawn(self._write(send), name="publish results")
        try:
            more = True
            while more:
                try:
                    chunk, more = await self._call.chunk(self._settings.stream_idle_max)
                except Problem as problem:
                    self._broken = problem
                    break
                for lines in self._split(chunk, last=not more):
                    part = self._too_long() if lines is None else await self._read(lines)
                    if part.size:
                        await self._submit(part, writer)
            self._over = True
            self._event.set()
            await writer
        except Disconnected:
            pass
        finally:
            await stop(writer)
            for part in self._parts:
                if part.replies is not None:
                    part.replies.done.cancel()

    async def _read(self, lines: list[bytes]) -> BatchPart:
        """Decode a list of lines.

        The first small list of a chunk is decoded at once, others in a later loop tick.
        """
        is_first, self._has_read = not self._has_read, True
        if not is_first or sum(map(len, lines)) > _SMALL_BYTES:
            await step_queue().wait()
        return self._lines.decode(lines)

    def _split(self, chunk: bytes, *, last: bool) -> Iterator[list[bytes] | None]:
        """Split a chunk of the body into lists of lines; None stands for a line that is too long.

        An unfinished line is kept for the next chunk.
        """
        self._has_read = False
        lines = chunk.split(b"\n")
        if self._skipping:
            if len(lines) == 1 and not last:
                return
            self._skipping = False
            lines[0] = b""
        elif self._tail:
            lines[0] = self._tail + lines[0]
        self._tail = b"" if last else lines.pop()
        long = [i for i, line in enumerate(lines) if len(line) > self._settings.line_max]
        begin = 0
        for i in long:
            yield from _slices(lines[begin:i])
            yield None
            begin = i + 1
        yield from _slices(lines[begin:])
        if len(self._tail) > self._settings.line_max:
            self._tail, self._skipping = b"", True
            yield None

    def _too_long(self) -> BatchPart:
        part = BatchPart()
        detail = f"line: longer than {self._settings.line_max} bytes"
        part.refuse(Problem(413, "body-too-large", detail))
        return part

    async def _submit(self, part: BatchPart, writer: "asyncio.Task[None]") -> None:
        if len(part.batch):
            try:
                part.replies = self._call.gateway.js.start_many(part.batch)
            except ClientError:
                part.replies = None
        self._parts.append(part)
        self._unread += part.size
        self._unacked += len(part.batch)
        self._unacked_bytes += part.batch.nbytes
        self._event.set()
        settings = self._settings
        while (
            self._unread > settings.batch_unread_max
            or self._unacked > settings.batch_unacked_max
            or self._unacked_bytes > settings.batch_unacked_bytes_max
        ):
            if writer.done():
                raise Disconnected
            self._room.clear()
            await self._room.wait()

    async def _write(self, send: Send) -> None:
        """Send results in order. Stop if the client reads nothing for `write_timeout` seconds."""
        started = False
        failed = 0
        try:
            while not (self._over and not self._parts):
                self._event.clear()
                lines = await self._results()
                if lines:
                    if not started:
                        started = True
                        await send(self._start())
                    body = b"\n".join(lines) + b"\n"
                    async with asyncio.timeout(self._settings.write_timeout):
                        await send(_body(body, more=True))
                    if self._counter.failed - failed >= _FAILED_LINES:
                        failed = self._counter.failed
                        await step_queue().wait()
                elif not self._over:
                    await self._event.wait()
            if self._broken is not None:
                if not started:  # else the response stays incomplete
                    response = respond(self._broken, self._call.scope["path"])
                    await response(self._call.scope, self._call.receive, send)
                return
            if not started:
                await send(self._start())
            end = self._counter.summary() + b"\n" if self._counter.brief else b""
            await send(_body(end, more=False))
        except TimeoutError:
            pass
        finally:
            self._room.set()

    def _start(self) -> Event:
        return {"type": "http.response.start", "status": 200, "headers": self.raw_headers}

    async def _results(self) -> list[bytes]:
        """Return result lines, in order, for the oldest messages without results.

        They are those of the next `BatchPart`, after its replies have arrived, and of the parts
        after it whose replies have arrived too.
        """
        lines: list[bytes] = []
        while self._parts and (
            not lines or (len(lines) < SLICE_LINES and _is_settled(self._parts[0]))
        ):
            part = self._parts[0]
            if part.replies is not None:
                timeout = self._settings.publish_timeout
                await idempotency.await_acks(
                    self._call.gateway.js, part.batch, part.replies, timeout
                )
            self._parts.popleft()
            self._unread -= part.size
            self._unacked -= len(part.batch)
            self._unacked_bytes -= part.batch.nbytes
            lines += filter(None, part.results(self._counter))
            self._room.set()
        return lines


def _slices(lines: list[bytes]) -> Iterator[list[bytes]]:
    for begin in range(0, len(lines), SLICE_LINES):
        yield lines[begin : begin + SLICE_LINES]


def _is_settled(part: BatchPart) -> bool:
    return part.replies is None or part.replies.done.done()


def _body(body: bytes, *, more: bool) -> Event:
    return {"type": "http.response.body", "body": body, "more_body": more}
