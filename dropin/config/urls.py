"""Parser of URLs of servers, `nats://user:password@host:port`, by the rules of Go's net/url."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})(.{0,2})")
_PORT = re.compile(r":\d*|")
_NOT_IN_HOSTS = re.compile(r"[ ^`{|}\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Authority:
    """The part of a URL between `//` and the path.

    Attributes:
        place: Host and port, as written.
        user, password: Decoded user and password; None if the URL has none.
    """

    place: str = ""
    user: str | None = None
    password: str | None = None


def authority_of(url: str) -> Authority:
    """Return the authority of a URL; an empty `Authority` if the URL has none.

    Raises:
        ValueError: The text is not a URL; the error text is Go's.
    """
    shown = url.partition("#")[0]
    for reason in _mistakes(shown):
        raise ValueError(f'parse "{url}": {reason}')
    scheme = _SCHEME.match(shown)
    rest = shown[scheme.end() :] if scheme else shown
    if not rest.startswith("//"):
        return Authority()
    info, at, place = _named(rest).rpartition("@")
    if not at:
        return Authority(place)
    user, colon, password = info.partition(":")
    return Authority(place, unquote(user), unquote(password) if colon else None)


def split(place: str) -> tuple[str, int]:
    """Split `host:port` into host and port.

    Raises ValueError, with Go's text, if the port is missing or not a number.
    """
    host, colon, port = place.rpartition(":")
    named = f"address {place}: " if place else ""
    if not colon or place.endswith("]"):
        raise ValueError(f"{named}missing port in address")
    if ":" in host and not host.startswith("["):
        raise ValueError(f"{named}too many colons in address")
    try:
        return host.strip("[]"), int(port)
    except ValueError:
        raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax') from None


def _named(rest: str) -> str:
    return re.split(r"[/?]", rest[2:], maxsplit=1)[0]


def _mistakes(url: str) -> Iterator[str]:
    if _CONTROL.search(url):
        yield "net/url: invalid control character in URL"
    if url.startswith(":"):
        yield "missing protocol scheme"
    scheme = _SCHEME.match(url)
    rest = url[scheme.end() :] if scheme else url
    if scheme is None and ":" in url.partition("/")[0]:
        yield "first path segment in URL cannot contain colon"
    if rest.startswith("//"):
        host = _named(rest).rpartition("@")[2]
        behind = host.rpartition("]")[2] if host.startswith("[") else host
        port = behind[behind.rfind(":") :] if ":" in behind else ""
        if host.startswith("[") and "]" not in host:
            yield "missing ']' in host"
        elif not _PORT.fullmatch(port):
            yield f'invalid port "{port}" after host'
        elif (letter := _NOT_IN_HOSTS.search(host)) is not None:
            yield f'invalid character "{letter[0]}" in host name'
    elif (found := _ESCAPE.search(rest)) is not None:
        yield f'invalid URL escape "{found[0]}"'
