"""Conversion of the block `authorization` to the server's users and permissions."""

from typing import Any

from core.auth.users import (
    AUTH_TIMEOUT,
    Permissions,
    Responses,
    Rule,
    User,
    Users,
    is_hash,
)
from core.errors import ConfigError, Contradiction
from core.units import Seconds
from dropin.config.durations import duration

_PUBLISH = ("publish", "pub", "import")
_SUBSCRIBE = ("subscribe", "sub", "export")
_RESPONSES = ("allow_responses", "allow_response", "publish_allow_responses")
_GUARDS = (
    *("user", "username", "pass", "password", "token", "users"),
    *("auth_callout", "proxy_required"),
)
NO_SUCH_NO_AUTH_USER = (
    'no_auth_user: "{}" not present as user or nkey in authorization block or account configuration'
)


def users_of(block: dict[str, Any] | None, no_auth_user: str = "") -> Users | None:
    """Return the users that may connect; None if every client may.

    Every client may if there is no block, or if the block names neither users nor a token.

    Raises:
        Contradiction: The user `no_auth_user` does not exist.
        ConfigError: The block is invalid, or uses features that are not served.
    """
    if no_auth_user and not (block or {}).get("users"):
        text = f'no_auth_user: "{no_auth_user}" present, but users/nkeys are not defined'
        raise Contradiction(text)
    if block is None or not any(block.get(name) for name in _GUARDS):
        return None
    for name in ("auth_callout", "proxy_required"):
        if block.get(name):
            raise ConfigError("authorization", f"{name} is not served")
    defaults = _permissions(_get(block, "default_permissions", "permissions"))
    listed = block.get("users") or []
    if not isinstance(listed, list):
        raise ConfigError("authorization", f"expected users to be an array, got {listed!r}")
    found = [_user(item, defaults) for item in listed]
    name = _get(block, "user", "username")
    if name:
        password = str(_get(block, "pass", "password") or "")
        found.append(User(str(name), password, defaults))
    if no_auth_user and not any(user.name == no_auth_user for user in found):
        raise Contradiction(NO_SUCH_NO_AUTH_USER.format(no_auth_user))
    return Users(
        users=tuple(found),
        token=str(block.get("token") or ""),
        no_auth_user=no_auth_user,
        timeout=_seconds(block.get("timeout"), AUTH_TIMEOUT),
    )


def has_plain_passwords(block: dict[str, Any] | None) -> bool:
    """Return True if a password in the block `authorization` is plain text instead of a hash."""
    fields = block or {}
    listed = fields.get("users")
    people = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    stored = [_get({key.lower(): it[key] for key in it}, "pass", "password") for it in people]
    own = _get(fields, "pass", "password")
    return any(not is_hash(str(each or "")) for each in (*stored, *((own,) if own else ())))


def _user(item: Any, defaults: Permissions | None) -> User:
    if not isinstance(item, dict):
        raise ConfigError("authorization", f"expected a user to be a map, got {item!r}")
    fields = {key.lower(): value for key, value in item.items()}
    if fields.get("nkey"):
        raise ConfigError("authorization", "nkey users are not served")
    if fields.get("proxy_required"):
        raise ConfigError("authorization", "proxy_required is not served")
    own = _permissions(_get(fields, "permissions", "permission", "authorization"))
    kinds = _get(fields, "allowed_connection_types", "connection_types", "clients") or ()
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list | tuple):
        raise ConfigError("authorization", "expected allowed_connection_types to be an array")
    return User(
        str(_get(fields, "user", "username") or ""),
        str(_get(fields, "pass", "password") or ""),
        defaults if own is None else own,
        frozenset(str(kind).upper() for kind in kinds),
    )


def _permissions(block: Any) -> Permissions | None:
    if not block:
        return None
    if not isinstance(block, dict):
        raise ConfigError("permissions", f"expected a map, got {block!r}")
    fields = {key.lower(): value for key, value in block.items()}
    known = {*_PUBLISH, *_SUBSCRIBE, *_RESPONSES}
    for key in fields:
        if key not in known:
            raise ConfigError("permissions", f"unknown field {key!r}")
    return Permissions(
        _rule(_get(fields, *_PUBLISH)),
        _rule(_get(fields, *_SUBSCRIBE)),
        _responses(_get(fields, *_RESPONSES)),
    )


def _rule(value: Any) -> Rule:
    if value is None:
        return Rule()
    if not isinstance(value, dict):
        return Rule(_subjects(value) or None)
    fields = {key.lower(): member for key, member in value.items()}
    for key in fields:
        if key not in ("allow", "deny"):
            raise ConfigError("permissions", f"unknown field {key!r}")
    # As in nats-server, an empty list restricts nothing.
    return Rule(_subjects(fields.get("allow")) or None, _subjects(fields.get("deny")))


def _subjects(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    entries = value if isinstance(value, list) else [value]
    return tuple(str(entry) for entry in entries)


def _responses(value: Any) -> Responses | None:
    if not value:
        return None
    if value is True:
        return Responses()
    if not isinstance(value, dict):
        raise ConfigError("permissions", f"allow_responses: expected a map, got {value!r}")
    fields = {key.lower(): member for key, member in value.items()}
    limit = _get(fields, "max", "max_msgs", "max_messages", "max_responses")
    ttl = _get(fields, "expires", "expiration", "ttl")
    plain = Responses()
    return Responses(plain.limit if limit is None else _integer(limit), _seconds(ttl, plain.ttl))


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ConfigError("permissions", f"expected a number of responses, got {value!r}")
    return value


def _seconds(value: Any, default: Seconds) -> Seconds:
    if value is None:
        return default
    if isinstance(value, int | float):
        return Seconds(float(value))
    try:
        return duration(str(value))
    except ValueError as error:
        raise ConfigError("authorization", str(error)) from None


def _get(fields: dict[str, Any], *names: str) -> Any:
    """Return the value of the first of several field names that is present; None if none is."""
    return next((fields[name] for name in names if name in fields), None)
