"""The flags `--cluster`, the address to accept routes on, and `--routes`, the servers to dial."""

from core.errors import OperatorError
from core.route.settings import RouteUrl
from dropin.config.cluster import route_of
from dropin.config.options import Options
from dropin.config.urls import authority_of, split

_ANY_PORT = ":-1"


def listen_for_routes(options: Options, url: str) -> None:
    """Apply `--cluster`: accept routes at a URL's address, with its user and password.

    The URL replaces both in the configuration file; an empty URL disables the cluster.

    Raises:
        OperatorError: The URL is invalid; the message is nats-server's.
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
    """Apply `--routes`: dial only these servers, separated by commas; an empty text means none.

    Raises:
        OperatorError: A URL is invalid, or names no server.
    """
    options.cluster.routes = tuple(map(_route, urls.split(","))) if urls else ()


def _route(url: str) -> RouteUrl:
    try:
        return route_of(url)
    except ValueError as error:
        raise OperatorError(str(error)) from None
