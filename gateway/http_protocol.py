"""One HTTP connection: requests one after the other, within limits of time and size.

A request is read when the one before it was answered, so what a peer can leave here unread is one
read and what waits behind a request. Whoever is refused gets to see the answer: the connection is
closed in one direction, and what still comes is read and dropped for a while.
"""

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from core.runtime.descriptors import DescriptorReserve
from core.runtime.sockets import end_writing
from core.runtime.turns import Step, turns
from gateway.head_limits import check_head, check_lists
from gateway.presence import ON_GONE, Calls, tell
from gateway.problems import Problem, bad_request, respond, response_bytes
from gateway.read_buffer import READ_BYTES, BoundedReads
from gateway.request_cycle import RequestCycle
from gateway.request_head import Head
from gateway.request_reader import RequestReader
from gateway.settings import Settings
from gateway.websocket_protocol import WebSocketProtocol
from gateway.write_watch import WriteWatch

_UNSENT_BYTES = 128 * 1024
"""What the system keeps of an answer before it can send it. Without a limit that grows to megabytes
for each reader that takes nothing, out of sight of every limit of ours; what is on its way in a
long network is not counted."""
_LINES_FACTOR = 8
"""How many times as many headers as allowed are read to be refused as any request is."""
_LINGER_S = 20.0
_LINGER_IDLE_S = 5.0
_TLS_LINGER_IDLE_S = 1.0
_LINGER_BYTES = 1 << 30
_NEVER = math.inf
_CLOCK_S = 0.002
"""How much earlier than asked uvloop may fire: its clock has milliseconds."""
_LOG = logging.getLogger("uvicorn.error")
_DEFAULTS = Settings()


