"""What is wrong in a block that is not served, told in the reference server's words.

Its members are looked at as far as their names and the kinds of their values go: a file that
nats-server refuses because of a slip is not served without a word.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.config.grammar import Item, plain
from nats_server.config.authorization_check import check_permissions
from nats_server.config.value_types import (
    GO_TYPES,
    Odd,
    Wrong,
    WrongType,
    flag,
    integer,
    mapping,
    period,
    place,
    text,
    unknown,
)

_Check = Callable[[Any], Any]


def _any(value: Any) -> None:
    """Whatever it is, the refusal of the block says enough."""


def _between(least: int, most: int) -> _Check:
    def check(value: Any) -> None:
        if not least <= integer(value) <= most:
            raise Wrong(f"invalid value {value}, should in [{least}..{most}] range")

    return check


def _version(value: Any) -> None:
    if not _SEMVER.fullmatch(text(value).removeprefix("v")):
        raise Wrong("invalid leafnode's minimum version: invalid semver")


def _block(value: Any) -> None:
    mapping(value)


def _name(value: Any) -> None:
    if " " in text(value):
        raise Wrong("gateway name cannot contain spaces")


def _write_timeout(value: Any) -> None:
    if text(value) not in ("default", "close", "retry"):
        raise Wrong("write_timeout must be 'default', 'close' or 'retry'")


def _compression(value: Any) -> None:
    if not isinstance(value, str | bool | dict):
        found = GO_TYPES.get(type(value), "nil")
        raise Wrong(f'field "compression" should be a boolean or a structure, got {found}')


def _ignored(value: Any) -> None:
    what = "consumer replicas setting ignored in this server version"
    raise Odd(f'invalid use of field "consumer_replicas": {what}')


def _period(name: str) -> _Check:
    return partial(period, name)


def _route_pings(value: Any) -> None:
    if period("ping_interval", value) > _ROUTE_PINGS_MAX_S:
        raise Odd("Cluster 'ping_interval' will reset to 30s which is the max for routes")


_ROUTE_PINGS_MAX_S = 30
_PLACE: dict[str, _Check] = {"listen": place, "port": integer, "host": text, "net": text}
_RETRIES: dict[str, _Check] = {"connect_retries": integer, "connect_backoff": flag}
_SEMVER = re.compile(r"\d+\.\d+\.\d+([-+].*)?")
_COMMON: dict[str, _Check] = {
    "authorization": _block,
    "tls": _block,
    "write_timeout": _write_timeout,
}

_RECONNECT = ("reconnect", "reconnect_delay", "reconnect_interval")

_MEMBERS: dict[str, dict[str, _Check]] = {
    "cluster": {
        **_PLACE,
        **_COMMON,
        **_RETRIES,
        **dict.fromkeys(("name", "cluster_advertise", "advertise"), text),
        **dict.fromkeys(("routes", "permissions", "accounts"), _any),
        "compression": _compression,
        "no_advertise": flag,
        "pool_size": integer,
        "ping_max": integer,
        "ping_interval": _route_pings,
        "write_deadline": _period("write_deadline"),
    },
    "gateway": {
        **_PLACE,
        **_COMMON,
        **_RETRIES,
        "name": _name,
        "advertise": text,
        **dict.fromkeys(("reject_unknown", "reject_unknown_cluster"), flag),
        "gateways": _any,
        "write_deadline": _period("write_deadline"),
    },
    "leafnodes": {
        **_PLACE,
        **_COMMON,
        "advertise": text,
        "min_version": _version,
        **dict.fromkeys(("no_advertise", "isolate_leafnode_interest", "isolate"), flag),
        "remotes": _any,
        "compression": _compression,
        **dict.fromkeys(
            ("reconnect", "reconnect_delay", "reconnect_interval"), _period("reconnect")
        ),
        "write_deadline": _period("write_deadline"),
    },
    "mqtt": {
        **_PLACE,
        **_COMMON,
        **dict.fromkeys(("no_auth_user", "js_domain"), text),
        "stream_replicas": integer,
        "consumer_replicas": _ignored,
        **dict.fromkeys(("consumer_memory_storage", "reject_qos2_publish"), flag),
        "downgrade_qos2_subscribe": flag,
        **dict.fromkeys(("ack_wait", "ackwait"), _period("ack_wait")),
        **dict.fromkeys(("max_ack_pending", "max_pending", "max_inflight"), _between(0, 65535)),
        **dict.fromkeys(("js_api_timeout", "api_timeout"), _period("js_api_timeout")),
        "consumer_inactive_threshold": _period("consumer_inactive_threshold"),
    },
}
_ACCOUNT = (
    *("nkey", "imports", "exports", "jetstream", "users", "default_permissions", "mappings"),
    *("maps", "limits", "msg_trace", "trace_dest", "cluster_traffic", "trace_context"),
)


def check_unserved(kind: str, block: Item, mistakes: list[str], oddities: list[str]) -> None:
    """Add what is wrong in a block `cluster`, `gateway`, `leafnodes` or `mqtt`, a line each."""
    _check(_MEMBERS[kind], block.value, mistakes, oddities)
    for key, item in block.value.items():
        if kind == "cluster" and key.lower() == "permissions":
            check_permissions(item, mistakes)


def check_accounts(block: Item, mistakes: list[str], oddities: list[str]) -> None:
    """Add what is wrong in the block `accounts`, a line each."""
    for account in block.value.values():
        if not isinstance(account.value, dict):
            mistakes.append(f"{account.place}: Expected map entries for accounts")
        else:
            _check(dict.fromkeys(_ACCOUNT, _any), account.value, mistakes, oddities)


def _check(
    checks: Mapping[str, _Check],
    members: Mapping[str, Item],
    mistakes: list[str],
    oddities: list[str],
) -> None:
    for key, item in members.items():
        check = checks.get(key.lower())
        try:
            if check is not None:
                check(plain(item))
            elif not item.is_variable:
                mistakes.append(f"{item.place}: {unknown(key)}")
        except Odd as odd:
            oddities.append(f"{item.place}: {odd}")
        except WrongType as wrong:
            if wrong.odd:
                oddities.append(f"{item.place}: {wrong.odd}")
            mistakes.append(f"{item.place}: {wrong}")
            return  # the reference server gives up on the block there
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")
