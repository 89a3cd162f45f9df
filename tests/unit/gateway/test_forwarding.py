"""What proxies say of callers: whom it is believed of, and what is no such thing."""

# Subject: HTTP sign-in, HTTP

import asyncio
from typing import Any

import pytest

from gateway.auth.forwarding import Forwarding, network_of

_PROXIES = [network_of(text) for text in ("10.0.0.0/8", "192.0.2.7", "2001:db8::/32")]


def _called(headers: list[tuple[str, str]], peer: str = "10.0.0.1", kind: str = "http") -> Any:
    """What an application sees of a request with these headers; the status of a refusal."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        host = dict(scope["headers"])[b"host"].decode()
        seen.append((scope["client"][0], scope["scheme"], host))

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        if "body" not in message:
            seen.append(message.get("status", message.get("code")))

    pairs = [(b"host", b"inner"), *((k.lower().encode(), v.encode()) for k, v in headers)]
    scheme = "http" if kind == "http" else "ws"
    scope = {"type": kind, "client": (peer, 1), "scheme": scheme, "headers": pairs}
    asyncio.run(Forwarding(app, _PROXIES)(scope | {"raw_path": b"/"}, receive, send))
    return seen[0]


def _x(*addresses: str) -> tuple[str, str]:
    return ("X-Forwarded-For", ", ".join(addresses))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], ("10.0.0.1", "http", "inner")),
        ([_x("203.0.113.9")], ("203.0.113.9", "http", "inner")),
        ([_x("203.0.113.9:4711")], ("203.0.113.9", "http", "inner")),
        ([_x("6.6.6.6", "203.0.113.9", "10.0.0.2")], ("203.0.113.9", "http", "inner")),
        ([_x("6.6.6.6"), _x("203.0.113.9")], ("203.0.113.9", "http", "inner")),
        ([_x("10.0.0.3", "10.0.0.2")], ("10.0.0.3", "http", "inner")),
        ([_x("unknown")], ("unknown", "http", "inner")),
        (
            [_x("203.0.113.9"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "a.example")],
            ("203.0.113.9", "https", "a.example"),
        ),
        (
            [_x("6.6.6.6", "203.0.113.9"), ("X-Forwarded-Proto", "http, https")],
            ("203.0.113.9", "https", "inner"),
        ),
        ([("X-Forwarded-Proto", "https")], ("10.0.0.1", "https", "inner")),
        ([("Forwarded", "for=203.0.113.9")], ("203.0.113.9", "http", "inner")),
        (
            [("Forwarded", 'For="[2001:db9::1]:80";Proto=HTTPS;host="a.example:8443";by=_x')],
            ("2001:db9::1", "https", "a.example:8443"),
        ),
        (
            [("Forwarded", 'for=6.6.6.6;proto=https, for="203.0.113.9", for="[2001:db8::2]"')],
            ("203.0.113.9", "http", "inner"),
        ),
        ([("Forwarded", 'for="_a;,\\"b"')], ('_a;,"b', "http", "inner")),
        ([("Forwarded", "for=203.0.113.9"), _x("203.0.113.9")], ("203.0.113.9", "http", "inner")),
    ],
)
def test_headers_of_a_trusted_proxy(headers: list[tuple[str, str]], expected: Any) -> None:
    assert _called(headers) == expected


@pytest.mark.parametrize("peer", ["203.0.113.1", "192.0.2.8", "::1", "2001:db9::1", "", "testhost"])
def test_headers_of_an_untrusted_proxy_are_ignored(peer: str) -> None:
    headers = [_x("6.6.6.6"), ("Forwarded", "for=6.6.6.6;proto=https;host=evil"), ("X-F", "")]

    assert _called(headers, peer) == (peer, "http", "inner")


@pytest.mark.parametrize("peer", ["192.0.2.7", "::ffff:10.0.0.1", "2001:db8::5"])
def test_every_form_of_a_trusted_address_is_known(peer: str) -> None:
    assert _called([_x("203.0.113.9")], peer)[0] == "203.0.113.9"


@pytest.mark.parametrize(
    "headers",
    [
        [("Forwarded", "for")],
        [("Forwarded", 'for="203.0.113.9')],
        [("Forwarded", "for=1.1.1.1;for=2.2.2.2")],
        [("Forwarded", "for=a b")],
        [("Forwarded", "for=1.1.1.1;proto=ftp")],
        [("Forwarded", 'for=1.1.1.1;host="a b"')],
        [("Forwarded", ",".join(["for=1.1.1.1"] * 65))],
        [("Forwarded", "for=1.1.1.1"), _x("2.2.2.2")],
        [_x("1.1.1.1"), ("X-Forwarded-Proto", "gopher")],
        [_x("1.1.1.1"), ("X-Forwarded-Host", "a/b")],
        [_x(*["1.1.1.1"] * 65)],
    ],
)
def test_malformed_headers_of_proxies_are_refused(headers: list[tuple[str, str]]) -> None:
    assert _called(headers) == 400
    assert _called(headers, kind="websocket") == 1008


def test_a_websocket_is_one_over_tls() -> None:
    assert _called([("X-Forwarded-Proto", "https")], kind="websocket")[1] == "wss"


@pytest.mark.parametrize("text", ["", "*", "10.0.0.1/8", "10.0.0.0/33", "localhost", "a/b"])
def test_invalid_networks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        network_of(text)
