"""Looks at the members of a block by their names and the kinds of their values.

What is wrong is told in the reference server's words.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.config.grammar import Item, plain
from nats_server.config.value_types import (
    GO_TYPES,
    GivenUp,
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

Check = Callable[[Any], Any]
"""Called with a plain value; raises Wrong."""


def write_timeout(value: Any) -> None:
    """What becomes of slow peers."""
    if text(value) not in ("default", "close", "retry"):
        raise Wrong("write_timeout must be 'default', 'close' or 'retry'")


def compression(value: Any) -> None:
    """A mode, a flag, or a block of both and more."""
    if not isinstance(value, str | bool | dict):
        found = GO_TYPES.get(type(value), "nil")
        raise Wrong(f'field "compression" should be a boolean or a structure, got {found}')


def duration_of(name: str) -> Check:
    """A duration."""
    return partial(period, name)


PLACE: dict[str, Check] = {"listen": place, "port": integer, "host": text, "net": text}
RETRIES: dict[str, Check] = {"connect_retries": integer, "connect_backoff": flag}
COMMON: dict[str, Check] = {
    "authorization": mapping,
    "tls": mapping,
    "write_timeout": write_timeout,
}


def check_members(
    checks: Mapping[str, Check],
    members: Mapping[str, Item],
    mistakes: list[str],
    oddities: list[str],
    inner: Mapping[str, Callable[[Item], None]] | None = None,
) -> None:
    """Add what is wrong to the mistakes, what is only odd to the oddities, a line each.

    `inner` looks at members that have places of their own inside, and raises as checks do, or
    GivenUp with a whole line.
    """
    for key, item in members.items():
        name = key.lower()
        try:
            if inner is not None and name in inner:
                inner[name](item)
            elif name in checks:
                checks[name](plain(item))
            elif not item.is_variable:
                mistakes.append(f"{item.place}: {unknown(key)}")
        except Odd as odd:
            oddities.append(f"{item.place}: {odd}")
        except GivenUp as wrong:
            mistakes.append(str(wrong))
            return
        except WrongType as wrong:
            if wrong.odd:
                oddities.append(f"{item.place}: {wrong.odd}")
            mistakes.append(f"{item.place}: {wrong}")
            return  # the reference server gives up on the block there
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")
