"""What is wrong in a block `authorization`, told in the reference server's words.

Unknown fields are refused there as everywhere, unless some variable refers to them.
"""

from collections.abc import Callable
from typing import Any

from core.config.grammar import Item, plain
from core.subjects.subject import is_valid_filter
from nats_server.config.durations import duration
from nats_server.config.value_types import (
    GO_TYPES,
    Wrong,
    flag,
    in_words,
    integer,
    text,
    unknown,
)

_CONNECTION_TYPES = frozenset(
    ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS")
)
_PERMISSIONS = ("permission", "permissions", "authorization")
_KINDS = ("allowed_connection_types", "connection_types", "clients")
_RESPONSES = ("allow_responses", "allow_response", "publish_allow_responses")
_HIGH_TIMEOUT_S = 60
_Mistakes = list[str]


def check_authorization(block: Item, mistakes: _Mistakes, oddities: list[str]) -> None:
    """Add what is wrong to the mistakes, what is only odd to the oddities, a line each."""
    members: dict[str, Item] = {key.lower(): item for key, item in block.value.items()}
    found = len(mistakes)
    for key, item in block.value.items():
        name = key.lower()
        if name in ("user", "username", "pass", "password", "token"):
            _try(item, mistakes, text)
        elif name == "timeout":
            _try(item, mistakes, _timeout)
            if reason := _is_high(item.value):
                oddities.append(f"{item.place}: {reason}")
        elif name == "users":
            _users(item, mistakes)
        elif name in ("default_permission", "default_permissions", "permissions"):
            _permissions(item, mistakes)
        elif name not in ("auth_callout", "proxy_required"):
            _unknown(key, item, mistakes)
    if len(mistakes) == found and (reason := _clash(plain(members))):
        mistakes.append(f"{block.place}: {reason}")


def _clash(block: dict[str, Any]) -> str:
    user, token = block.get("user") or block.get("username"), block.get("token")
    users = block.get("users")
    if (user or block.get("pass") or block.get("password")) and token:
        return "Cannot have a user/pass and token"
    if users and user:
        return "Can not have a single user/pass and a users array"
    if users and token:
        return "Can not have a token and a users array"
    seen = set[str]()
    for entry in users or ():
        fields = {key.lower(): value for key, value in entry.items()}
        name = fields.get("user", fields.get("username")) or ""
        if name and name in seen:
            return f'Duplicate user "{name}" detected'
        seen.add(name)
    return ""


def _users(item: Item, mistakes: _Mistakes) -> None:
    if not isinstance(item.value, list):
        shown = in_words(plain(item))
        mistakes.append(f"{item.place}: Expected users field to be an array, got {shown}")
        return
    for entry in item.value:
        if not isinstance(entry.value, dict):
            shown = in_words(plain(entry))
            mistakes.append(f"{entry.place}: Expected user entry to be a map/struct, got {shown}")
            continue
        _user(entry, mistakes)


def _user(entry: Item, mistakes: _Mistakes) -> None:
    last, named = entry, False
    for key, item in entry.value.items():
        name, last = key.lower(), item
        if name in ("user", "username", "nkey"):
            _try(item, mistakes, text)
            named = named or item.value != ""
        elif name in ("pass", "password"):
            _try(item, mistakes, text)
        elif name == "proxy_required":
            _try(item, mistakes, flag)
        elif name in _PERMISSIONS:
            _permissions(item, mistakes)
        elif name in _KINDS:
            _try(item, mistakes, _connection_types)
        else:
            _unknown(key, item, mistakes)
    if not named:
        mistakes.append(f"{last.place}: User entry requires a user")


def _permissions(item: Item, mistakes: _Mistakes) -> None:
    if not isinstance(item.value, dict):
        shown = in_words(plain(item))
        mistakes.append(f"{item.place}: Expected permissions to be a map/struct, got {shown}")
        return
    for key, member in item.value.items():
        name = key.lower()
        if name in ("pub", "publish", "import"):
            _rule(member, mistakes, with_queue=False)
        elif name in ("sub", "subscribe", "export"):
            _rule(member, mistakes, with_queue=True)
        elif name in _RESPONSES:
            _responses(member, mistakes)
        elif not member.is_variable:
            mistakes.append(f'{member.place}: Unknown field "{key}" parsing permissions')


