"""Who may come over WebSocket: users, tokens, cookies of the block `websocket`; both servers."""

# Subject: WebSocket

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.dropin import NAMES, DropIn, run
from tests.support.websocket import WebSocket, frame, request

_USERS = (
    "authorization { timeout: 60, users: [{user: a, password: aa}, {user: b, password: bb}] }\n"
)
_COOKIES = "user_cookie: u, pass_cookie: p"
_HELLO = {"verbose": False, "pedantic": False, "headers": True}
_ASK = b"SUB i 1\r\nPUB $SYS.REQ.USER.INFO i 0\r\n\r\n"


def _text(top: str, block: str) -> str:
    websocket = f"websocket {{ host: 127.0.0.1, port: -1, no_tls: true, {block} }}\n"
    return "host: 127.0.0.1\nport: -1\n" + top + websocket


@contextmanager
def _started(name: str, where: Path, text: str) -> Iterator[DropIn]:
    config = where / f"{name}.conf"
    config.write_text(text)
    with DropIn(name, "-c", str(config)) as server:
        yield server


def _listener(server: DropIn) -> tuple[str, int]:
    host, _, port = server.ports()["websocket"][0].removeprefix("ws://").rpartition(":")
    return host, int(port)


def _info(web: WebSocket) -> dict[str, Any]:
    while not (payload := web.frame().payload):
        pass
    return dict(json.loads(payload.removeprefix(b"INFO ")))


def _who(listener: tuple[str, int], cookie: str | None, connect: dict[str, str] | None) -> str:
    """The user a client is that brings these cookies and this CONNECT (None: says none)."""
    hello = b"" if connect is None else b"CONNECT %b\r\n" % json.dumps(_HELLO | connect).encode()
    with WebSocket(listener) as web:
        web.ask(request({"Cookie": cookie}))
        assert web.head.startswith(b"HTTP/1.1 101")
        _info(web)
        web.send(frame(hello + _ASK))
        said = web.data(b"\r\n")
        while b"-ERR" not in said and b'"data":' not in said:
            said += web.data(b"\r\n")
    found = re.search(rb'"user":"([^"]*)"', said)
    return found[1].decode() if found else said.decode()


_PLAIN: list[tuple[str | None, dict[str, str] | None]] = [
    (None, {}),
    (None, {"user": "a", "pass": "aa"}),
    (None, {"user": "w", "pass": "ww"}),
    (None, {"user": "w", "pass": "no"}),
    (None, {"auth_token": "t"}),
    (None, None),
]
_BROUGHT: list[tuple[str | None, dict[str, str] | None]] = [
    ("u=a; p=aa", {}),
    ("u=a; p=aa", {"user": "b"}),
    ("u=a; p=aa", {"user": "b", "pass": "bb"}),
    ("u=a; p=no", {"pass": "aa"}),
    ("p=aa", {"user": "a"}),
    ('u="a"; p=aa', {}),
    ("u=a; u=b; p=bb", {}),
    ("U=a; p=aa", {}),
    ("u=a;p=aa", {}),
    ("u=; p=aa", {}),
    ("u=%61; p=aa", {}),
    ("u=a; p=aa", {"auth_token": "x"}),
    ("u=a; p=aa", None),
    (None, {}),
]
_TOKENS: list[tuple[str | None, dict[str, str] | None]] = [
    ("t=tt", {}),
    ("t=no", {"auth_token": "tt"}),
    ("t=tt", {"auth_token": "no"}),
    (None, {}),
]
_CASES = {
    "a user of its own": ("", "authorization {timeout: 60, user: w, password: ww}", _PLAIN),
    "a token of its own": (
        "authorization {timeout: 60, user: a, password: aa}\n",
        "token_cookie: x, authorization {timeout: 60, token: t}",
        _PLAIN,
    ),
    "a user where others have a token": (
        "authorization {timeout: 60, token: t}\n",
        "authorization {timeout: 60, user: w, password: ww}",
        _PLAIN,
    ),
    "a stranger of its own": ("no_auth_user: b\n" + _USERS, "no_auth_user: a", _PLAIN),
    "the stranger of all": ("no_auth_user: b\n" + _USERS, "same_origin: true", _PLAIN),
    "cookies": (_USERS, _COOKIES, _BROUGHT),
    "cookies and a stranger": ("no_auth_user: b\n" + _USERS, _COOKIES, _BROUGHT),
    "cookies where nobody is asked": ("", _COOKIES, _BROUGHT[:2]),
    "a cookie with the token": (
        "",
        "token_cookie: t, authorization {timeout: 60, token: tt}",
        _TOKENS,
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_user_of_a_connection(case: str, tmp_path: Path) -> None:
    top, block, clients = _CASES[case]
    found = []
    for name in NAMES:
        with _started(name, tmp_path, _text(top, block)) as server:
            listener = _listener(server)
            with WebSocket(listener) as web:
                web.ask(request())
                asked = _info(web).get("auth_required", False)
            found.append((asked, [_who(listener, *client) for client in clients]))
    ours, theirs = found
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_time_to_authenticate(name: str, tmp_path: Path) -> None:
    text = _text(_USERS, "authorization {timeout: 0.2}")
    with _started(name, tmp_path, text) as server, WebSocket(_listener(server)) as web:
        web.ask(request())
        _info(web)
        assert web.data(b"\r\n") == b"-ERR 'Authentication Timeout'\r\n"


@pytest.mark.parametrize("name", NAMES)
def test_pings_of_its_own(name: str, tmp_path: Path) -> None:
    text = 'ping_interval: "1m"\n' + _text("", 'ping_interval: "200ms"')
    with _started(name, tmp_path, text) as server, WebSocket(_listener(server)) as web:
        web.ask(request())
        _info(web)
        web.send(frame(b'CONNECT {"verbose":false}\r\n'))
        while web.frame().payload != b"PING\r\n":
            pass


@pytest.mark.parametrize(
    ("top", "block", "text"),
    [
        (_USERS, "authorization {user: w, password: ww}", "username not compatible with presence"),
        (_USERS, "authorization {token: t}", "token not compatible with presence of users/nkeys"),
        ("", "authorization {users: []}", 'unknown field "users"'),
        ("", "no_auth_user: a", '"a" present, but users/nkeys are not defined'),
        (_USERS, "no_auth_user: c", '"c" not present as user or nkey in authorization block'),
        (_USERS, "jwt_cookie: j", 'for JWT authentication via cookie "j"'),
        ("", "user_cookie: 3", ""),
    ],
)
def test_impossible_combinations(top: str, block: str, text: str, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(_text(top, block))
    for name in NAMES:
        done = run(name, "-c", str(config))
        assert done.returncode == 1
        assert text in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_seconds_is_taken_with_a_word(name: str, tmp_path: Path) -> None:
    text = "ping_interval: 60\n" + _text("", "same_origin: true")
    with _started(name, tmp_path, text) as server:
        server.ports()
        assert 'invalid use of field "ping_interval"' in server.log().splitlines()[0]
