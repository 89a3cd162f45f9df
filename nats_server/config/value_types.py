"""Types of values in a configuration file; a value of another type is reported in Go's words."""

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
    """A value cannot be used; the text says why."""


class WrongType(Wrong):
    """A value is of another type than it should be."""


def is_not(value: Any, wanted: str) -> NoReturn:
    """Raise WrongType: the value is of another kind."""
    found = GO_TYPES.get(type(value), "nil")
    raise WrongType(f"interface conversion: interface {{}} is {found}, not {wanted}")


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
