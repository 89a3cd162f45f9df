"""Check of the types in a block `websocket`, with nats-server's error texts."""

from collections.abc import Callable
from functools import partial
from typing import Any

from core.config.grammar import Item, plain
from dropin.config.durations import duration
from dropin.config.value_types import (
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

_Mistakes = list[str]


def check_websocket(block: Item, mistakes: _Mistakes, oddities: list[str]) -> None:
    """Check the members of a block `websocket`.

    Args:
        block: The block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
    """
    for key, item in block.value.items():
        name = key.lower()
        value = plain(item)
        convert = _KINDS.get(name)
        try:
            if convert is not None:
                convert(value)
            elif name == "headers":
                _headers(item, mistakes)
            elif name in ("authorization", "authentication"):
                _authorization(item, mistakes)
            elif not item.is_variable:
                mistakes.append(f"{item.place}: {unknown(key)}")
        except Odd as odd:
            oddities.append(f"{item.place}: {odd}")
        except WrongType as wrong:
            mistakes.append(f"{item.place}: {wrong}")
            if wrong.odd:
                oddities.append(f"{item.place}: {wrong.odd}")
            return  # nats-server stops reading the block here
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")


def _headers(item: Item, mistakes: _Mistakes) -> None:
    if not isinstance(item.value, dict):
        raise Wrong(f"error parsing headers: unsupported type {GO_TYPES[type(item.value)]}")
    for key, member in item.value.items():
        if not isinstance(member.value, str):
            found = GO_TYPES[type(member.value)]
            reason = f"error parsing header key {key}: unsupported type {found}"
            mistakes.append(f"{member.place}: {reason}")


def _authorization(item: Item, mistakes: _Mistakes) -> None:
    mapping(plain(item))
    for key, member in item.value.items():
        try:
            if key.lower() in ("user", "username", "pass", "password", "token"):
                text(plain(member))
            elif key.lower() != "timeout" and not member.is_variable:
                mistakes.append(f"{member.place}: {unknown(key)}")
        except Wrong as wrong:
            mistakes.append(f"{member.place}: {wrong}")


def _origins(value: Any) -> None:
    if not isinstance(value, str | list):
        raise Wrong(f"error parsing allowed origins: unsupported type {GO_TYPES[type(value)]}")


def _handshake(value: Any) -> None:
    if type(value) is int:
        return
    if not isinstance(value, str):
        raise Wrong(f"error parsing handshake timeout: unsupported type {GO_TYPES[type(value)]}")
    try:
        duration(value)
    except ValueError as error:
        raise Wrong(str(error)) from None


_KINDS: dict[str, Callable[[Any], Any]] = {
    "listen": place,
    "port": integer,
    **dict.fromkeys(("host", "net", "advertise", "no_auth_user"), text),
    **dict.fromkeys(("jwt_cookie", "user_cookie", "pass_cookie", "token_cookie"), text),
    **dict.fromkeys(("no_tls", "same_origin", "compress", "compression"), flag),
    **dict.fromkeys(
        ("allowed_origins", "allowed_origin", "allow_origins", "allow_origin"), _origins
    ),
    "handshake_timeout": _handshake,
    "ping_interval": partial(period, "ping_interval"),
    "tls": mapping,
}
