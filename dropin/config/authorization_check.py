"""Check of a block `authorization`, with nats-server's error texts.

Unknown fields are errors, unless the configuration uses them as variables.
"""

from collections.abc import Callable
from typing import Any

from core.config.grammar import Item, plain
from core.subjects.subject import is_valid_filter
from dropin.config.durations import duration
from dropin.config.value_types import (
    GO_TYPES,
    GivenUp,
    Wrong,
    WrongType,
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
    """Check a block `authorization`: its members, and their combinations.

    Args:
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
    """
    members: dict[str, Item] = {key.lower(): item for key, item in block.value.items()}
    try:
        if not check_credentials(block, mistakes, oddities):
            members.pop("users")
    except GivenUp as wrong:
        mistakes.append(str(wrong))
        return
    if reason := _clash(plain(members)):
        mistakes.append(f"{block.place}: {reason}")


def check_credentials(block: Item, mistakes: _Mistakes, oddities: list[str]) -> bool:
    """Check each member of a block `authorization`, but not their combinations.

    Returns False if the list of users cannot be read to its end.

    Args:
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.

    Raises:
        GivenUp: nats-server does not read the rest of the block; the text is the last error line.
    """
    has_users = True
    for key, item in block.value.items():
        name = key.lower()
        if name in ("user", "username", "pass", "password", "token"):
            _try(item, mistakes, text)
        elif name == "timeout":
            _try(item, mistakes, _timeout)
            if reason := _is_high(item.value):
                oddities.append(f"{item.place}: {reason}")
        elif name == "users":
            has_users = _users(item, mistakes)
        elif name in ("default_permission", "default_permissions", "permissions"):
            _permissions(item, mistakes)
        elif name not in ("auth_callout", "proxy_required"):
            _unknown(key, item, mistakes)
    return has_users


def _clash(block: dict[str, Any]) -> str:
    user, token = block.get("user") or block.get("username"), block.get("token")
    has_users, users = "users" in block, block.get("users")
    if (user or block.get("pass") or block.get("password")) and token:
        return "Cannot have a user/pass and token"
    if has_users and user:
        return "Can not have a single user/pass and a users array"
    if has_users and token:
        return "Can not have a token and a users array"
    seen = set[str]()
    for entry in users or ():
        if not isinstance(entry, dict):
            continue
        fields = {key.lower(): value for key, value in entry.items()}
        name = fields.get("user", fields.get("username")) or ""
        if name and name in seen:
            return f'Duplicate user "{name}" detected'
        seen.add(name)
    return ""


def _users(item: Item, mistakes: _Mistakes) -> bool:
    if not isinstance(item.value, list):
        shown = in_words(plain(item))
        mistakes.append(f"{item.place}: Expected users field to be an array, got {shown}")
        return False
    for entry in item.value:
        if not isinstance(entry.value, dict):
            shown = in_words(plain(entry))
            mistakes.append(f"{entry.place}: Expected user entry to be a map/struct, got {shown}")
            continue
        if not _user(entry, mistakes):
            return False
    return True


def _user(entry: Item, mistakes: _Mistakes) -> bool:
    """Check one user; return False if nats-server does not read the users after this one."""
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
            _connection_types(item, mistakes)
        else:
            _unknown(key, item, mistakes)
    if not named:
        mistakes.append(f"{last.place}: User entry requires a user")
    return named


def check_permissions(item: Item, mistakes: _Mistakes) -> None:
    """Check the member `permissions` of a block `cluster`; append its errors to `mistakes`."""
    if isinstance(item.value, dict):
        _permissions(item, mistakes)
    else:  # nats-server reports this error without file and line
        shown = in_words(plain(item))
        mistakes.append(f"Expected permissions to be a map/struct, got {shown}")


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
        # nats-server reports this error without file and line
        _subjects(item, mistakes, "", with_queue=with_queue)
        return
    for key, member in item.value.items():
        if key.lower() in ("allow", "deny"):
            _subjects(member, mistakes, f"{member.place}: ", with_queue=with_queue)
        elif not member.is_variable:
            mistakes.append(
                f'{member.place}: Unknown field name "{key}" parsing subject permissions,'
                " only 'allow' or 'deny' are permitted"
            )


def _subjects(item: Item, mistakes: _Mistakes, place: str, *, with_queue: bool) -> None:
    """Append an error if the value is not a list of subjects; `place` precedes the error text."""
    value = item.value
    if not isinstance(value, str | list):
        found = GO_TYPES.get(type(value), "nil")
        reason = "Expected subject permissions to be a subject, or array of subjects, got"
        mistakes.append(f"{place}{reason} {found}")
        return
    for each in value if isinstance(value, list) else [item]:
        entry = each.value
        if not isinstance(entry, str):
            mistakes.append(f"{each.place}: Subject in permissions array cannot be cast to string")
            return
        parts = entry.split()
        subject = parts[0] if with_queue and len(parts) == 2 else entry
        if not subject or " " in subject or not is_valid_filter(subject.encode()):
            mistakes.append(f'{place}subject "{entry}" is not a valid subject')
            return


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
    except WrongType as wrong:
        raise GivenUp(f"{item.place}: {wrong}") from None
    except Wrong as wrong:
        mistakes.append(f"{item.place}: {wrong}")


def _unknown(key: str, item: Item, mistakes: _Mistakes) -> None:
    if not item.is_variable:
        mistakes.append(f"{item.place}: {unknown(key)}")


def _timeout(value: Any) -> None:
    if type(value) in (int, float):
        return
    if not isinstance(value, str):
        raise WrongType("error parsing authorization config, 'timeout' wrong type")
    try:
        duration(value)
    except ValueError as error:
        raise WrongType(f"error parsing authorization config, 'timeout' {error}") from None


def _is_high(value: Any) -> str:
    """Return a warning if a timeout exceeds 60 seconds, else ""."""
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


def _connection_types(item: Item, mistakes: _Mistakes) -> None:
    what = "error parsing allowed connection types: unsupported type"
    if not isinstance(item.value, str | list):
        mistakes.append(f"{item.place}: {what} {GO_TYPES.get(type(item.value), 'nil')}")
        return
    parts = item.value if isinstance(item.value, list) else [item]
    for part in parts:
        if not isinstance(part.value, str):
            found = GO_TYPES.get(type(part.value), "nil")
            mistakes.append(f"{part.place}: {what} in array {found}")
            return
    kinds = [part.value.upper() for part in parts]
    if unknown := [kind for kind in kinds if kind not in _CONNECTION_TYPES]:
        shown = " ".join(f'"{kind}"' for kind in unknown)
        mistakes.append(f"{item.place}: invalid connection types [{shown}]")
