"""Which pages may act for whoever looks at them: the rule against cross-site requests.

A browser adds cookies, and where the server knows no users the mere access to its network, to the
requests of any page. So what such a request may change has to come from a page of this server or
of an allowed origin. Browsers say so in `Sec-Fetch-Site` (Fetch Metadata) and `Origin` (RFC 6454),
which pages cannot set.
"""

from collections.abc import Container
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.problems import Problem

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_PORTS = {"http": ":80", "https": ":443"}


def origin_of(scope: Scope) -> str:
    """The Origin header; empty when there is none, `null` when there are several."""
    found = [value for name, value in scope["headers"] if name == b"origin"]
    if len(found) > 1:
        return "null"
    return found[0].decode("latin-1") if found else ""


def own_origin(scope: Scope) -> str:
    """The origin of this server, as the caller reached it."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
    scheme = "https" if is_secure(scope) else "http"
    return f"{scheme}://{host.removesuffix(_PORTS[scheme])}"


def is_secure(scope: Scope) -> bool:
    """Whether the caller came over TLS."""
    return scope.get("scheme") in ("https", "wss")


def refuse_cross_site(scope: Scope, allowed: Container[str], *, needs_proof: bool) -> None:
    """Raise Problem 403 for a request that may change something and comes from another site.

    With `needs_proof` (a cookie came along) a request that says nothing of where it comes from is
    refused too; else it is a program's, for which nothing is added by itself.
    """
    if scope.get("method") in _SAFE:  # a handshake of a WebSocket has no method
        return
    site = origin = b""
    for name, value in scope["headers"]:
        if name == b"sec-fetch-site":
            site = value
        elif name == b"origin":
            origin = value
    if not site and not origin and not needs_proof:
        return
    if site in (b"same-origin", b"none"):  # none: the user's own doing, not a page's
        return
    said = origin_of(scope)
    if said and (said in allowed or (not site and said == own_origin(scope))):
        return
    raise Problem(403, "cross-site", _detail(said, site.decode("latin-1")))


def checked_origin(text: str) -> str:
    """Return an origin as browsers write it: `https://host`, with a port that is not the usual.

    Raises ValueError for anything else, `*` and `null` among it.
    """
    wrong = ValueError(f"{text!r} is no origin: expected https://host or https://host:port")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise wrong from None
    scheme, host = parts.scheme, parts.netloc.lower()
    if scheme not in _PORTS or text.removesuffix("/") != f"{scheme}://{parts.netloc}":
        raise wrong
    if not parts.hostname or "@" in host or "*" in host or port == 0:
        raise wrong
    return f"{scheme}://{host.removesuffix(_PORTS[scheme])}"


def _detail(origin: str, site: str) -> str:
    if origin:
        return f"Origin: {origin[:200]} may not act for who looks at it"
    if site:
        return f"Sec-Fetch-Site: {site[:20]}: only pages of this server may do this"
    return "with a cookie this needs Origin or Sec-Fetch-Site, as browsers send them"
