"""Conversion of the block `cluster` to options, checks of it, and conversion to route settings."""

from collections.abc import Iterator
from typing import Any

from core.config.grammar import Item, plain
from core.model.gotime import format_duration
from core.route.settings import ClusterSettings, RouteUrl
from core.runtime.nuid import nuid
from core.units import NANOS_PER_SECOND, Seconds
from dropin.config.advertise import routes_advertised
from dropin.config.cluster_check import check_cluster
from dropin.config.durations import duration
from dropin.config.options import DEFAULT_HOST, ClusterOptions, Options
from dropin.config.urls import authority_of, split
from dropin.config.value_types import GO_TYPES, Wrong, place

_PLAIN = {
    "name": "name",
    "port": "port",
    "host": "host",
    "net": "host",
    "cluster_advertise": "advertise",
    "advertise": "advertise",
    "no_advertise": "no_advertise",
    "connect_retries": "connect_retries",
    "pool_size": "pool_size",
}
_GUARDS = ("tls", "permissions")
_WITHOUT_EFFECT = (
    "connect_backoff",
    "ping_interval",
    "ping_max",
    "write_deadline",
    "write_timeout",
)
_UNCOMPRESSED = ("", "off", "disabled", "false", "accept", "not supported", "not_supported")
_COMPRESSED = (
    *("on", "enabled", "true", "auto", "s2_auto"),
    *("s2_fast", "s2_better", "s2_best"),
)
_AUTO = ("auto", "s2_auto")


def route_of(url: str) -> RouteUrl:
    """Parse the URL of a route, `nats://user:password@host:port`.

    Raises ValueError if the text is not a URL or has no host and port.
    """
    try:
        named = authority_of(url.strip())
    except ValueError:
        raise ValueError(f'error parsing route url ["{url}"]') from None
    try:
        host, port = split(named.place)
    except ValueError:
        shown = url.rpartition("@")[2]  # without the password
        raise ValueError(f'route url "{shown}" has no host and port') from None
    return RouteUrl(host=host, port=port, user=named.user or "", password=named.password or "")


def take_cluster(item: Item, options: Options, mistakes: list[str]) -> None:
    """Check the block `cluster`, and store its values in the options.

    Features that are not served add a refusal or a warning to the options.

    Args:
        item: The block.
        options: Receives the values.
        mistakes: Receives the errors, one line each.

    Raises:
        Wrong: The value is not a block.
    """
    if not isinstance(item.value, dict):
        found = GO_TYPES.get(type(plain(item)), "nil")
        raise Wrong(f"Expected map to define cluster, got {found}")
    before, block = len(mistakes), {key.lower(): member for key, member in plain(item).items()}
    check_cluster(item, mistakes, options.oddities)
    for guard in _GUARDS:
        if block.get(guard):
            options.refusals.append(f"cluster {guard} is not served")
    if len(mistakes) == before:
        _apply(block, options)


def _apply(block: dict[str, Any], options: Options) -> None:
    cluster = options.cluster = ClusterOptions()
    for key, attribute in _PLAIN.items():
        if key in block:
            setattr(cluster, attribute, block[key])
    if "listen" in block:
        host, cluster.port = place(block["listen"])
        cluster.host = host or cluster.host
    _routes(options, block.get("routes") or ())
    _authorization(options, block.get("authorization") or {})
    _compression(cluster, block.get("compression", ""))
    accounts = block.get("accounts") or ()
    cluster.accounts = (accounts,) if isinstance(accounts, str) else tuple(accounts)
    for name in _WITHOUT_EFFECT:
        if name in block:
            options.warnings.append(f"cluster {name} has no effect")


def _routes(options: Options, urls: Any) -> None:
    found: list[RouteUrl] = []
    for url in dict.fromkeys(urls):
        try:
            found.append(route_of(url))
        except ValueError as error:
            options.refusals.append(str(error))
    options.cluster.routes = tuple(found)


def _authorization(options: Options, block: dict[str, Any]) -> None:
    cluster, own = options.cluster, {key.lower(): member for key, member in block.items()}
    cluster.user = str(own.get("user", own.get("username")) or "")
    cluster.password = str(own.get("pass", own.get("password")) or "")
    timeout = own.get("timeout", cluster.timeout)
    cluster.timeout = duration(timeout) if isinstance(timeout, str) else Seconds(float(timeout))
    for name in ("permissions", "default_permissions", "default_permission", "auth_callout"):
        if name in own:
            options.refusals.append(f"cluster authorization {name} is not served")


def _compression(cluster: ClusterOptions, value: Any) -> None:
    if isinstance(value, bool):
        cluster.compression = "on" if value else "off"
    elif isinstance(value, str):
        cluster.compression = value
    else:
        block = {key.lower(): member for key, member in value.items()}
        names = [key for key in block if key != "mode"]
        cluster.compression = block.get("mode", "")
        cluster.thresholds = tuple(duration(text) for name in names for text in block[name])


def contradictions(cluster: ClusterOptions) -> Iterator[str]:
    """Yield the contradictions between members of the block `cluster`, with nats-server's texts."""
    if " " in cluster.name:
        yield "cluster name cannot contain spaces"
    mode = cluster.compression.lower()
    if mode not in (*_UNCOMPRESSED, *_COMPRESSED):
        yield f'unsupported compression mode "{cluster.compression}"'
    if mode in _AUTO:
        yield from _threshold_contradictions(cluster.compression, cluster.thresholds)
    if cluster.accounts and cluster.pool_size < 0:
        yield "pool_size cannot be negative if pinned accounts are specified"
    for account in cluster.accounts:
        if cluster.accounts.count(account) > 1:
            listed = " ".join(f'"{each}"' for each in cluster.accounts)
            yield f'found duplicate account name "{account}" in pinned accounts list [{listed}]'


def _threshold_contradictions(mode: str, thresholds: tuple[float, ...]) -> Iterator[str]:
    if thresholds and max(thresholds) <= 0:
        yield f'compression mode "{mode}" requires at least one RTT threshold'
    given = [each for each in thresholds if each > 0]
    if given != sorted(given):
        shown = " ".join(format_duration(round(each * NANOS_PER_SECOND)) for each in thresholds)
        yield f"RTT threshold values [{shown}] should be in ascending order"


def warnings(cluster: ClusterOptions) -> Iterator[str]:
    """Yield a warning for each member of the block `cluster` that has no effect in this server."""
    if cluster.routes and not cluster.port:
        yield "cluster routes have no effect: the cluster has no port"
    if cluster.pool_size > 1:
        yield "cluster pool_size has no effect: there is one connection to each server"
    if cluster.accounts:
        yield "cluster accounts has no effect: there is one connection to each server"
    if cluster.compression.lower() in _COMPRESSED:
        yield "cluster compression has no effect: routes are not compressed"


def settings_of(cluster: ClusterOptions) -> ClusterSettings | None:
    """Return the settings of the routes; None if the block has no port.

    A cluster without a name gets a generated one at each start.

    Raises:
        OperatorError: The advertised address is invalid.
    """
    if not cluster.port:
        return None
    advertise = routes_advertised(cluster.advertise)
    return ClusterSettings(
        name=cluster.name or nuid(),
        is_dynamic=not cluster.name,
        host=cluster.host or DEFAULT_HOST,
        port=0 if cluster.port == -1 else cluster.port,
        routes=cluster.routes,
        user=cluster.user,
        password=cluster.password,
        timeout_s=cluster.timeout,
        advertise="" if advertise is None else _written(*advertise),
        no_advertise=cluster.no_advertise,
        connect_retries=cluster.connect_retries,
    )


def _written(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
