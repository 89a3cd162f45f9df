"""Which pages of browsers may read the monitoring port.

It asks nobody who he is, so a page of any site that a browser of this machine shows must not read
it: neither as another origin, nor by a name that it has lead here (`core.protocol.hosts`).
"""

from core.protocol.hosts import ANY, is_allowed, is_loopback
from nats_server.config.options import Options


class Access:
    """The rules of one listener, at `address` as the socket has it."""

    def __init__(self, options: Options, address: str) -> None:
        self._origins = frozenset(map(str.lower, options.http_allowed_origins))
        self._names = frozenset(
            name.lower().removesuffix(".") for name in options.http_allowed_hosts
        )
        self._asks_host = ANY not in self._names and bool(self._names or is_loopback(address))

    def knows(self, host: str) -> bool:
        """Whether a request with this Host is answered; empty: it has none."""
        return not (self._asks_host and host) or is_allowed(host, self._names)

    def headers(self, origin: str) -> list[str]:
        """Return the header lines that let a page of this origin read the answer, or not."""
        if ANY in self._origins:
            return ["Access-Control-Allow-Origin: *"]
        if not self._origins:
            return []
        if origin.lower() not in self._origins:
            return ["Vary: Origin"]
        return ["Vary: Origin", f"Access-Control-Allow-Origin: {origin}"]
