"""Parser of the addresses of NATS servers in the option `servers`."""

import re
from urllib.parse import SplitResult, urlsplit

PORT = 4222
_BLANK = re.compile(r"[\s\x00-\x1f]")


EXPECTED = "nats://host:port or tls://host:port"


def parse(server: str) -> SplitResult:
    """Split a server's address into its parts; `host:port` means `nats://host:port`.

    Raises:
        ValueError: The address is not one of a NATS server; the message names the expected form.
    """
    try:
        address = urlsplit(server if "://" in server else f"nats://{server}")
        port = address.port
    except ValueError:
        raise ValueError(f"{EXPECTED}, with a port from 1 to 65535") from None
    if address.scheme not in ("nats", "tls") or not address.hostname or _BLANK.search(server):
        raise ValueError(EXPECTED)
    if address.username is not None or address.password is not None:
        raise ValueError(
            f"{EXPECTED} without a user, which plans would show: there are the options auth.user, "
            "auth.password and auth.token"
        )
    if port == 0:
        raise ValueError(f"{EXPECTED}, with a port from 1 to 65535")
    if address.path.strip("/") or address.query or address.fragment:
        raise ValueError(f"{EXPECTED}, and nothing behind the port")
    return address


def shown(server: str) -> str:
    """Return a server's address without user and password."""
    scheme, separator, rest = server.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
