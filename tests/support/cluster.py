"""Servers of one cluster: jetgate in threads of the test process, nats-server as processes.

    one = jetgate().start()
    other = nats_server([one]).start()
    meshed([one, other])

No wait has a fixed length. A route delivers in order: once a message on a subject of the test has
arrived, everything sent earlier over the same route has arrived too.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

import uvloop

from core.node.server import Server, ServerOptions
from core.route.settings import ClusterSettings, RouteUrl
from core.runtime.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.natsserver import binary
from tests.support.ports import free_port
from tests.support.wire import HELLO, Frame, Wire

T = TypeVar("T")

_numbers = count(1)


class JetgateMember:
    """A jetgate server in a thread of the test process; `call` runs a function on its event loop.

    Attributes:
        address: Host and port for clients.
        ws_address: Host and port for WebSocket clients; port 0 without WebSocket.
        route_port: The port for routes of other servers.
    """

    kind = "jetgate"

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.loop: asyncio.AbstractEventLoop
        self.server: Server
        self.address = self.ws_address = ("127.0.0.1", 0)
        self.route_port = 0

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self.server = Server(self._options, SystemClock())
        await self.server.listen()
        assert self.server.mesh is not None
        self.address = ("127.0.0.1", self.server.port)
        self.ws_address = ("127.0.0.1", self.server.ws_port or 0)
        self.route_port = self.server.mesh.address[1]
        self._ready.set()
        await self._done.wait()
        await self.server.close()

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the server's event loop and return its result, within 60 seconds."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def peers(self) -> set[str]:
        """Return the ids of the servers to which this one has routes."""
        mesh = self.server.mesh
        assert mesh is not None
        return self.call(lambda: set(mesh.peers))

    def server_id(self) -> str:
        return self.server.hub.server_id

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60), "the server did not start"
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._done.set)
            self._thread.join(60)


class NatsMember:
    """A nats-server process with a configuration file.

    Args:
        port: The port for routes; 0 chooses a free one.
        lines: Lines of the configuration file at the top level.
        cluster: Lines of its `cluster` block.
    """

    kind = "nats-server"

    def __init__(self, port: int, lines: Iterable[str], cluster: Iterable[str]) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.route_port = port or free_port()
        self._lines, self._cluster = tuple(lines), tuple(cluster)
        self._process: subprocess.Popen[bytes] | None = None
        self.address = self.ws_address = ("127.0.0.1", 0)
        self._monitor = ""

    def add(self, *lines: str) -> None:
        """Add lines to the configuration; call this before `start`."""
        self._lines += lines

    def start(self) -> Self:
        inner = (f'listen: "127.0.0.1:{self.route_port}"', *self._cluster)
        own = ("listen: 127.0.0.1:-1", "http: 127.0.0.1:-1", *self._lines)
        path = self.dir / "server.conf"
        path.write_text("\n".join((*own, "cluster {", *inner, "}", "")))
        with (self.dir / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary(), "-DV", "-c", str(path), "--ports_file_dir", str(self.dir)],
                stdout=log,
                stderr=log,
            )
        ports = eventually(self._ports, within=60)
        host, port = ports["nats"][0].removeprefix("nats://").rsplit(":", 1)
        self.address = (host, int(port))
        if "websocket" in ports:
            host, port = ports["websocket"][0].removeprefix("ws://").rsplit(":", 1)
            self.ws_address = (host, int(port))
        self._monitor = ports["monitoring"][0]
        return self

    def _ports(self) -> dict[str, list[str]] | None:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            path = self.dir / f"nats-server_{self._process.pid}.ports"
            return dict(json.loads(path.read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def page(self, name: str) -> dict[str, object]:
        """Return a page of the monitoring port, such as `varz`, decoded from JSON."""
        with urllib.request.urlopen(f"{self._monitor}/{name}", timeout=60) as answer:
            return dict(json.loads(answer.read()))

    def peers(self) -> set[str]:
        """Return the ids of the servers to which this one has routes."""
        routes = self.page("routez")["routes"]
        assert isinstance(routes, list)
        return {route["remote_id"] for route in routes}

    def server_id(self) -> str:
        return str(self.page("varz")["server_id"])

    def log(self) -> str:
        return (self.dir / "log").read_text(errors="replace")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.dir, ignore_errors=True)


Member = JetgateMember | NatsMember


def jetgate(
    routes: Sequence[Member] = (),
    *,
    name: str = "test",
    ports: Sequence[int] = (),
    options: ServerOptions | None = None,
    given: dict[str, str] | None = None,
    **settings: object,
) -> JetgateMember:
    """Return a jetgate server, not started yet.

    Args:
        routes: The members to which it opens routes.
        name: Name of the cluster.
        ports: Ports to which it opens routes instead of those of `routes`.
        options: Options of the server; by default those of a server without JetStream.
        given: Further fields of each route URL, such as user and password.
        settings: Further settings of the cluster.
    """
    base = ClusterSettings(name=name, host="127.0.0.1", port=0)
    dialled = ports or [member.route_port for member in routes]
    urls = tuple(RouteUrl(host="127.0.0.1", port=port, **(given or {})) for port in dialled)
    cluster = replace(base, routes=urls, **settings)  # type: ignore[arg-type]
    chosen = options or ServerOptions(jetstream=False)
    return JetgateMember(replace(chosen, host="127.0.0.1", port=0, cluster=cluster))


def nats_server(
    routes: Sequence[Member] = (),
    *,
    name: str = "test",
    port: int = 0,
    ports: Sequence[int] = (),
    lines: Sequence[str] = (),
    cluster: Sequence[str] = (),
    given: str = "",
) -> NatsMember:
    """Return a nats-server, not started yet.

    Args:
        routes: The members to which it opens routes.
        name: Name of the cluster; empty for none.
        port: Its own port for routes; 0 chooses a free one.
        ports: Ports to which it opens routes instead of those of `routes`.
        lines: Lines of its configuration file at the top level.
        cluster: Lines of its `cluster` block.
        given: Credentials for the route URLs, as `user:password@`.
    """
    dialled = ports or [member.route_port for member in routes]
    urls = ", ".join(f'"nats-route://{given}127.0.0.1:{each}"' for each in dialled)
    named = (f"name: {name}",) if name else ()
    return NatsMember(port, lines, (*named, f"routes: [{urls}]", *cluster))


def meshed(members: Sequence[Member]) -> None:
    """Wait until every member has a route to every other one.

    Raises AssertionError if a member does not have them within 60 seconds.
    """
    ids = {member.server_id() for member in members}
    for member in members:
        others = ids - {member.server_id()}
        eventually(partial(_knows, member, others), within=60)


def _knows(member: Member, peers: set[str]) -> bool:
    return member.peers() >= peers


class Client(Wire):
    """A NATS connection to a member of a cluster.

    `await_interest` waits until its subscriptions are known to other members; `after` waits for
    messages from them.
    """

    def __init__(self, member: Member, connect: bytes = HELLO) -> None:
        super().__init__(member.address)
        try:
            self.info = self.hello(connect)
        except BaseException:
            self.close()
            raise

    def await_interest(self, *publishers: "Client") -> None:
        """Wait until the servers of these publishers know all subscriptions of this connection.

        A server announces subscriptions in order. Therefore this connection subscribes to one more
        subject, and each publisher sends requests to that subject until one has a responder.
        """
        number = next(_numbers)
        subject = b"_settle.%d" % number
        self.send(b"SUB %b settle%d\r\nPING\r\n" % (subject, number))
        self.until(b"PONG")
        for publisher in publishers:
            if publisher is self:
                continue
            publisher.send(b"SUB _answer.%d answer%d\r\n" % (number, number))
            ask = b"PUB %b _answer.%d 0\r\n\r\n" % (subject, number)
            eventually(partial(publisher.is_heard, ask), every=0.005)
            publisher.send(b"UNSUB answer%d\r\n" % number)
        self.send(b"UNSUB settle%d\r\n" % number)
        self.flush()

    def is_heard(self, request: bytes) -> bool:
        """Send a request and return True if its subject has a subscriber."""
        return not self.ask(request)

    def ask(self, request: bytes) -> list[Frame]:
        """Send a request and return the frames that arrive before the PONG of a following PING.

        This is a no-responders status if the subject has no subscriber, else nothing.
        """
        self.send(request)
        return self.flush()

    def until(self, line: bytes) -> list[Frame]:
        """Receive frames up to the one with this control line; return those before it."""
        found: list[Frame] = []
        while (frame := self.frame()).line != line:
            found.append(frame)
        return found

    def after(self, publisher: "Client", data: bytes) -> list[Frame]:
        """Send `data` (PUB lines) through `publisher`; return the messages that arrive here."""
        return gathered(publisher, [self], data)[0]


def gathered(publisher: Client, clients: Sequence[Client], data: bytes) -> list[list[Frame]]:
    """Send `data` (PUB lines) through one connection; return the messages that each client gets.

    A last message to each client, on a subject of its own, marks the end; it is not returned.
    """
    numbers = [next(_numbers) for _ in clients]
    for number, client in zip(numbers, clients, strict=True):
        client.send(b"SUB _fence.%d fence%d\r\n" % (number, number))
        client.await_interest(publisher)
    fences = b"".join(b"PUB _fence.%d 0\r\n\r\n" % number for number in numbers)
    publisher.send(data + fences)
    found = []
    for number, client in zip(numbers, clients, strict=True):
        frames = client.until(b"MSG _fence.%d fence%d 0" % (number, number))
        client.send(b"UNSUB fence%d\r\n" % number)
        found.append([frame for frame in frames if not frame.subject.startswith(b"_")])
    return found
