"""Users, tokens and permissions: every answer is that of the reference server."""

# Subject: permissions

import asyncio
import dataclasses
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import bcrypt
import nats
import pytest

from core.auth.grant import Grant
from core.auth.users import Permissions, Responses, Rule, User, Users
from core.units import Seconds
from tests.support.core_server import CoreServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Frame, Silence, Wire


def _hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4, b"2a")).decode()


_HASH = _hashed(b"secret")
_HASHES = {
    "long": _hashed(b"a" * 72),
    "nul": _hashed(b"a\0b"),
    "single": _hashed(b"a"),
    "empty": _hashed(b""),
    "replaced": _hashed("é\ufffd".encode()),
    "x": "$2x" + _hashed(b"x")[3:],
    "y": "$2y" + _hashed(b"y")[3:],
    "short": "$2a$04$short",
}
_USERS = Users(
    timeout=Seconds(60),  # a machine that stands still for a while is not too late
    users=(
        User("all", "all"),
        User(
            "mixed",
            "mixed",
            Permissions(
                Rule(("foo.*", "$SYS.REQ.USER.INFO"), ("foo.no",)),
                Rule(("bar.*", "q.* v1.*", "_INBOX.>"), ("bar.no", "q.no v1.x")),
                Responses(),
            ),
        ),
        User("narrow", "narrow", Permissions(Rule(("x.>",)), Rule(("foo.*",)))),
        User("deny", "deny", Permissions(subscribe=Rule(None, ("bar.no", "w.> dq")))),
        User("answer", "answer", Permissions(subscribe=Rule((">",)), responses=Responses(2))),
        User("hashed", _HASH),
        *(User(name, text) for name, text in _HASHES.items()),
    ),
)
_REFERENCE = f"""{{ timeout: 60, users: [
  {{user: all, password: all}}
  {{user: mixed, password: mixed, permissions: {{
     publish: {{allow: ["foo.*", "$SYS.REQ.USER.INFO"], deny: "foo.no"}}
     subscribe: {{allow: ["bar.*", "q.* v1.*", "_INBOX.>"], deny: ["bar.no", "q.no v1.x"]}}
     allow_responses: true}}}}
  {{user: narrow, password: narrow, permissions: {{publish: "x.>", subscribe: "foo.*"}}}}
  {{user: deny, password: deny, permissions: {{subscribe: {{deny: ["bar.no", "w.> dq"]}}}}}}
  {{user: answer, password: answer, permissions: {{
     allow_responses: {{max: 2, expires: "2m"}}, subscribe: ">"}}}}
  {{user: hashed, password: "{_HASH}"}}
  {chr(10).join(f'{{user: "{name}", password: "{text}"}}' for name, text in _HASHES.items())}
]}}"""

_Address = tuple[str, int]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[_Address, _Address]]:
    with CoreServer(users=_USERS) as ours, NatsServer({"authorization": _REFERENCE}) as theirs:
        yield ours.address, theirs.address


@pytest.fixture(scope="module")
def hasty() -> Iterator[tuple[_Address, _Address]]:
    """Both, where whoever connects has half a second to say who it is."""
    text = _REFERENCE.replace("timeout: 60", "timeout: 0.5")
    users = dataclasses.replace(_USERS, timeout=Seconds(0.5))
    with CoreServer(users=users) as ours, NatsServer({"authorization": text}) as theirs:
        yield ours.address, theirs.address


def _connect(stack: ExitStack, address: _Address, user: str, **more: Any) -> Wire:
    wire = stack.enter_context(Wire(address))
    assert wire.frame().line.startswith(b"INFO")
    fields = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    fields |= {"user": user, "pass": user} | more
    wire.send(b"CONNECT %b\r\n" % json.dumps(fields).encode())
    wire.flush()
    return wire


def _shown(frames: list[Frame]) -> list[tuple[bytes, bytes]]:
    return sorted((frame.line, frame.headers + frame.payload) for frame in frames)


def _play(address: _Address, steps: list[tuple[str, bytes]], **more: Any) -> list[Any]:
    """Send each step on its user's connection; return what everybody got after each."""
    log: list[Any] = []
    with ExitStack() as stack:
        wires: dict[str, Wire] = {}
        for user, data in steps:
            if user not in wires:
                wires[user] = _connect(stack, address, user, **more)
            wires[user].send(data)
            own = wires[user].flush()  # what others get is on its way to them now
            got = {name: _shown(wire.flush()) for name, wire in wires.items()}
            got[user] = sorted(_shown(own) + got[user])
            log.append((user, data, got))
    return log