class HttpProtocol(BoundedReads):
    """Serves the requests of a connection, and ends one that is late or takes no answer.

    Attributes:
        head_seconds: how long a request line and headers may take, from the first byte or the
            beginning of the connection; and how long a handshake may wait for its answer.
        head_bytes: how many bytes they may be, and what is around the data of a chunked body. The
            exact limits are the façade's; this one bounds what is kept before it can judge.
        write_seconds: how long a caller may take not a byte of what is written.
        connections_max: how many there may be; others are answered with 503.
        descriptors: judges whether there is a file descriptor left for one more; else the same.
            None: there is no such limit.
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
        self._writes: WriteWatch
        self._scope: dict[str, Any]
        self._outlet: Outlet
        self._has_begun = True
        self._is_ending = False
        self._has_turn = False
        self._dropped = 0
        self._linger_end = _NEVER
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER

    def use_limits(self, settings: Settings, descriptors: DescriptorReserve) -> None:
        """Take limits other than those above, and refuse who comes when there are too many."""
        self.descriptors = descriptors
        self._settings = settings
        self.head_seconds = settings.head_seconds
        self.head_bytes = self._reader.head_bytes = settings.head_bytes
        self._reader.head_lines = _LINES_FACTOR * settings.header_count_max
        self.write_seconds = settings.write_timeout
        self.connections_max = settings.connections_max

    # -- the connection ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self.connections.add(cast(Any, self))
        self.transport = transport
        self._flow = Flow(transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._writes = WriteWatch(transport, self.write_seconds)
        self._on_gone: Calls = set()
        self._outlet = Outlet(transport, self._end)
        self._scope = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if is_ssl(transport) else "http",
            "root_path": "",
            ON_GONE: self._on_gone,
        }
        self._end_within(self.head_seconds)
        reserve = self.descriptors
        no_descriptors = reserve is not None and reserve.is_needed(transport, for_http=True)
        if no_descriptors or len(self.connections) > self.connections_max:
            retry = {"Retry-After": "1"}
            problem = Problem(503, "too-many-connections", "no more are taken", headers=retry)
            self._fail(problem)
            if no_descriptors:  # who lingers would have one
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.connections.discard(cast(Any, self))
        self._leave()
        self._abandon_request()
        self._flow.resume_writing()
        tell(self._on_gone)
        if exc is None:
            self.transport.close()

    def eof_received(self) -> bool | None:
        """The peer sends no more, which is taken for its leaving: the connection is closed."""
        return None

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._flow.pause_writing()
        self._writes.start()

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._writes.stop()
        self._flow.resume_writing()

    def shutdown(self) -> None:
        """End the connection after the answer that is under way, if there is one."""
        if self._is_busy() and not self._is_ending:
            assert self.cycle is not None
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    # -- reading -----------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes: more of a body that was asked for, and of what is dropped."""
        cycle = self.cycle
        is_bulk = self._is_ending or (cycle is not None and cycle.asked and cycle.more_body)
        return self._buffer if is_bulk else self._part

    def buffer_updated(self, nbytes: int) -> None:
        """Take a read."""
        if self._is_ending:
            self._drop(nbytes)
        else:
            self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what was read, here or by the protocol before."""
        if not self._is_ending:
            self._reader.feed(data)
            self._advance()

    def _advance(self) -> None:
        """Go on with what was read, up to the end of a request that is not answered yet."""
        reader = self._reader
        try:
            while not self._is_ending and not self._flow.is_held:
                if reader.in_body:
                    if not self._take_body():
                        return
                elif self._is_busy():
                    if reader.held > READ_BYTES:
                        self._flow.pause_reading()
                    return
                elif reader.has_large_head and not self._has_turn:
                    self._wait_for_turn(self._go_on)
                    return
                elif (head := reader.read_head()) is None:
                    if not self._has_begun:
                        self._has_begun = True
                        self._end_within(self.head_seconds)
                    return
                else:
                    self._begin(head)
        except Problem as problem:
            self._fail(problem)

    def _take_body(self) -> bool:
        """Give the request what is there of its body; return whether that is all of it."""
        piece, is_complete = self._reader.read_body()
        cycle = self.cycle
        assert cycle is not None
        if piece:
            cycle.body += piece
        if is_complete:
            cycle.more_body = False
        elif len(cycle.body) > (HIGH_WATER_LIMIT if cycle.asked else READ_BYTES):
            self._flow.pause_reading()
        if piece or is_complete:
            cycle.message_event.set()
        if self._reader.is_cut:
            self._wait_for_turn(self._go_on)
        return is_complete

    def _wait_for_turn(self, step: Step) -> None:
        """Read nothing until others had their turns: what comes next takes long."""
        self._flow.pause_reading()
        self._flow.is_held = True
        turns().add(step)

    def _go_on(self) -> None:
        """Take a turn."""
        if self._is_ending or self.transport.is_closing():
            return
        self._flow.release()
        self._has_turn = True
        self._advance()
        self._has_turn = False

    # -- requests ----------------------------------------------------------------------------

    def _begin(self, head: Head) -> None:
        """Run a request. Raises Problem for a handshake with a body."""
        self._deadline = _NEVER
        framing = head.framing
        if framing.upgrades and self._is_handshake(head):
            if framing.length:
                raise bad_request("unexpected-body", "a handshake has no body")
            check_lists(head.headers)
            self._wait_for_turn(partial(self._become_websocket, head))
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
            transport=cast(asyncio.Transport, self._outlet),
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
            # It knows no chunks: the end of the connection is that of the body (RFC 9112, 7).
            cycle.chunked_encoding = False
            cycle.expected_content_length = _UntilClosed()
        task = self.loop.create_task(cycle.run_asgi(self._config.loaded_app))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _end_response(self) -> None:
        """Go on with the next request: the answer to this one is written."""
        self._state.total_requests += 1
        if self.cycle is not None:
            self.cycle.body.clear()  # where nobody has asked for it
        if self._is_ending or self.transport.is_closing():
            return
        if self._reader.in_body:
            self._linger()
            return
        if self._reader.held <= READ_BYTES:
            self._flow.resume_reading()
        self._has_begun = False
        self._end_within(self._config.timeout_keep_alive)
        if self._reader.held:
            self._advance()

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _abandon_request(self) -> None:
        """Let the request under way know that nothing more comes of it, and take no answer."""
        cycle = self.cycle
        if cycle is not None:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.waiting_for_100_continue = False
            cycle.message_event.set()

    # -- WebSockets --------------------------------------------------------------------------

    def _is_handshake(self, head: Head) -> bool:
        """Whether it is a whole handshake of version 13 (RFC 6455, 4.2.1), within the limits of a
        request. Whatever else asks for another protocol is answered over HTTP (RFC 9110, 7.8).
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
        """Leave the connection, and what was read of it behind the handshake, to a WebSocket."""
        if self._is_ending or self.transport.is_closing():
            return
        self._flow.release()
        made = cast(type[WebSocketProtocol], self._config.ws_protocol_class)(
            config=self._config, server_state=self._state, app_state=self._app_state
        )
        made.write_seconds = self.write_seconds
        rest = self._reader.take_rest()
        self._is_ending = True
        self.connections.discard(cast(Any, self))
        self._leave()
        made.begin(self.transport, head, rest, within=self.head_seconds)

    # -- ends --------------------------------------------------------------------------------

    def _end(self) -> None:
        """End the connection when what is written is sent."""
        if self._is_ending:
            return
        if self._reader.in_body or self._reader.held:
            self._linger()
        else:
            self.transport.close()

    def _fail(self, problem: Problem) -> None:
        """Answer what is no request, and end; nothing fits into an answer that has begun."""
        cycle = self.cycle
        can_answer = cycle is None or not cycle.response_started or cycle.response_complete
        self._abandon_request()
        if self.transport.is_closing():
            return
        if can_answer:
            self.transport.write(response_bytes(respond(problem, "")))
        self._linger()

    def _linger(self) -> None:
        """Send the end, and drop what comes until the peer has seen it, for a while.

        A socket that is closed while something of the peer is unread is reset, and a reset may
        overtake the answer (RFC 9112, 9.6).
        """
        self._is_ending = True
        self._reader.take_rest()
        self._flow.release()
        self._linger_end = self.loop.time() + _LINGER_S
        end_writing(self.transport)
        self._drop(0)

    def _drop(self, size: int) -> None:
        """Drop what came after the last answer, within limits of size and time."""
        self._dropped += size
        if self._dropped > _LINGER_BYTES:
            self.transport.abort()
            return
        # TLS has no end of one direction: there the peer may wait for the end of the connection.
        idle = _LINGER_IDLE_S if self.transport.can_write_eof() else _TLS_LINGER_IDLE_S
        self._end_within(min(idle, self._linger_end - self.loop.time()))

    def _leave(self) -> None:
        """Stop the timers, and let go of what refers to this protocol: without it both are gone at
        once, and not with a full garbage collection, which holds up everybody and comes late.
        """
        self._deadline = _NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._writes.stop()
        self._outlet.close = self.transport.close

    def _end_within(self, seconds: float) -> None:
        """Set the deadline. One timer is kept for all of them, and looks at it when it fires."""
        self._deadline = deadline = self.loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._set_timer(deadline)

    def _set_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self.loop.call_at(at, self._look)

    def _look(self) -> None:
        """End the connection if its deadline has come."""
        self._timer = None
        if self._deadline == _NEVER or self.transport.is_closing():
            return
        if self.loop.time() < self._deadline - _CLOCK_S:
            self._set_timer(self._deadline)
        elif self._reader.held and not self._is_ending:
            self._fail(Problem(408, "slow-headers", "the headers do not end"))
        else:
            self.transport.close()
            self._writes.start()  # the last answer may still be on its way


class Flow(FlowControl):
    """Pauses and resumes reading; while it `is_held`, nothing resumes it."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, unless it is held."""
        if not self.is_held:
            super().resume_reading()

    def release(self) -> None:
        """Hold it no longer, and read on."""
        self.is_held = False
        self.resume_reading()


class Outlet:
    """What a request writes to: when it is closed, the peer gets to see what was written."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.write = transport.write
        self.close = end
        self.is_closing = transport.is_closing


class _UntilClosed(int):
    """The length of a body that lasts as long as its connection, where uvicorn counts down."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> "_UntilClosed":
        return self
