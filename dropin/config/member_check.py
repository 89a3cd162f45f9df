"""Check of the members of a block by name and type, with nats-server's error texts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.config.grammar import Item, plain
from dropin.config.value_types import (
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
"""Function that checks a plain value, without line and column; raises Wrong if it is invalid."""


def write_timeout(value: Any) -> None:
    """Check `write_timeout`, the reaction to a slow peer. Raises Wrong for an unknown word."""
    if text(value) not in ("default", "close", "retry"):
        raise Wrong("write_timeout must be 'default', 'close' or 'retry'")


def compression(value: Any) -> None:
    """Check the type of `compression`: text, boolean or block. Raises Wrong for other types."""
    if not isinstance(value, str | bool | dict):
        found = GO_TYPES.get(type(value), "nil")
        raise Wrong(f'field "compression" should be a boolean or a structure, got {found}')


def duration_of(name: str) -> Check:
    """Return the check that the value of a member is a duration; `name` is for its error text."""
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
    """Check the members of a block by their names.

    An unknown name is an error, unless the configuration uses it as a variable. After a value of
    the wrong type, the rest of the block is not checked, as in nats-server.

    Args:
        checks: Check of each member.
        members: The members of the block.
        mistakes: Receives the errors, one line each.
        oddities: Receives the warnings, one line each.
        inner: Checks of members that are blocks themselves. They raise as other checks do, or
            GivenUp with a whole error line.
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
            return  # nats-server stops reading the block here
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")