def _rule(item: Item, mistakes: _Mistakes, *, with_queue: bool) -> None:
    if not isinstance(item.value, dict):
        # The reference server says this without a place.
        if reason := _subjects(item, with_queue=with_queue):
            mistakes.append(reason)
        return
    for key, member in item.value.items():
        if key.lower() in ("allow", "deny"):
            if reason := _subjects(member, with_queue=with_queue):
                mistakes.append(f"{member.place}: {reason}")
        elif not member.is_variable:
            mistakes.append(
                f'{member.place}: Unknown field name "{key}" parsing subject permissions,'
                " only 'allow' or 'deny' are permitted"
            )


def _subjects(item: Item, *, with_queue: bool) -> str:
    """Why a value names no subjects; empty when it does."""
    value = plain(item)
    if not isinstance(value, str | list):
        found = GO_TYPES.get(type(value), "nil")
        return f"Expected subject permissions to be a subject, or array of subjects, got {found}"
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, str):
            return "Subject in permissions array cannot be cast to string"
        parts = entry.split()
        subject = parts[0] if with_queue and len(parts) == 2 else entry
        if not subject or " " in subject or not is_valid_filter(subject.encode()):
            return f'subject "{entry}" is not a valid subject'
    return ""


def _responses(item: Item, mistakes: _Mistakes) -> None:
    if isinstance(item.value, bool):
        return
    if not isinstance(item.value, dict):
        reason = "error parsing response permissions, expected a boolean or a map"
        mistakes.append(f"{item.place}: {reason}")
        return
    for key, member in item.value.items():
        name = key.lower()
        if name in ("max", "max_msgs", "max_messages", "max_responses"):
            _try(member, mistakes, integer)
        elif name in ("expires", "expiration", "ttl"):
            _try(member, mistakes, _expires)
        elif not member.is_variable:
            mistakes.append(f'{member.place}: Unknown field "{key}" parsing permissions')


# -- values


def _try(item: Item, mistakes: _Mistakes, convert: Callable[[Any], Any]) -> None:
    try:
        convert(plain(item))
    except Wrong as wrong:
        mistakes.append(f"{item.place}: {wrong}")


def _unknown(key: str, item: Item, mistakes: _Mistakes) -> None:
    if not item.is_variable:
        mistakes.append(f"{item.place}: {unknown(key)}")


def _timeout(value: Any) -> None:
    if type(value) in (int, float):
        return
    if not isinstance(value, str):
        raise Wrong("error parsing authorization config, 'timeout' wrong type")
    try:
        duration(value)
    except ValueError as error:
        raise Wrong(f"error parsing authorization config, 'timeout' {error}") from None


def _is_high(value: Any) -> str:
    """What is odd in a timeout that may be meant as less; empty when nothing is."""
    try:
        seconds = duration(value) if isinstance(value, str) else value
    except ValueError:
        return ""
    if type(seconds) not in (int, float) or seconds <= _HIGH_TIMEOUT_S:
        return ""
    return (
        f'invalid use of field "timeout": timeout of {in_words(value)} ({seconds:.6f} seconds) is'
        f" high, consider keeping it under {_HIGH_TIMEOUT_S} seconds. possibly caused by unquoted"
        " duration; use '1m' instead of 1m, for example"
    )


def _expires(value: Any) -> None:
    if not isinstance(value, str):
        raise Wrong("error parsing expires, not a duration string")
    try:
        duration(value)
    except ValueError as error:
        raise Wrong(f"error parsing expires: {error}") from None


def _connection_types(value: Any) -> None:
    if not isinstance(value, str | list):
        found = GO_TYPES.get(type(value), "nil")
        raise Wrong(f"error parsing allowed connection types: unsupported type {found}")
    kinds = [str(kind).upper() for kind in (value if isinstance(value, list) else [value])]
    if unknown := [kind for kind in kinds if kind not in _CONNECTION_TYPES]:
        shown = " ".join(f'"{kind}"' for kind in unknown)
        raise Wrong(f"invalid connection types [{shown}]")
