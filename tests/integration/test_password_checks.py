"""Passwords that take long to check: what others notice of it, and what a reload does meanwhile."""

# Subject: permissions

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import bcrypt
import pytest

from core.auth.authenticator import SlowCheck
from core.auth.users import Permissions, Rule, User, Users
from core.units import Seconds
from tests.support.core_server import CoreServer
from tests.support.eventually import eventually
from tests.support.websocket import frame, request
from tests.support.wire import Closed, Wire

_HASH = {name: bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode() for name in ("ann", "bob")}
_ANN, _BOB, _NOBODY = User("ann", _HASH["ann"]), User("bob", _HASH["bob"]), User("nobody", "x")
_HELD = 60
"""Checks that a test has wait."""


class Gate:
    """Stops every check until `open`; notes whose it was, and that it is made in no other thread.

    Attributes:
        begun: the users whose password was checked.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self._open = threading.Event()
        real = SlowCheck.run

        def run(check: SlowCheck) -> bool:
            assert threading.current_thread().name.startswith("password")
            self.begun.append(check.user)
            assert self._open.wait(60)
            return real(check)

        patch.setattr(SlowCheck, "run", run)

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.open()


@pytest.fixture
def server(gate: Gate) -> Iterator[CoreServer]:
    del gate  # it is there before
    users = Users(users=(_ANN, _BOB, _NOBODY), no_auth_user="nobody", timeout=Seconds(60))
    with CoreServer(users=users) as found:
        found.hub.password_checks._threads = 1
        yield found


def _connect(user: str, password: str = "") -> bytes:
    fields = {"user": user, "pass": password or user, "verbose": False}
    return b"CONNECT %b\r\n" % json.dumps(fields).encode()


def _begin(server: CoreServer, data: bytes, source: str = "127.0.0.1") -> Wire:
    wire = Wire(server.address, source=source)
    wire.frame()
    wire.send(data)
    return wire


def _over_websocket(server: CoreServer, data: bytes) -> Wire:
    wire = Wire(server.websocket)
    wire.send(request())
    while wire.frame().line:
        pass
    wire.send(frame(data))
    return wire


def _waiting(server: CoreServer) -> int:
    return server.call(lambda: len(server.hub.password_checks._queued))


@pytest.mark.parametrize("port_used", ["tcp", "websocket"])
def test_a_waiting_check_ends_with_its_connection(
    server: CoreServer, gate: Gate, port_used: str
) -> None:
    begin = _over_websocket if port_used == "websocket" else _begin
    with ExitStack() as stack:
        for number in range(_HELD):
            data = _connect("bob" if number % 2 else "unknown", f"guess {number}")
            stack.enter_context(begin(server, data))
        eventually(lambda: _waiting(server) >= min(_HELD, 48))
    eventually(lambda: _waiting(server) == 1)  # the one that is being made
    with _begin(server, _connect("ann")) as ann:
        gate.open()
        assert ann.flush() == []

    assert len(gate.begun) == 2


def test_others_get_in_while_connections_that_guess_stay_open(
    server: CoreServer, gate: Gate
) -> None:
    with ExitStack() as stack:
        for number in range(_HELD):
            stack.enter_context(_begin(server, _connect("bob", f"guess {number}")))
        eventually(lambda: _waiting(server) > 30)
        ann = stack.enter_context(_begin(server, _connect("ann")))
        bob = stack.enter_context(_begin(server, _connect("bob"), source="127.0.0.2"))
        eventually(lambda: _waiting(server) > 32)
        gate.open()
        assert (ann.flush(), bob.flush()) == ([], [])

        assert "ann" in gate.begun[:5]


def test_a_later_connect_delays_no_other(server: CoreServer, gate: Gate) -> None:
    later = b"PING\r\n" + _connect("ann") + b"PUB a 1\r\nx\r\nPING\r\n"
    with _begin(server, b"SUB a 1\r\n") as other, _begin(server, later) as wire:
        assert [said.line for said in other.flush()] == [b"+OK"]
        assert wire.frame().line == b"PONG"
        eventually(lambda: gate.begun == ["ann"])
        assert other.flush() == []  # served, and nothing was published yet
        wire.send(b"PUB a 1\r\ny\r\n")
        gate.open()

        assert [other.frame().payload for _ in range(2)] == [b"x", b"y"]
        assert wire.frame().line == b"PONG"


def test_a_later_connect_with_a_wrong_password_ends_the_connection(
    server: CoreServer, gate: Gate
) -> None:
    gate.open()
    with _begin(server, b"PING\r\n" + _connect("ann", "wrong") + b"PING\r\n") as wire:
        assert wire.frame().line == b"PONG"
        assert wire.frame().line == b"-ERR 'Authorization Violation'"
        with pytest.raises(Closed):
            wire.frame()


def test_the_timeout_runs_for_waiting_connections_and_not_for_those_being_checked(
    gate: Gate,
) -> None:
    with CoreServer(users=Users(users=(_ANN, _BOB), timeout=Seconds(0.3))) as server:
        server.hub.password_checks._threads = 1
        with _begin(server, _connect("ann")) as ann, _begin(server, _connect("bob", "x")) as late:
            assert late.frame().line == b"-ERR 'Authentication Timeout'"
            gate.open()
            assert ann.flush() == []


def _reload(server: CoreServer, *users: User) -> None:
    server.call(lambda: server.hub.use_users(Users(users=users, timeout=Seconds(60)), None))


def test_a_reload_checks_the_passwords_of_connections_without_delaying_other_clients(
    server: CoreServer, gate: Gate
) -> None:
    gate.open()
    with ExitStack() as stack:
        ann = stack.enter_context(_begin(server, _connect("ann") + b"SUB a 1\r\nSUB b 2\r\n"))
        bob = stack.enter_context(_begin(server, _connect("bob")))
        other = stack.enter_context(_begin(server, _connect("nobody", "x")))
        for wire in (ann, bob, other):
            assert wire.flush() == []
        gate.close()
        again = bcrypt.hashpw(b"ann", bcrypt.gensalt(4)).decode()
        another = bcrypt.hashpw(b"another", bcrypt.gensalt(4)).decode()
        only_a = Permissions(subscribe=Rule(("a",)))
        _reload(server, User("ann", again, only_a), User("bob", another), User("nobody", "x"))
        eventually(lambda: len(gate.begun) == 3)
        ann.send(b"PUB a 1\r\nx\r\n")
        other.send(b"PUB a 1\r\ny\r\nPUB b 1\r\nz\r\n")
        assert other.flush() == []

        assert ann.frame().line.startswith(b'-ERR \'Permissions Violation for Subscription to "b"')
        assert ann.frame().payload == b"y"  # what it is given is what it may have now
        gate.open()
        assert ann.frame().payload == b"x"
        assert bob.frame().line == b"-ERR 'Authorization Violation'"


def test_a_reload_leaves_new_connections_the_time_to_authenticate(
    server: CoreServer, gate: Gate
) -> None:
    gate.open()
    with Wire(server.address) as silent, _begin(server, b"CONN") as begun:
        silent.frame()
        _reload(server, _ANN)
        silent.send(_connect("ann"))
        begun.send(_connect("ann").removeprefix(b"CONN"))
        assert silent.flush() == []
        assert begun.flush() == []


def test_users_that_a_reload_brings_are_asked_for(gate: Gate) -> None:
    gate.open()
    with CoreServer() as server, ExitStack() as stack:
        silent = stack.enter_context(Wire(server.address))
        silent.frame()
        begun, anybody = (
            stack.enter_context(_begin(server, line)) for line in (b"CON", b"SUB a 1\r\n")
        )
        assert [said.line for said in anybody.flush()] == [b"+OK"]
        _reload(server, _ANN)

        silent.send(_connect("ann"))
        begun.send(_connect("ann").removeprefix(b"CON"))
        assert (silent.flush(), begun.flush()) == ([], [])
        assert anybody.frame().line == b"-ERR 'Authorization Violation'"


@pytest.mark.parametrize("change", ["gone", "another"])
def test_a_check_that_began_before_a_reload_admits_no_removed_user(
    server: CoreServer, gate: Gate, change: str
) -> None:
    with _begin(server, _connect("ann")) as ann:
        eventually(lambda: gate.begun == ["ann"])
        if change == "gone":
            _reload(server, _BOB)
        else:
            _reload(server, User("ann", _HASH["bob"]))
        gate.open()

        assert ann.frame().line == b"-ERR 'Authorization Violation'"


def test_a_reload_without_users_serves_waiting_connections(server: CoreServer, gate: Gate) -> None:
    with Wire(server.address) as silent, _begin(server, _connect("ann")) as ann:
        silent.frame()
        eventually(lambda: gate.begun == ["ann"])
        server.call(lambda: server.hub.use_users(None, None))
        gate.open()
        silent.send(b"SUB a 1\r\n")

        assert [said.line for said in silent.flush()] == [b"+OK"]
        assert ann.flush() == []
