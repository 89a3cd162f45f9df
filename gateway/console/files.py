"""The files of the web console, read from the package at first use, and their security headers.

The page has its own scripts and style, and loads nothing from other servers. It shows messages of
other users. So the policy allows only the console's own scripts, and with
`require-trusted-types-for` browsers refuse to parse text as HTML (CSP 3, Trusted Types). The
scripts create text nodes only; the policy protects against a mistake in one of them.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",  # the page's own icon
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",  # after an update, all scripts are of the same version
}
_VERSION = b"{{version}}"


@dataclass(frozen=True, slots=True)
class File:
    """A file of the console. `etag` is a hash of its content."""

    body: bytes
    etag: str


class Console:
    """The files of the web console."""

    @cached_property
    def page(self) -> File:
        """The HTML page, with the version of the server."""
        text = self._read("index.html").replace(_VERSION, version("jetgate").encode())
        return _file(text)

    @cached_property
    def style(self) -> File:
        """The style sheet of the page."""
        return _file(self._read("console.css"))

    @cached_property
    def modules(self) -> dict[str, File]:
        """The JavaScript modules of the page, by file name."""
        found = {each.name: each.read_bytes() for each in self._files() if each.name[-3:] == ".js"}
        return {name: _file(body) for name, body in found.items()}

    def _files(self) -> list[Traversable]:
        return sorted((files(__package__) / "page").iterdir(), key=lambda each: each.name)

    def _read(self, name: str) -> bytes:
        return (files(__package__) / "page" / name).read_bytes()


def _file(body: bytes) -> File:
    return File(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
