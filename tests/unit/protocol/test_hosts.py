"""By which names a server may be asked."""

# Subject: protocol, HTTP sign-in

import pytest

from core.protocol.hosts import checked_host, is_allowed, is_loopback

NAMES = frozenset(("localhost", "api.example"))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "app.localhost:1",
        "127.0.0.1",
        "127.0.0.1:8080",
        "192.0.2.7",
        "[::1]",
        "[::1]:8080",
        "[2001:db8::1]",
        "api.example",
        "API.example.:443",
    ],
)
def test_a_name_of_ours_is_allowed(host: str) -> None:
    assert is_allowed(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "evillocalhost",
        "api.example.evil",
        "evil.api.example",
        "127.0.0.1.evil.example",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "[::1",
        "::1",
        "[localhost]",
        "localhost:",
        "localhost:x",
        "localhost:123456",
        "localhost@evil.example",
        "localhost evil.example",
        "localhost,evil.example",
        "localhost/evil",
        "localhost\x00",
        "löcalhost",
        ".localhost",
    ],
)
def test_no_other_is(host: str) -> None:
    assert not is_allowed(host, NAMES)


@pytest.mark.parametrize("text", ["", "a b", "a:80", "https://a", "*.a", "a*", "a..b", ".a", "a/b"])
def test_invalid_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        checked_host(text)


def test_names_have_no_case() -> None:
    assert [checked_host(text) for text in ("API.Example.", "a_b", "*")] == [
        "api.example",
        "a_b",
        "*",
    ]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_an_address_that_only_this_machine_reaches(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "localhost", ""])
def test_another_address(address: str) -> None:
    assert not is_loopback(address)
