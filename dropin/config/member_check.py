"""Check of a block's members by name and type, with nats-server's error texts."""

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
"""Called with a plain value; raises Wrong."""


def write_timeout(value: Any) -> None:
    """Check the policy for slow peers. Raises Wrong."""
    if text(value) not in ("default", "close", "retry"):
        raise Wrong("write_timeout must be 'default', 'close' or 'retry'")


def compression(value: Any) -> None:
    """Check a compression mode, a boolean, or a block with both and more. Raises Wrong."""
    if not isinstance(value, str | bool | dict):
        found = GO_TYPES.get(type(value), "nil")
        raise Wrong(f'field "compression" should be a boolean or a structure, got {found}')


def duration_of(name: str) -> Check:
    """Return the check of a duration."""
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
    """Append errors to the mistakes and warnings to the oddities, a line each.

    `inner` checks members whose own members have places. Its functions raise as checks do, or
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
            return  # nats-server stops reading the block here
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")
