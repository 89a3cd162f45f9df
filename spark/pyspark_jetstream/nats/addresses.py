"""Addresses of NATS servers."""

from urllib.parse import SplitResult, urlsplit

PORT = 4222


def parse(server: str) -> SplitResult:
    """A server's address taken apart; `host:port` counts as `nats://host:port`.

    Raises:
        ValueError: It is no address of a NATS server.
    """
    address = urlsplit(server if "://" in server else f"nats://{server}")
    if address.scheme not in ("nats", "tls") or not address.hostname:
        raise ValueError(f"{shown(server)!r} is no server: nats://host:port or tls://host:port")
    if address.username or address.password:
        raise ValueError(
            f"{shown(server)} has a user in its address, which plans would show: "
            "use the options of authentication"
        )
    address.port  # noqa: B018  (raises ValueError)
    return address


def shown(server: str) -> str:
    """A server's address without what may be secret in it."""
    scheme, separator, rest = server.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
