"""Access of browser pages to the monitoring port.

The port has no authentication. So a page of any site in a browser of this machine must not read it:
neither as another origin, nor by a DNS name that points to this machine (`core.protocol.hosts`).
"""

from core.protocol.hosts import ANY, is_allowed, is_loopback
from dropin.config.options import Options


class Access:
    """The access rules of one listener; `address` is the socket's local address."""

    def __init__(self, options: Options, address: str) -> None:
        self._origins = frozenset(map(str.lower, options.http_allowed_origins))
        self._names = frozenset(
            name.lower().removesuffix(".") for name in options.http_allowed_hosts
        )
        self._asks_host = ANY not in self._names and bool(self._names or is_loopback(address))

    def knows(self, host: str) -> bool:
        """Return True if a request with this Host is answered; "" means no Host."""
        return not (self._asks_host and host) or is_allowed(host, self._names)

    def headers(self, origin: str) -> list[str]:
        """Return the header lines that allow or deny a page of this origin to read the answer."""
        if ANY in self._origins:
            return ["Access-Control-Allow-Origin: *"]
        if not self._origins:
            return []
        if origin.lower() not in self._origins:
            return ["Vary: Origin"]
        return ["Vary: Origin", f"Access-Control-Allow-Origin: {origin}"]