_SUBSCRIBING = [
    ("mixed", b"SUB %b %d\r\n" % (what, number))
    for number, what in enumerate(
        [
            *(b"bar.x", b"bar.>", b"bar.*", b"bar.no", b"q.x", b"q.x v1.a", b"q.x v2.a"),
            *(b"q.no v1.x", b"q.* v1.x", b"q.> v1.x", b">", b"bar.x qq", b'zz q"q', b"bar..x"),
            *(b"zz..x", b"\xff", b"_INBOX.x"),
        ]
    )
] + [("mixed", b"SUB zzz 0\r\n"), ("narrow", b"SUB foo.> 1\r\n"), ("narrow", b"SUB bar 2\r\n")]

_PUBLISHING = [
    ("all", b"SUB > 1\r\n"),
    ("mixed", b"PUB foo.a 0\r\n\r\n"),
    ("mixed", b"PUB foo.no 0\r\n\r\n"),
    ("mixed", b"PUB foo.> 0\r\n\r\n"),
    ("mixed", b"PUB foo.a.b 0\r\n\r\n"),
    ("mixed", b'PUB z"\xff\x01 0\r\n\r\n'),
    ("mixed", b"PUB foo.a $JS.ACK.x 0\r\n\r\n"),
    ("mixed", b"HPUB foo.no 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
    ("narrow", b"PUB y 0\r\n\r\n" * 20),
    ("narrow", b"PUB x.y 0\r\n\r\n" * 20),
    ("answer", b"PUB y 0\r\n\r\n"),
]

_DELIVERING = [
    ("deny", b"SUB bar.no qq 1\r\nSUB bar.* 2\r\nSUB w.a dq 3\r\nSUB w.a dr 4\r\nSUB w.* 5\r\n"),
    ("deny", b"SUB > dq 6\r\n"),
    ("narrow", b"SUB foo.> 1\r\n"),
    *(
        ("all", b"PUB %b 2\r\nhi\r\n" % subject)
        for subject in (b"bar.no", b"bar.x", b"bar.no", b"w.a", b"w.b", b"foo.a", b"foo.a.b")
    ),
    ("all", b"SUB inbox 9\r\nPUB bar.no inbox 0\r\n\r\n"),
]

_ANSWERING = [
    ("all", b"SUB r1 1\r\nSUB r2 2\r\n"),
    ("answer", b"SUB service 1\r\n"),
    ("mixed", b"SUB bar.x 1\r\nSUB bar.* 2\r\nSUB bar.x q 3\r\n"),
    ("all", b"PUB service r1 0\r\n\r\n"),
    *[("answer", b"PUB r1 0\r\n\r\n")] * 3,
    ("answer", b"PUB r2 0\r\n\r\n"),
    ("all", b"PUB bar.x r2 0\r\n\r\n"),
    *[("mixed", b"PUB r2 0\r\n\r\n")] * 3,
]


@pytest.mark.parametrize(
    "steps",
    [_SUBSCRIBING, _PUBLISHING, _DELIVERING, _ANSWERING],
    ids=["subscribing", "publishing", "delivering", "answering"],
)
@pytest.mark.parametrize("more", [{}, {"verbose": True}], ids=["plain", "verbose"])
def test_every_step_is_answered_as_by_the_reference(
    both: tuple[_Address, _Address], steps: list[tuple[str, bytes]], more: dict[str, Any]
) -> None:
    ours, theirs = (_play(address, steps, **more) for address in both)
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine == reference


@pytest.mark.parametrize(
    "first",
    [
        b"PING\r\n",
        b"SUB a 1\r\n",
        b"PUB a 1\r\nx\r\n",
        b'CONNECT {"user":"all"}\r\n',
        b'CONNECT {"user":"all","pass":"wrong"}\r\n',
        b'CONNECT {"user":"nobody","pass":"x"}\r\n',
        b'CONNECT {"auth_token":"all"}\r\n',
        b'CONNECT {"user":"hashed","pass":"wrong"}\r\nPING\r\n',
        b'CONNECT {"user":"all","pass":"all","verbose":false}\r\nPING\r\n',
        b'CONNECT {"user":"hashed","pass":"secret","verbose":false}\r\nPING\r\n',
        b'CONNECT {"user":"hashed","pass":"secret"}\r\nSUB a 1\r\nPUB a 1\r\n1\r\nPING\r\n',
        b"CONNECT {}\r\n",
        b"CONNECT {\r\n",
        b"connect  \t{}\r\n",
        b"CONNECT " + b"x" * 5000,
        b"COPY a\r\n",
    ],
)
def test_a_first_line(both: tuple[_Address, _Address], first: bytes) -> None:
    ours, theirs = _first_answers(both, first)
    assert ours == theirs


@pytest.mark.parametrize(
    ("user", "password"),
    [
        *(("long", b"a" * count) for count in (71, 72, 73, 300)),
        ("long", b"a" * 72 + b"\xff"),
        *(("nul", text) for text in (rb"a\u0000b", rb"a\u0000c", b"a")),
        *(("single", text) for text in (b"a", rb"a\u0000a", rb"a\u0000", rb"\u0000")),
        *(("empty", text) for text in (b"", rb"\u0000", b"x")),
        *(("replaced", text) for text in (b"\xc3\xa9\xff", b"\xe9\xff", rb"\u00e9\ud800")),
        *((name, name.encode()) for name in ("x", "y", "short")),
        ("short", b"$2a$04$short"),
    ],
)
def test_passwords_that_are_no_words(
    both: tuple[_Address, _Address], user: str, password: bytes
) -> None:
    fields = b'{"user":"%b","pass":"%b","verbose":false}' % (user.encode(), password)
    ours, theirs = _first_answers(both, b"CONNECT %b\r\nPING\r\n" % fields)
    assert ours == theirs


def test_no_first_line(hasty: tuple[_Address, _Address]) -> None:
    ours, theirs = _first_answers(hasty, b"")
    assert ours == theirs
    assert ours[0] == b"-ERR 'Authentication Timeout'"


def _first_answers(both: tuple[_Address, _Address], first: bytes) -> list[list[bytes]]:
    """What each of both says to the first bytes of a connection, up to PONG or the end."""
    seen = []
    for address in both:
        with Wire(address) as wire:
            assert b'"auth_required":true' in wire.frame().line
            for cut in range(0, len(first), 7):
                wire.send(first[cut : cut + 7])
            lines: list[bytes] = []
            try:
                while len(lines) < 5 and b"PONG" not in lines:
                    lines.append(wire.frame().line)
            except Closed:
                lines.append(b"Closed")
            seen.append([re.sub(rb"INFO .*", b"INFO", line) for line in lines])
    return seen


@pytest.mark.parametrize("user", ["all", "hashed"])
def test_a_client_that_ends_its_sending_side_is_still_answered(
    both: tuple[_Address, _Address], user: str
) -> None:
    """A password that takes long to check included."""
    password = "secret" if user == "hashed" else user
    first = f'CONNECT {{"user":"{user}","pass":"{password}","verbose":false}}\r\n'
    for address in both:
        with Wire(address) as wire:
            wire.frame()
            wire.send(first.encode() + b"SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n")
            wire.sock.shutdown(socket.SHUT_WR)

            assert [wire.frame().line, wire.frame().line] == [b"MSG a 1 1", b"PONG"], address


def test_a_byte_now_and_then_comes_too_late(hasty: tuple[_Address, _Address]) -> None:
    for address in hasty:
        with Wire(address) as wire:
            wire.frame()
            for byte in b'CONNECT {"user":"all","pass":"all"}\r\n':
                wire.send(bytes([byte]))
                try:
                    said = wire.frame(0.1)
                except Silence:
                    continue
                break

        assert said.line == b"-ERR 'Authentication Timeout'", address


def test_user_information(both: tuple[_Address, _Address]) -> None:
    answers = []
    for address in both:
        with ExitStack() as stack:
            wire = _connect(stack, address, "mixed")
            wire.send(b"SUB _INBOX.me 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.me 0\r\n\r\n")
            said = wire.frame().json()
            data, server = said["data"], said["server"]
            for rule in ("publish", "subscribe"):
                data["permissions"][rule] = {
                    key: sorted(value) for key, value in data["permissions"][rule].items()
                }
            flags = {name: server[name] for name in ("flags", "feature_flags", "jetstream")}
            answers.append((data, list(server), flags))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("stored", ["token", _HASH], ids=["plain", "bcrypt"])
def test_a_token(stored: str) -> None:
    given = "secret" if stored == _HASH else "token"
    theirs = NatsServer({"authorization": f'{{ timeout: 60, token: "{stored}" }}'})
    seen = []
    with CoreServer(users=Users(token=stored, timeout=Seconds(60))) as ours, theirs:
        for address in (ours.address, theirs.address):
            for fields in ({"auth_token": given}, {"auth_token": "x"}, {"user": given}, {}):
                with Wire(address) as wire:
                    wire.frame()
                    wire.send(b"CONNECT %b\r\nPING\r\n" % json.dumps(fields).encode())
                    seen.append((address == ours.address, fields, wire.frame().line))
    half = len(seen) // 2
    assert [entry[1:] for entry in seen[:half]] == [entry[1:] for entry in seen[half:]]
    assert [line for _, _, line in seen[:2]] == [b"+OK", b"-ERR 'Authorization Violation'"]


def test_no_auth_user() -> None:
    users = Users(
        users=(User("guest", "g", Permissions(Rule(("a",)))), User("b", "b")),
        no_auth_user="guest",
        timeout=Seconds(60),
    )
    guest = '{user: guest, password: g, permissions: {publish: "a"}}'
    text = f"{{ timeout: 60, users: [{guest}, {{user: b, password: b}}]}}"
    theirs = NatsServer({"authorization": text, "no_auth_user": "guest"})
    seen: list[list[Any]] = [[], []]
    with CoreServer(users=users) as ours, theirs:
        for number, address in enumerate((ours.address, theirs.address)):
            for first in (
                b"PUB a 0\r\n\r\nPUB b 0\r\n\r\nPING\r\n",
                b"CONNECT {}\r\nPUB b 0\r\n\r\nPING\r\n",
                b'CONNECT {"user":"b","pass":"b"}\r\nPUB b 0\r\n\r\nPING\r\n',
                b'CONNECT {"user":"b","pass":"x"}\r\nPUB b 0\r\n\r\nPING\r\n',
                b'CONNECT {"user":"","pass":"x"}\r\nPING\r\n',
                b'CONNECT {"jwt":"a.b.c","sig":"s"}\r\nPUB b 0\r\n\r\nPING\r\n',
                b'CONNECT {"nkey":"U"}\r\nPUB b 0\r\n\r\nPING\r\n',
                b'CONNECT {"nkey":"U","user":"x"}\r\nPING\r\n',
                b'CONNECT {"jwt":"a.b.c","user":"b","pass":"b"}\r\nPUB b 0\r\n\r\nPING\r\n',
            ):
                with Wire(address) as wire:
                    info = wire.frame().line
                    wire.send(first)
                    lines: list[bool | bytes] = [b"auth_required" in info]
                    try:
                        while lines[-1] != b"PONG":
                            lines.append(wire.frame().line)
                    except Closed:
                        lines.append(b"closed")
                    seen[number].append((first, lines))
    assert seen[0] == seen[1]


def test_a_subject_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    judge = Grant.may_publish

    def counted(grant: Grant, subject: bytes) -> bool:
        asked.append(subject)
        return judge(grant, subject)

    monkeypatch.setattr(Grant, "may_publish", counted)
    with CoreServer(users=_USERS) as ours, ExitStack() as stack:
        wires = [_connect(stack, ours.address, "mixed") for _ in range(10)]
        for wire in wires:
            wire.send(b"PUB foo.a 1\r\nx\r\nPUB foo.b 1\r\nx\r\n" * 500)
            wire.send(b"PUB foo.c 1\r\nx\r\n" * 500)
        assert all(wire.flush() == [] for wire in wires)
    assert sorted(asked) == [b"foo.a", b"foo.b", b"foo.c"]


def test_the_official_client_gets_the_error() -> None:
    async def run(url: str) -> list[str]:
        errors: list[str] = []
        came = asyncio.Event()

        async def on_error(error: Exception) -> None:
            errors.append(str(error))
            came.set()

        nc = await nats.connect(url, user="mixed", password="mixed", error_cb=on_error)
        await nc.publish("foo.a", b"1")
        await nc.publish("foo.no", b"1")
        await asyncio.wait_for(came.wait(), 30)
        await nc.close()
        return errors

    with CoreServer(users=_USERS) as ours:
        errors = asyncio.run(run("nats://{}:{}".format(*ours.address)))
    assert [error.lower() for error in errors] == [
        'nats: permissions violation for publish to "foo.no"'
    ]
