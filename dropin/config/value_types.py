"""Type checks of values in a configuration file; the error texts are Go's."""

from datetime import datetime
from typing import Any, NoReturn

from dropin.config.durations import duration

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
    """A value in the configuration is invalid; the text is the reason."""


class WrongType(Wrong):
    """A value in the configuration has the wrong type.

    Attributes:
        odd: A warning to report in addition; "" for none.
    """

    odd = ""


class Placeless(Wrong):
    """A value is invalid, and nats-server reports the error without file, line and column."""


class GivenUp(Wrong):
    """A value is invalid, and nats-server does not read the rest of its block."""


class Odd(Wrong):
    """A value is questionable but accepted; the text is a warning about it."""


class WrongMember(Wrong):
    """A member of a map is invalid; the error is reported at the line and column of its key.

    Args:
        key: Key of the member.
        text: The reason.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def is_not(value: Any, wanted: str) -> NoReturn:
    """Raise WrongType: the value does not have the Go type `wanted`."""
    found = GO_TYPES.get(type(value), "nil")
    raise WrongType(f"interface conversion: interface {{}} is {found}, not {wanted}")


def period(name: str, value: Any) -> float:
    """Parse a duration; return it in seconds.

    Raises Wrong if a text is not a duration, WrongType if the value is neither text nor integer,
    and Odd (a warning) if it is an integer, which the caller takes as seconds.
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
    """Return the value if it is an integer. Raises WrongType if it is not."""
    return value if type(value) is int else is_not(value, "int64")


def text(value: Any) -> str:
    """Return the value if it is a string. Raises WrongType if it is not."""
    return value if isinstance(value, str) else is_not(value, "string")


def texts(value: Any) -> tuple[str, ...]:
    """Return a string, or an array of strings, as a tuple. Raises WrongType for other values."""
    return tuple(map(text, value)) if isinstance(value, list) else (text(value),)


def flag(value: Any) -> bool:
    """Return the value if it is a boolean. Raises WrongType if it is not."""
    return value if isinstance(value, bool) else is_not(value, "bool")


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a map. Raises WrongType if it is not."""
    return value if isinstance(value, dict) else is_not(value, GO_TYPES[dict])


def place(value: Any) -> tuple[str, int]:
    """Parse `host:port`, or a port alone, as host and port; the host may be empty.

    Raises Wrong if the value has another form.
    """
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
    """Return nats-server's error text for an unknown key."""
    return f'unknown field "{"".join(map(_escaped, key))}"'


def _escaped(letter: str) -> str:
    """Escape a character as Go's format %q does."""
    if letter in _ESCAPED or letter.isprintable():
        return _ESCAPED.get(letter, letter)
    number = ord(letter)
    return f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}"


def in_words(value: Any) -> str:
    """Format a value as Go's format %v does."""
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
