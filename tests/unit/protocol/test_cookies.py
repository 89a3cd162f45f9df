"""Cookies as credentials."""

# Subject: protocol

import pytest

from core.protocol.cookies import CookieCredentials, cookies
from core.protocol.upgrade import WebSocketOptions, upgrade
from tests.support.websocket import request


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (["a=1; b=2"], {"a": "1", "b": "2"}),
        (["a=1", "b=2;a=3"], {"a": "3", "b": "2"}),
        (['a="x y"; b="'], {"a": "x y"}),
        (["a=b=c; d"], {"a": "b=c", "d": ""}),
        (["a=\x01; b=\\; c=é"], {}),
        ([], {}),
    ],
)
def test_cookies(headers: list[str], found: dict[str, str]) -> None:
    assert cookies(headers) == found


def test_a_connect_goes_first() -> None:
    brought = CookieCredentials("u", "p", "t")
    connect = brought.read_connect(b'{"user":"v"}')
    assert (connect.user, connect.password, connect.auth_token) == ("v", "p", "t")


def test_cookies_are_read_only_where_they_are_named() -> None:
    head = request({"Cookie": "u=a; p=b; =c"})
    assert upgrade(head, WebSocketOptions()).credentials is None
    given = upgrade(head, WebSocketOptions(user_cookie="u")).credentials
    assert given == CookieCredentials("a", "", "")
