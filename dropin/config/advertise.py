"""Parser of advertised addresses: clients and other servers use these to connect."""

from core.errors import OperatorError
from dropin.config.urls import split


def advertised(text: str) -> tuple[str, int] | None:
    """Parse `client_advertise`, the address for clients; None if it is empty.

    The result is host and port; port 0 stands for the listening port.

    Raises:
        OperatorError: The text is not an address; the error text is nats-server's.
    """
    return _address(text, "server INFO with ClientAdvertise") if text else None


def routes_advertised(text: str) -> tuple[str, int] | None:
    """Parse the address that is advertised to other servers of the cluster; None if it is empty.

    Raises OperatorError if the text is not an address.
    """
    return _address(text, "route INFO with Cluster.Advertise") if text else None


def websocket_advertised(text: str) -> tuple[str, int] | None:
    """Parse the address that is advertised to clients over WebSocket; None if it is empty.

    Raises OperatorError if the text is not an address.
    """
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
