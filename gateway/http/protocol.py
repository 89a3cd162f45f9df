"""One HTTP/1.1 connection: requests one after another, with limits of time and size.

A request is read only after the response to the previous one. So unread input is limited to one
read of the socket. If input is refused, the client must still be able to read the response. So the
connection is half-closed, and further input is read and dropped for up to 20 s.
"""

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

from core.runtime.descriptors import DescriptorReserve
from core.runtime.sockets import end_writing
from core.runtime.step_queue import Step, step_queue
from gateway.http.disconnects import ON_DISCONNECT, Callbacks, notify
from gateway.http.head_limits import check_head, check_lists
from gateway.http.problems import Problem, bad_request, respond, response_bytes
from gateway.http.read_buffer import READ_BYTES, BoundedReads
from gateway.http.request_head import Head
from gateway.http.request_reader import RequestReader
from gateway.http.uvicorn_parts import (
    HIGH_WATER_LIMIT,
    Config,
    Flow,
    RequestCycle,
    ServerState,
    UntilClosed,
    get_local_addr,
    get_remote_addr,
    is_ssl,
)
from gateway.http.websocket_protocol import WebSocketProtocol
from gateway.http.write_timeout import WriteTimeout
from gateway.settings import Settings

_UNSENT_BYTES = 128 * 1024
"""Bytes that the kernel buffers before it can send them (TCP_NOTSENT_LOWAT).

Without this limit, the kernel buffers megabytes for each client that stops reading. Bytes that are
sent but not acknowledged by TCP are not counted.
"""
_LINES_FACTOR = 8
"""Factor between the allowed number of headers and the number of lines that are parsed at most.

The exact number is checked after parsing (`gateway.http.head_limits`).
"""
_LINGER_S = 20.0
_LINGER_IDLE_S = 5.0
_TLS_LINGER_IDLE_S = 1.0
_LINGER_BYTES = 1 << 30
_NEVER = math.inf
_CLOCK_S = 0.002
"""Seconds that a timer of uvloop may fire too early: its clock has a resolution of milliseconds."""
_LOG = logging.getLogger("uvicorn.error")
_DEFAULTS = Settings()


