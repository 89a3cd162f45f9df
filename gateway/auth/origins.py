"""The rule against cross-site requests: pages that may act on behalf of their viewer.

A browser adds cookies to requests of any page. Where the server has no users, access to its network
already suffices. So a request that may change something must come from a page of this server or of
an allowed origin. Browsers name it in `Sec-Fetch-Site` (Fetch Metadata) and `Origin` (RFC 6454),
which pages cannot set.
"""

from collections.abc import Container
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.http.problems import Problem

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_PORTS = {"http": ":80", "https": ":443"}


def origin_of(scope: Scope) -> str:
    """Return the Origin header; empty if there is none, `null` if there are several."""
    found = [value for name, value in scope["headers"] if name == b"origin"]
    if len(found) > 1:
        return "null"
    return found[0].decode("latin-1") if found else ""


def own_origin(scope: Scope) -> str:
    """Return the origin of this server, as the caller addressed it."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
    scheme = "https" if is_secure(scope) else "http"
    return f"{scheme}://{host.removesuffix(_PORTS[scheme])}"


def is_secure(scope: Scope) -> bool:
    """Return whether the caller uses TLS."""
    return scope.get("scheme") in ("https", "wss")


def refuse_cross_site(scope: Scope, allowed: Container[str], *, needs_proof: bool) -> None:
    """Raise Problem 403 for a request that may change something and comes from another site.

    A request without Origin and Sec-Fetch-Site comes from a program, to whose requests no browser
    adds credentials. With `needs_proof` (there is a cookie), it is refused too.
    """
    if scope.get("method") in _SAFE:  # a WebSocket handshake has no method here
        return
    site = origin = b""
    for name, value in scope["headers"]:
        if name == b"sec-fetch-site":
            site = value
        elif name == b"origin":
            origin = value
    if not site and not origin and not needs_proof:
        return
    if site in (b"same-origin", b"none"):  # none: the user's own navigation
        return
    page_origin = origin_of(scope)
    if page_origin and (page_origin in allowed or (not site and page_origin == own_origin(scope))):
        return
    raise Problem(403, "cross-site", _detail(page_origin, site.decode("latin-1")))


def checked_origin(text: str) -> str:
    """Return an origin as browsers write it: `https://host`, with a port if it is not the default.

    Raises ValueError for any other text, such as `*` and `null`.
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
