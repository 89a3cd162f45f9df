"""Option strings as values: numbers, sizes, durations, lists, secrets.

Every failure is an `InvalidOption` that names the option, the value and the expected form.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark_jetstream.units import NANOS_PER_SECOND

_SIZE = re.compile(r"(\d+)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib)?", re.IGNORECASE | re.ASCII)
_POWERS = {"b": 0, "k": 1, "m": 2, "g": 3}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_PASSWORD = re.compile(r"://[^/@]*?:([^@/]+)@|password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)")
_USER = re.compile(r"://[^/@\s]+@")
_SHOWN = 200
"""Largest number of characters of a value in a message."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Hidden:
    """Placeholder of a value that may be secret."""

    def __repr__(self) -> str:
        return "set"


SET = _Hidden()
"""Placeholder value of an option whose value no message shows."""

LARGEST = (1 << 63) - 1
"""The largest integer of Spark and PostgreSQL."""
_LONGEST = 100 * 366 * 86400.0
"""The longest duration in seconds: clocks and sockets support only some centuries."""


class InvalidOption(ValueError):
    """An option is invalid.

    Args:
        name: The option, as it is documented.
        value: Its value; `SET` if it may be secret, None if it is not set.
        expected: The valid values.
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        if isinstance(value, str):  # the value may be a misplaced connection string
            value = _USER.sub("://***@", _PASSWORD.sub(_without_password, value))
        shown = "not set" if value is None else repr(value)
        if len(shown) > _SHOWN:
            shown = shown[: _SHOWN - 3] + "..."
        super().__init__(f"option {name!r} is {shown}, expected {expected}")
        self.name, self.expected = name, expected


def _without_password(match: re.Match[str]) -> str:
    return match[0].replace(match[1] or match[2], "***")


class UnknownOption(InvalidOption):
    """An option that the format does not have.

    Args:
        name: The given name.
        hint: A similar name, or all names.
    """

    def __init__(self, name: str, hint: str) -> None:
        ValueError.__init__(self, f"the jetstream format has no option {name!r}: {hint}")
        self.name, self.expected = name, hint


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never printed, resolved only on use.

    Attributes:
        name: The option, for messages.
        reference: `env:NAME`, `file:PATH`, or the value itself.
    """

    name: str
    reference: str

    def __repr__(self) -> str:
        return f"Secret({self.name})"

    @property
    def is_elsewhere(self) -> bool:
        """True if the environment or a file contains the value."""
        return self.reference.startswith(("env:", "file:"))

    def resolve(self) -> str:
        """Return the value, from this machine's environment or file. Raises InvalidOption."""
        kind, _, rest = self.reference.partition(":")
        if kind == "env":
            if rest not in os.environ:
                raise InvalidOption(
                    self.name, self.reference, "an environment variable that is set here"
                )
            return os.environ[rest]
        if kind == "file":
            try:
                return Path(rest).read_text().strip()
            except OSError as error:
                raise InvalidOption(
                    self.name, self.reference, f"a file that can be read here ({error.strerror})"
                ) from None
            except UnicodeDecodeError:
                raise InvalidOption(
                    self.name, self.reference, "a file that can be read here (it is no text)"
                ) from None
        return self.reference

    def without(self, text: str) -> str:
        """Remove the value, and a password in it, from the text of a message."""
        value = self.resolve()
        hidden = [(found[1] or found[2]).strip("'") for found in _PASSWORD.finditer(value)]
        # If the value is no connection string, the message may repeat any word of it.
        hidden += [word for word in value.split() if "=" not in word and "://" not in word]
        for word in sorted(hidden, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "***", text)
        return text.replace(value, "***") if value else text


class Values:
    """The options of a query by name, regardless of case.

    Methods raise InvalidOption for an invalid value.

    Args:
        options: The options from Spark.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def names(self) -> list[str]:
        """Return the names of the options set, in lower case."""
        return list(self._options)

    def text(self, name: str) -> str | None:
        """Return the unparsed value; None if not set or empty."""
        return self._options.get(name.lower(), "").strip() or None

    def secret(self, name: str) -> Secret | None:
        """Return a value that the environment or a file may contain; None if not set."""
        value = self.text(name)
        return Secret(name, value) if value is not None else None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of the given words, regardless of case."""
        value = self.text(name) or default
        found = {choice.lower(): choice for choice in choices}.get(value.lower())
        if found is None:
            raise InvalidOption(name, value, "one of " + ", ".join(choices))
        return found

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean, `true` or `false`."""
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def number(self, name: str, *, least: int = 1) -> int | None:
        """Return an integer; None if not set."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not least <= _number(value) <= LARGEST:
            raise InvalidOption(name, value, f"a whole number of at least {least}, below 2^63")
        return int(value)

    def size(self, name: str) -> int | None:
        """Return bytes from `1048576`, `64MiB`, `64m` (powers of 1024); None if not set."""
        value = self.text(name)
        if value is None:
            return None
        match = _SIZE.fullmatch(value)
        found = _number(match[1]) * 1024 ** _POWERS[(match[2] or "b")[0].lower()] if match else 0
        if not 1 <= found <= LARGEST:
            raise InvalidOption(name, value, "a number of bytes, such as 1048576 or 64MiB")
        return found

    def seconds(self, name: str, default: float) -> float:
        """Return seconds from `90`, `500ms`, `1.5s`, `5m`, `1h`; without a unit: seconds."""
        value = self.text(name)
        if value is None:
            return default
        match = _DURATION.fullmatch(value)
        found = float(match[1]) * _SECONDS[match[2] or "s"] if match else -1.0
        if not 0 <= found <= _LONGEST:
            expected = "a duration, such as 500ms, 30s or 5m, of at most 100 years"
            raise InvalidOption(name, value, expected)
        return found

    def names_list(self, name: str) -> tuple[str, ...]:
        """Return names separated by commas, or from a JSON array if a name contains a comma."""
        value = self.text(name)
        if value is None:
            return ()
        if value.startswith("["):
            try:
                found = json.loads(value)
            except ValueError:
                found = None
            if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
                raise InvalidOption(name, value, "names with commas, or a JSON array of strings")
        else:
            found = [item.strip() for item in value.split(",")]
        if not found or not all(found):
            raise InvalidOption(name, value, "names with commas, none of them empty")
        return tuple(dict.fromkeys(found))


def _number(digits: str) -> int:
    """Convert digits of any number; very many become one number too large for all uses."""
    return int(digits) if len(digits) < 40 else 1 << 100


def rfc3339_ns(text: str) -> int | None:
    """Return an RFC 3339 time as nanoseconds since the epoch, exactly; None for other text."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    zone = "+00:00" if match[4] in "Zz" else match[4]
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError:
        return None
    whole = moment - _EPOCH
    return (whole.days * 86400 + whole.seconds) * NANOS_PER_SECOND + int(
        (match[3] or "").ljust(9, "0")
    )
