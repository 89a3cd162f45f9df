"""Rules by which web pages in a browser may read the monitoring port.

The port has no authentication. So the page of another site, open in a browser of this machine, must
not read it. It could try as another origin (CORS), or by a DNS name that resolves to this machine
(DNS rebinding, `core.protocol.hosts`).
"""

from core.protocol.hosts import ANY, is_allowed, is_loopback
from dropin.config.options import Options


class Access:
    """The access rules of one monitoring listener.

    Args:
        options: Allowed origins and host names.
        address: Local IP address of the listener; on loopback, host names are restricted by
            default.
    """

    def __init__(self, options: Options, address: str) -> None:
        self._origins = frozenset(map(str.lower, options.http_allowed_origins))
        self._names = frozenset(
            name.lower().removesuffix(".") for name in options.http_allowed_hosts
        )
        self._asks_host = ANY not in self._names and bool(self._names or is_loopback(address))

    def knows(self, host: str) -> bool:
        """Return True if a request with this Host header is allowed; "" means no Host header."""
        return not (self._asks_host and host) or is_allowed(host, self._names)

    def headers(self, origin: str) -> list[str]:
        """Return the CORS header lines of a response to a page of `origin`.

        `origin` is "" for a request without the header Origin.
        """
        if ANY in self._origins:
            return ["Access-Control-Allow-Origin: *"]
        if not self._origins:
            return []
        if origin.lower() not in self._origins:
            return ["Vary: Origin"]
        return ["Vary: Origin", f"Access-Control-Allow-Origin: {origin}"]
