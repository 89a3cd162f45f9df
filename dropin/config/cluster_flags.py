"""The flags `--cluster` (address to accept routes on) and `--routes` (servers to connect to)."""

from core.errors import OperatorError
from core.route.settings import RouteUrl
from dropin.config.cluster import route_of
from dropin.config.options import Options
from dropin.config.urls import authority_of, split

_ANY_PORT = ":-1"


def listen_for_routes(options: Options, url: str) -> None:
    """Apply the flag `--cluster`: accept routes at the address of a URL.

    The URL's address, user and password replace those of the configuration file; an empty URL
    disables the cluster.

    Raises:
        OperatorError: The URL is invalid; the text is nats-server's.
    """
    cluster = options.cluster
    if not url:
        cluster.port = 0
        return
    is_any = url.endswith(_ANY_PORT)
    try:
        named = authority_of(url.removesuffix(_ANY_PORT) + ":0" if is_any else url)
        host, port = split(named.place)
    except ValueError as error:
        raise OperatorError(str(error)) from None
    if named.user is not None and named.password is None:
        raise OperatorError("expected cluster password to be set")
    cluster.host, cluster.port = host, -1 if is_any else port
    cluster.user, cluster.password = named.user or "", named.password or ""


def dial_routes(options: Options, urls: str) -> None:
    """Apply the flag `--routes`: connect only to these servers.

    Args:
        options: Receives the routes.
        urls: URLs separated by commas; empty for no routes.

    Raises:
        OperatorError: A URL is invalid, or has no host and port.
    """
    options.cluster.routes = tuple(map(_route, urls.split(","))) if urls else ()


def _route(url: str) -> RouteUrl:
    try:
        return route_of(url)
    except ValueError as error:
        raise OperatorError(str(error)) from None
