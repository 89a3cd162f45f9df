"""Types of values in a configuration file; a value of another type is reported in Go's words."""

from datetime import datetime
from typing import Any, NoReturn

from nats_server.config.durations import duration

GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    datetime: "time.Time",
}

_ESCAPED = {
    letter: f"\\{name}" for letter, name in zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True)
}


class Wrong(Exception):
    """A value cannot be used; the text says why."""


class WrongType(Wrong):
    """A value is of another type than it should be.

    Attributes:
        odd: what is said of it beside that; empty: nothing.
    """

    odd = ""


class Placeless(Wrong):
    """A value cannot be used; the reference server says so without a place."""


class GivenUp(Wrong):
    """A value cannot be used, and the rest of its block is not read: so nats-server does it."""


class Odd(Wrong):
    """One value is not what it should be, and was taken all the same."""


class WrongMember(Wrong):
    """A member of a map cannot be used; the place is that of its key."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def is_not(value: Any, wanted: str) -> NoReturn:
    """Raise WrongType: the value is of another kind."""
    found = GO_TYPES.get(type(value), "nil")
    raise WrongType(f"interface conversion: interface {{}} is {found}, not {wanted}")


def period(name: str, value: Any) -> float:
    """Seconds of a duration, or of a number of seconds, which is odd.

    Raises Wrong; Odd and WrongType as the reference server warns of what is no text.
    """
    if isinstance(value, str):
        try:
            return duration(value)
        except ValueError as error:
            raise Wrong(f"error parsing {name}: {error}") from None
    odd = f'invalid use of field "{name}": {name} should be converted to a duration'
    try:
        integer(value)
    except WrongType as wrong:
        wrong.odd = odd
        raise
    raise Odd(odd)


def integer(value: Any) -> int:
    """An integer. Raises Wrong."""
    return value if type(value) is int else is_not(value, "int64")


def text(value: Any) -> str:
    """A string. Raises Wrong."""
    return value if isinstance(value, str) else is_not(value, "string")


def texts(value: Any) -> tuple[str, ...]:
    """A string, or several in an array. Raises Wrong."""
    return tuple(map(text, value)) if isinstance(value, list) else (text(value),)


def flag(value: Any) -> bool:
    """A boolean. Raises Wrong."""
    return value if isinstance(value, bool) else is_not(value, "bool")


def mapping(value: Any) -> dict[str, Any]:
    """A map. Raises Wrong."""
    return value if isinstance(value, dict) else is_not(value, GO_TYPES[dict])


def place(value: Any) -> tuple[str, int]:
    """A host (may be empty) and a port from `host:port` or a port. Raises Wrong."""
    if type(value) is int:
        return "", value
    if not isinstance(value, str):
        raise Wrong(f"expected port or host:port, got {GO_TYPES.get(type(value), 'nil')}")
    host, colon, port = value.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        raise Wrong(f'could not parse address string "{value}"')
    try:
        return host.strip("[]"), int(port)
    except ValueError:
        raise Wrong(f'could not parse port "{port}"') from None


def unknown(key: str) -> str:
    """What is said of a key that nobody knows."""
    return f'unknown field "{"".join(map(_escaped, key))}"'


def _escaped(letter: str) -> str:
    """A letter as Go quotes it (%q)."""
    if letter in _ESCAPED or letter.isprintable():
        return _ESCAPED.get(letter, letter)
    number = ord(letter)
    return f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}"


def in_words(value: Any) -> str:
    """A value as Go prints it (%v)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    if isinstance(value, list):
        return f"[{' '.join(map(in_words, value))}]"
    if isinstance(value, dict):
        members = (f"{key}:{in_words(value[key])}" for key in sorted(value))
        return f"map[{' '.join(members)}]"
    return str(value)


def _number(value: float) -> str:
    from decimal import Decimal  # rarely needed

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if digits == (0,) or -5 < power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    shown = "-" * sign + str(digits[0])
    if rest := "".join(map(str, digits[1:])):
        shown += f".{rest}"
    return f"{shown}e{power:+03d}"
