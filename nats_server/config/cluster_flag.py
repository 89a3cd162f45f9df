"""The flag `--cluster`: where routes would be accepted, as a URL (`nats://host:6222`).

User info is read and let go of: whoever connects there is turned away, whoever he is.
"""

import re
from collections.abc import Iterator

from core.errors import OperatorError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})(.{0,2})")
_PORT = re.compile(r":\d*|")
_ANY_PORT = ":-1"


def cluster_address(url: str) -> tuple[str, int] | None:
    """Host and port, -1 for any; None when there is no cluster after all.

    Raises:
        OperatorError: it is no such URL; the text is the reference server's.
    """
    if not url:
        return None
    is_any = url.endswith(_ANY_PORT)
    authority = _authority(url.removesuffix(_ANY_PORT) + ":0" if is_any else url)
    user, at, place = authority.rpartition("@")
    host, port = _split(place)
    if at and user and ":" not in user:
        raise OperatorError("expected cluster password to be set")
    if is_any:
        return host, -1
    return (host, port) if port else None


def _authority(url: str) -> str:
    """What stands between `//` and the path; empty without."""
    shown = url.partition("#")[0]
    for reason in _mistakes(shown):
        raise OperatorError(f'parse "{url}": {reason}')
    scheme = _SCHEME.match(shown)
    rest = shown[scheme.end() :] if scheme else shown
    if not rest.startswith("//"):
        return ""
    return re.split(r"[/?]", rest[2:], maxsplit=1)[0]


def _mistakes(url: str) -> Iterator[str]:
    if url.startswith(":"):
        yield "missing protocol scheme"
    scheme = _SCHEME.match(url)
    rest = url[scheme.end() :] if scheme else url
    if scheme is None and ":" in url.partition("/")[0]:
        yield "first path segment in URL cannot contain colon"
    if rest.startswith("//"):
        host = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
        behind = host.rpartition("]")[2] if host.startswith("[") else host
        port = behind[behind.rfind(":") :] if ":" in behind else ""
        if host.startswith("[") and "]" not in host:
            yield "missing ']' in host"
        elif not _PORT.fullmatch(port):
            yield f'invalid port "{port}" after host'
    elif (found := _ESCAPE.search(rest)) is not None:
        yield f'invalid URL escape "{found[0]}"'


def _split(place: str) -> tuple[str, int]:
    """Host and port of what stands in a URL."""
    host, colon, port = place.rpartition(":")
    named = f"address {place}: " if place else ""
    if not colon or place.endswith("]"):
        raise OperatorError(f"{named}missing port in address")
    if ":" in host and not host.startswith("["):
        raise OperatorError(f"{named}too many colons in address")
    try:
        return host.strip("[]"), int(port)
    except ValueError:
        raise OperatorError(f'strconv.Atoi: parsing "{port}": invalid syntax') from None
