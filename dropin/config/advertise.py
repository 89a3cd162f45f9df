"""Advertised addresses, which clients and other servers use instead of the listening ones."""

from core.errors import OperatorError
from dropin.config.urls import split


def advertised(text: str) -> tuple[str, int] | None:
    """Return the host and port advertised to clients; None for no text.

    Port 0 means the listening port.

    Raises:
        OperatorError: The text is no address; the message is nats-server's.
    """
    return _address(text, "server INFO with ClientAdvertise") if text else None


def routes_advertised(text: str) -> tuple[str, int] | None:
    """Return the address advertised to other servers of the cluster. Raises OperatorError."""
    return _address(text, "route INFO with Cluster.Advertise") if text else None


def websocket_advertised(text: str) -> tuple[str, int] | None:
    """Return the address advertised to clients over WebSocket. Raises OperatorError."""
    try:
        return _split(text) if text else None
    except ValueError as error:
        raise OperatorError(f"Unable to get websocket connect URLs: {error}") from None


def _address(text: str, what: str) -> tuple[str, int]:
    try:
        return _split(text)
    except ValueError as error:
        raise OperatorError(f"Error setting {what} value of {text}, err={error}") from None


def _split(text: str) -> tuple[str, int]:
    has_port = ":" in text and not text.endswith("]")
    host, port = split(text if has_port else f"{text}:0")
    return host.strip(), max(port, 0)
