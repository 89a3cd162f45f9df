"""Kinds of values in a configuration file; what is of another kind is told as Go tells it."""

from datetime import datetime
from typing import Any, NoReturn

GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    datetime: "time.Time",
}


class Wrong(Exception):
    """One value is wrong; the text says how."""


class WrongKind(Wrong):
    """One value is of another kind than it should be."""


def is_not(value: Any, wanted: str) -> NoReturn:
    """Raise WrongKind: the value is of another kind."""
    found = GO_TYPES.get(type(value), "nil")
    raise WrongKind(f"interface conversion: interface {{}} is {found}, not {wanted}")


def integer(value: Any) -> int:
    """An integer. Raises Wrong."""
    return value if type(value) is int else is_not(value, "int64")


def text(value: Any) -> str:
    """A string. Raises Wrong."""
    return value if isinstance(value, str) else is_not(value, "string")


def flag(value: Any) -> bool:
    """A boolean. Raises Wrong."""
    return value if isinstance(value, bool) else is_not(value, "bool")


def mapping(value: Any) -> dict[str, Any]:
    """A map. Raises Wrong."""
    return value if isinstance(value, dict) else is_not(value, GO_TYPES[dict])
