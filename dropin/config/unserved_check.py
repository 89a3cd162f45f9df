"""Check of blocks for features that are not served, with nats-server's error texts.

So a file with an error that nats-server would report is not accepted silently.
"""

import re
from typing import Any

from core.config.grammar import Item
from dropin.config.member_check import (
    COMMON,
    PLACE,
    RETRIES,
    Check,
    check_members,
    compression,
    duration_of,
)
from dropin.config.value_types import Odd, Wrong, flag, integer, text


def _any(value: Any) -> None:
    """Accept any value, because the block itself is refused."""


def _between(least: int, most: int) -> Check:
    def check(value: Any) -> None:
        if not least <= integer(value) <= most:
            raise Wrong(f"invalid value {value}, should in [{least}..{most}] range")

    return check


def _version(value: Any) -> None:
    if not _SEMVER.fullmatch(text(value).removeprefix("v")):
        raise Wrong("invalid leafnode's minimum version: invalid semver")


def _name(value: Any) -> None:
    if " " in text(value):
        raise Wrong("gateway name cannot contain spaces")


def _ignored(value: Any) -> None:
    what = "consumer replicas setting ignored in this server version"
    raise Odd(f'invalid use of field "consumer_replicas": {what}')


_SEMVER = re.compile(r"\d+\.\d+\.\d+([-+].*)?")
_MEMBERS: dict[str, dict[str, Check]] = {
    "gateway": {
        **PLACE,
        **COMMON,
        **RETRIES,
        "name": _name,
        "advertise": text,
        **dict.fromkeys(("reject_unknown", "reject_unknown_cluster"), flag),
        "gateways": _any,
        "write_deadline": duration_of("write_deadline"),
    },
    "leafnodes": {
        **PLACE,
        **COMMON,
        "advertise": text,
        "min_version": _version,
        **dict.fromkeys(("no_advertise", "isolate_leafnode_interest", "isolate"), flag),
        "remotes": _any,
        "compression": compression,
        **dict.fromkeys(
            ("reconnect", "reconnect_delay", "reconnect_interval"), duration_of("reconnect")
        ),
        "write_deadline": duration_of("write_deadline"),
    },
    "mqtt": {
        **PLACE,
        **COMMON,
        **dict.fromkeys(("no_auth_user", "js_domain"), text),
        "stream_replicas": integer,
        "consumer_replicas": _ignored,
        **dict.fromkeys(("consumer_memory_storage", "reject_qos2_publish"), flag),
        "downgrade_qos2_subscribe": flag,
        **dict.fromkeys(("ack_wait", "ackwait"), duration_of("ack_wait")),
        **dict.fromkeys(("max_ack_pending", "max_pending", "max_inflight"), _between(0, 65535)),
        **dict.fromkeys(("js_api_timeout", "api_timeout"), duration_of("js_api_timeout")),
        "consumer_inactive_threshold": duration_of("consumer_inactive_threshold"),
    },
}
_ACCOUNT = (
    *("nkey", "imports", "exports", "jetstream", "users", "default_permissions", "mappings"),
    *("maps", "limits", "msg_trace", "trace_dest", "cluster_traffic", "trace_context"),
)


def check_unserved(kind: str, block: Item, mistakes: list[str], oddities: list[str]) -> None:
    """Check the members of a block `gateway`, `leafnodes` or `mqtt`.

    Args:
        kind: Name of the block.
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
    """
    check_members(_MEMBERS[kind], block.value, mistakes, oddities)


def check_accounts(block: Item, mistakes: list[str], oddities: list[str]) -> None:
    """Check that the block `accounts` contains blocks with known members.

    Args:
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
    """
    for account in block.value.values():
        if not isinstance(account.value, dict):
            mistakes.append(f"{account.place}: Expected map entries for accounts")
        else:
            check_members(dict.fromkeys(_ACCOUNT, _any), account.value, mistakes, oddities)
