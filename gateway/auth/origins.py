"""Refusal of cross-site requests (CSRF): which pages may send requests for their user.

A browser adds cookies to requests of any page. If the server has no users, access to its network is
enough. So a request that may change state must be from a page of this server or of an allowed
origin. Browsers send the page's origin in `Origin` (RFC 6454) and its relation to this server in
`Sec-Fetch-Site` (Fetch Metadata). Scripts cannot set these headers.
"""

from collections.abc import Container
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.http.problems import Problem

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_PORTS = {"http": ":80", "https": ":443"}


def origin_of(scope: Scope) -> str:
    """Return the header Origin of a request; empty if it is missing, `null` if it is repeated."""
    found = [value for name, value in scope["headers"] if name == b"origin"]
    if len(found) > 1:
        return "null"
    return found[0].decode("latin-1") if found else ""


def own_origin(scope: Scope) -> str:
    """Return the origin of this server in the form in which the client addressed it."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
    scheme = "https" if is_secure(scope) else "http"
    return f"{scheme}://{host.removesuffix(_PORTS[scheme])}"


def is_secure(scope: Scope) -> bool:
    """Return True if the client uses TLS."""
    return scope.get("scheme") in ("https", "wss")


def refuse_cross_site(scope: Scope, allowed: Container[str], *, needs_proof: bool) -> None:
    """Raise Problem 403 for a request from another site that may change state.

    The methods GET, HEAD and OPTIONS pass. A request without Origin and Sec-Fetch-Site is from a
    program, not a browser, and passes too. With `needs_proof` it is refused: the request is then
    authenticated by a cookie, and only browsers send cookies.
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
    """Normalise an origin to the form of browsers: `https://host`, without the default port.

    Raises ValueError for any other text, such as `*`, `null` or a URL with a path.
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
