"""The ports for clients and for routes, and nats-server's error texts for unavailable ports."""

import socket
from collections.abc import Callable

from core.config.addresses import probe
from core.errors import OperatorError
from dropin.config.options import DEFAULT_HOST, Options
from dropin.ports_file import join

_PORT_MAX = 65535


def client_port(options: Options) -> int:
    """Return the port for clients; 0 stands for any free port, which the options write as -1."""
    return 0 if options.port == -1 else options.port


def probe_ports(options: Options) -> None:
    """Check that the ports for clients and for routes are free, before anything else starts.

    Raises OperatorError for the first one that is not.
    """
    _probe(options.host, client_port(options), lambda error: no_clients(options, error))
    cluster = options.cluster
    if cluster.port not in (0, -1):
        host = cluster.host or DEFAULT_HOST
        _probe(host, cluster.port, lambda error: no_routes(options, error))


def no_clients(options: Options, error: BaseException) -> OperatorError:
    """Return the OperatorError for a client port that cannot be opened; `error` is the cause."""
    host, port = options.host, client_port(options)
    reason = _why(host, port, error)
    return OperatorError(f'Error listening on port: {join(host, port)}, "{reason}"')


def no_routes(options: Options, error: BaseException) -> OperatorError:
    """Return the OperatorError for a route port that cannot be opened; `error` is the cause."""
    host, port = options.cluster.host or DEFAULT_HOST, options.cluster.port
    reason = _why(host, port, error)
    return OperatorError(f"Error listening on router port: {port} - {reason}")


def _probe(host: str, port: int, refusal: Callable[[BaseException], OperatorError]) -> None:
    if port == 0:
        return
    if not 0 < port <= _PORT_MAX:
        raise refusal(OverflowError())
    try:
        probe(host, port, "NATS")
    except OperatorError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise refusal(cause) from error


def _why(host: str, port: int, error: BaseException) -> str:
    """Return the reason why an address is unavailable, as Go writes it."""
    if not 0 <= port <= _PORT_MAX:
        return f"listen tcp: address {port}: invalid port"
    if isinstance(error, socket.gaierror):
        return f"listen tcp: lookup {host}: no such host"
    said = (getattr(error, "strerror", None) or str(error)).lower()
    return f"listen tcp {join(host, port)}: bind: {said}"