class HttpProtocol(BoundedReads):
    """Serves the requests of one HTTP/1.1 connection, and closes it if the client is too slow.

    Attributes:
        head_seconds: Seconds for request line and headers, from their first byte or the start of
            the connection; also for the response to a WebSocket handshake.
        head_bytes: Maximum size of request line and headers, and of a chunked body's framing, in
            bytes. `gateway.http.head_limits` checks the exact limits; this one bounds the buffer.
        write_seconds: Seconds after which a client that reads nothing of a response is closed.
        connections_max: Maximum number of connections; further ones get 503.
        descriptors: Decides if there are file descriptors for another connection; if not, the
            connection gets 503. None: there is no such limit.
    """

    head_seconds = 20.0
    head_bytes = 64 * 1024
    write_seconds = 30.0
    connections_max = 65_536
    descriptors: DescriptorReserve | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        if not config.loaded:
            config.load()
        self.loop = _loop or asyncio.get_running_loop()
        self.connections = server_state.connections
        self.transport: asyncio.Transport
        self.cycle: RequestCycle | None = None
        self._config = config
        self._state = server_state
        self._app_state = app_state
        self._reader = RequestReader(self.head_bytes)
        self._settings = _DEFAULTS
        self._flow: Flow
        self._writes: WriteTimeout
        self._scope: dict[str, Any]
        self._lingering_transport: LingeringTransport
        self._has_begun = True
        self._is_closing = False
        self._has_own_tick = False
        self._dropped = 0
        self._linger_end = _NEVER
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER

    def use_limits(self, settings: Settings, descriptors: DescriptorReserve) -> None:
        """Set the limits of the connection from the settings.

        `descriptors` decides if there are file descriptors left for the connection.
        """
        self.descriptors = descriptors
        self._settings = settings
        self.head_seconds = settings.head_seconds
        self.head_bytes = self._reader.head_bytes = settings.head_bytes
        self._reader.head_lines = _LINES_FACTOR * settings.header_count_max
        self.write_seconds = settings.write_timeout
        self.connections_max = settings.connections_max

    # -- the connection ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request, or refuse the connection with 503."""
        self.connections.add(cast(Any, self))
        self.transport = transport
        self._flow = Flow(transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._writes = WriteTimeout(transport, self.write_seconds)
        self._on_disconnect: Callbacks = set()
        self._lingering_transport = LingeringTransport(transport, self._end)
        self._scope = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if is_ssl(transport) else "http",
            "root_path": "",
            ON_DISCONNECT: self._on_disconnect,
        }
        self._set_deadline(self.head_seconds)
        reserve = self.descriptors
        no_descriptors = reserve is not None and reserve.is_needed(transport, for_http=True)
        if no_descriptors or len(self.connections) > self.connections_max:
            retry = {"Retry-After": "1"}
            problem = Problem(
                503, "too-many-connections", "this node accepts no more connections", headers=retry
            )
            self._fail(problem)
            if no_descriptors:  # lingering would hold a descriptor
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the connection has ended: wake its handlers and callbacks."""
        self.connections.discard(cast(Any, self))
        self._detach()
        self._abandon_request()
        self._flow.resume_writing()
        notify(self._on_disconnect)
        if exc is None:
            self.transport.close()

    def eof_received(self) -> bool | None:
        """Close the connection: a half-close by the client counts as a disconnect."""
        return None

    def pause_writing(self) -> None:
        """Pause responses while the socket's buffer is full, and start the write timeout."""
        self._flow.pause_writing()
        self._writes.start()

    def resume_writing(self) -> None:
        """Resume responses, and stop the write timeout."""
        self._writes.stop()
        self._flow.resume_writing()

    def shutdown(self) -> None:
        """Close the connection, after the current response if there is one."""
        if self._is_busy() and not self._is_closing:
            assert self.cycle is not None
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    # -- reading -----------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read: a large one for awaited bodies and dropped input."""
        cycle = self.cycle
        is_bulk = self._is_closing or (cycle is not None and cycle.body_wanted and cycle.more_body)
        return self._buffer if is_bulk else self._part

    def buffer_updated(self, nbytes: int) -> None:
        """Process the `nbytes` bytes that the last read has put into the buffer."""
        if self._is_closing:
            self._drop(nbytes)
        else:
            self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process input of this connection; the server may have read it before this protocol was
        set.
        """
        if not self._is_closing:
            self._reader.feed(data)
            self._advance()

    def _advance(self) -> None:
        """Process the buffered input, up to the end of a request whose response is not complete."""
        reader = self._reader
        try:
            while not self._is_closing and not self._flow.is_held:
                if reader.in_body:
                    if not self._pass_body():
                        return
                elif self._is_busy():
                    if reader.held > READ_BYTES:
                        self._flow.pause_reading()
                    return
                elif reader.has_large_head and not self._has_own_tick:
                    self._wait_for_tick(self._resume)
                    return
                elif (head := reader.read_head()) is None:
                    if not self._has_begun:
                        self._has_begun = True
                        self._set_deadline(self.head_seconds)
                    return
                else:
                    self._begin(head)
        except Problem as problem:
            self._fail(problem)

    def _pass_body(self) -> bool:
        """Pass the buffered part of the body to the request; True if the body is complete."""
        piece, is_complete = self._reader.read_body()
        cycle = self.cycle
        assert cycle is not None
        if piece:
            cycle.body += piece
        if is_complete:
            cycle.more_body = False
        elif len(cycle.body) > (HIGH_WATER_LIMIT if cycle.body_wanted else READ_BYTES):
            self._flow.pause_reading()
        if piece or is_complete:
            cycle.message_event.set()
        if self._reader.is_partial:
            self._wait_for_tick(self._resume)
        return is_complete

    def _wait_for_tick(self, step: Step) -> None:
        """Pause reading, and run an expensive step in a later loop tick."""
        self._flow.pause_reading()
        self._flow.is_held = True
        step_queue().add(step)

    def _resume(self) -> None:
        """Resume reading, and process the buffered input."""
        if self._is_closing or self.transport.is_closing():
            return
        self._flow.release()
        self._has_own_tick = True
        self._advance()
        self._has_own_tick = False

    # -- requests ----------------------------------------------------------------------------

    def _begin(self, head: Head) -> None:
        """Start a request or a WebSocket. Raises Problem 400 for a handshake with a body."""
        self._deadline = _NEVER
        framing = head.framing
        if framing.upgrades and self._is_handshake(head):
            if framing.length:
                raise bad_request("unexpected-body", "a WebSocket handshake may not have a body")
            check_lists(head.headers)
            self._wait_for_tick(partial(self._become_websocket, head))
            return
        path = head.path.decode("ascii")
        scope = self._scope | {
            "http_version": head.version,
            "method": head.method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": head.path,
            "query_string": head.query,
            "headers": head.headers.copy(),
            "state": self._app_state.copy(),
        }
        cycle = self.cycle = RequestCycle(
            scope=cast(Any, scope),
            transport=cast(asyncio.Transport, self._lingering_transport),
            flow=self._flow,
            logger=_LOG,
            access_logger=_LOG,
            access_log=False,
            default_headers=self._state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=framing.waits,
            keep_alive=not framing.is_last,
            on_response=self._end_response,
        )
        if head.version == "1.0":
            # HTTP/1.0 has no chunked encoding: the body ends with the connection (RFC 9112, 7).
            cycle.chunked_encoding = False
            cycle.expected_content_length = UntilClosed()
        task = self.loop.create_task(cycle.run_asgi(self._config.loaded_app))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _end_response(self) -> None:
        """Continue with the next request after a response is written."""
        self._state.total_requests += 1
        if self.cycle is not None:
            self.cycle.body.clear()  # the part that the handler has not read
        if self._is_closing or self.transport.is_closing():
            return
        if self._reader.in_body:
            self._linger()
            return
        if self._reader.held <= READ_BYTES:
            self._flow.resume_reading()
        self._has_begun = False
        self._set_deadline(self._config.timeout_keep_alive)
        if self._reader.held:
            self._advance()

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _abandon_request(self) -> None:
        """Mark the current request as disconnected, and wake its handler."""
        cycle = self.cycle
        if cycle is not None:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.waiting_for_100_continue = False
            cycle.message_event.set()

    # -- WebSockets --------------------------------------------------------------------------

    def _is_handshake(self, head: Head) -> bool:
        """Return True if a request is a valid WebSocket handshake of version 13 (RFC 6455, 4.2.1).

        It must not exceed the limits of a request. Other upgrades get an HTTP response (RFC 9110,
        7.8).
        """
        target = len(head.path) + len(head.query)
        try:
            check_head(self._settings, target, head.headers, head.version)
        except Problem:
            return False
        headers = dict(head.headers)
        return (
            head.method == "GET"
            and head.version == "1.1"
            and headers.get(b"upgrade", b"").lower() == b"websocket"
            and headers.get(b"sec-websocket-version", b"13") == b"13"
            and b"sec-websocket-key" in headers
            and self._config.ws_protocol_class is not None
        )

    def _become_websocket(self, head: Head) -> None:
        """Pass the connection, with the bytes after the handshake, to a WebSocket protocol."""
        if self._is_closing or self.transport.is_closing():
            return
        self._flow.release()
        made = cast(type[WebSocketProtocol], self._config.ws_protocol_class)(
            config=self._config, server_state=self._state, app_state=self._app_state
        )
        made.write_seconds = self.write_seconds
        rest = self._reader.pop_rest()
        self._is_closing = True
        self.connections.discard(cast(Any, self))
        self._detach()
        made.begin(self.transport, head, rest, within=self.head_seconds)

    # -- ends --------------------------------------------------------------------------------

    def _end(self) -> None:
        """Close the connection after all output is sent."""
        if self._is_closing:
            return
        if self._reader.in_body or self._reader.held:
            self._linger()
        else:
            self.transport.close()

    def _fail(self, problem: Problem) -> None:
        """Refuse malformed input, and close. A response that has started stays incomplete."""
        cycle = self.cycle
        can_answer = cycle is None or not cycle.response_started or cycle.response_complete
        self._abandon_request()
        if self.transport.is_closing():
            return
        if can_answer:
            self.transport.write(response_bytes(respond(problem, "")))
        self._linger()

    def _linger(self) -> None:
        """Half-close the connection, then drop input until the client closes it too, within limits.

        A socket that is closed with unread input resets the connection; the reset may arrive before
        the response (RFC 9112, 9.6).
        """
        self._is_closing = True
        self._reader.pop_rest()
        self._flow.release()
        self._linger_end = self.loop.time() + _LINGER_S
        end_writing(self.transport)
        self._drop(0)

    def _drop(self, size: int) -> None:
        """Drop `size` bytes of input after the last response.

        Beyond a limit of bytes or time, the connection is closed.
        """
        self._dropped += size
        if self._dropped > _LINGER_BYTES:
            self.transport.abort()
            return
        # TLS has no half-close: the client may wait for the end of the connection.
        idle = _LINGER_IDLE_S if self.transport.can_write_eof() else _TLS_LINGER_IDLE_S
        self._set_deadline(min(idle, self._linger_end - self.loop.time()))

    def _detach(self) -> None:
        """Stop the timers, and drop the references to this protocol.

        They form reference cycles. Without them the memory is freed at once, and not by a full
        garbage collection that blocks the event loop.
        """
        self._deadline = _NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._writes.stop()
        self._lingering_transport.close = self.transport.close

    def _set_deadline(self, seconds: float) -> None:
        """Set the deadline, in seconds from now.

        One timer serves all deadlines of the connection.
        """
        self._deadline = deadline = self.loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._set_timer(deadline)

    def _set_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self.loop.call_at(at, self._check_deadline)

    def _check_deadline(self) -> None:
        """Close the connection if its deadline has passed; incomplete headers get 408."""
        self._timer = None
        if self._deadline == _NEVER or self.transport.is_closing():
            return
        if self.loop.time() < self._deadline - _CLOCK_S:
            self._set_timer(self._deadline)
        elif self._reader.held and not self._is_closing:
            self._fail(
                Problem(
                    408,
                    "slow-headers",
                    f"the headers are not complete after {self.head_seconds:g} s",
                )
            )
        else:
            self.transport.close()
            self._writes.start()  # the last response may still be in flight


class LingeringTransport:
    """The transport of a request; its `close` lets the client read the response first."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.write = transport.write
        self.close = end
        self.is_closing = transport.is_closing
