"""Check of the types in a block `cluster`, with nats-server's error texts."""

from functools import partial
from typing import Any

from core.config.grammar import Item, plain
from dropin.config.authorization_check import check_credentials, check_permissions
from dropin.config.durations import duration
from dropin.config.member_check import (
    COMMON,
    PLACE,
    RETRIES,
    Check,
    check_members,
    compression,
    duration_of,
)
from dropin.config.urls import authority_of
from dropin.config.value_types import (
    GO_TYPES,
    GivenUp,
    Odd,
    Wrong,
    WrongType,
    flag,
    integer,
    is_not,
    mapping,
    period,
    text,
    unknown,
)

_PINGS_MAX_S = 30
_THRESHOLDS = ("rtt_thresholds", "thresholds", "rtts", "rtt")
_PERMISSIONS = ("default_permission", "default_permissions", "permissions")


def check_cluster(block: Item, mistakes: list[str], oddities: list[str]) -> None:
    """Check the members of a block `cluster`.

    Args:
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
    """
    inner = {
        "authorization": partial(_authorization, mistakes, oddities),
        "routes": partial(_routes, mistakes, oddities),
        "compression": partial(_compression, mistakes),
        "accounts": partial(_accounts, mistakes),
        "permissions": partial(check_permissions, mistakes=mistakes),
    }
    check_members(_MEMBERS, block.value, mistakes, oddities, inner)


def _name(value: Any) -> None:
    if " " in text(value):
        raise Wrong("cluster name cannot contain spaces")


def _pings(value: Any) -> None:
    if period("ping_interval", value) > _PINGS_MAX_S:
        raise Odd("Cluster 'ping_interval' will reset to 30s which is the max for routes")


_MEMBERS: dict[str, Check] = {
    **PLACE,
    **COMMON,
    **RETRIES,
    "name": _name,
    **dict.fromkeys(("cluster_advertise", "advertise"), text),
    "no_advertise": flag,
    "pool_size": integer,
    "ping_max": integer,
    "ping_interval": _pings,
    "write_deadline": duration_of("write_deadline"),
}


def _authorization(mistakes: list[str], oddities: list[str], item: Item) -> None:
    mapping(plain(item))
    before = len(mistakes)
    members = {key.lower(): member.value for key, member in item.value.items()}
    has_users = check_credentials(item, mistakes, oddities) and "users" in members
    if has_users and len(mistakes) == before:
        raise Wrong("Cluster authorization does not allow multiple users")
    if members.get("token"):
        raise Wrong("Cluster authorization does not support tokens")
    if any(isinstance(members.get(name), dict) for name in _PERMISSIONS):
        what = 'setting "permissions" within cluster authorization block is deprecated'
        oddities.append(f'{item.place}: invalid use of field "authorization": {what}')


def _routes(mistakes: list[str], oddities: list[str], item: Item) -> None:
    if not isinstance(item.value, list):
        is_not(plain(item), GO_TYPES[list])
    seen = set[str]()
    for each in item.value:
        try:
            url = text(plain(each))
        except WrongType as wrong:
            mistakes.append(f"{each.place}: {wrong}")
            return
        if url in seen:
            odd = f'invalid use of field "{url}": Duplicate route entry detected'
            oddities.append(f"{each.place}: {odd}")
            continue
        seen.add(url)
        try:
            authority_of(url.strip())
        except ValueError:
            mistakes.append(f'{each.place}: error parsing route url ["{url.strip()}"]')


def _accounts(mistakes: list[str], item: Item) -> None:
    what = "error parsing accounts: unsupported type"
    if not isinstance(item.value, str | list):
        raise Wrong(f"{what} {GO_TYPES.get(type(item.value), 'nil')}")
    for each in item.value if isinstance(item.value, list) else ():
        if not isinstance(each.value, str):
            found = GO_TYPES.get(type(each.value), "nil")
            mistakes.append(f"{each.place}: {what} in array {found}")


def _compression(mistakes: list[str], item: Item) -> None:
    compression(plain(item))
    if not isinstance(item.value, dict):
        return
    for key, member in item.value.items():
        name, given = key.lower(), member
        try:
            if name == "mode":
                text(plain(member))
            elif name in _THRESHOLDS:
                if not isinstance(member.value, list):
                    is_not(plain(member), GO_TYPES[list])
                for given in member.value:
                    duration(text(plain(given)))
            elif not member.is_variable:
                mistakes.append(f"{member.place}: {unknown(key)}")
                return
        except WrongType as wrong:
            raise GivenUp(f"{given.place}: {wrong}") from None
        except ValueError as error:
            mistakes.append(f"{member.place}: {error}")
            return
