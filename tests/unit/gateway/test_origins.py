"""Origins as an operator writes them."""

# Subject: HTTP sign-in, HTTP

import pytest

from gateway.auth.origins import checked_origin


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://app.example", "https://app.example"),
        ("https://App.Example:443/", "https://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_an_origin_is_written_as_browsers_do(text: str, origin: str) -> None:
    assert checked_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "",
        "app.example",
        "ftp://a",
        "https://",
        "https://*.example",
        "https://a/path",
        "https://a?x",
        "https://u@a",
        "https://a:0",
        "https://a:99999",
        "https://a,https://b",
        "https://[x",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no origin: expected https://host"):
        checked_origin(text)
