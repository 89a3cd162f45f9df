"""Parser of single option values: numbers, sizes, durations, lists, secrets.

An invalid value raises InvalidOption, which names the option, the value and the valid form.
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
"""Largest number of characters of an option's value in an error message."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Hidden:
    """Placeholder for a value that may be secret; it prints as `set`."""

    def __repr__(self) -> str:
        return "set"


SET = _Hidden()
"""Placeholder for a value in error messages that must not show it."""

LARGEST = (1 << 63) - 1
"""The largest 64-bit integer, the limit of Spark's and PostgreSQL's bigint."""
_LONGEST = 100 * 366 * 86400.0
"""The largest duration of an option in seconds, about 100 years: clocks and sockets have limits."""


class InvalidOption(ValueError):
    """An option has an invalid value, or a required option is not set.

    Args:
        name: Name of the option as the README writes it.
        value: Its value; `SET` if it may be secret, None if it is not set.
        expected: Description of the valid values.
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
    """A query sets an option that the format does not have.

    Args:
        name: Name of the option.
        hint: Suggestion of a similar name, or the list of all names.
    """

    def __init__(self, name: str, hint: str) -> None:
        ValueError.__init__(self, f"the jetstream format has no option {name!r}: {hint}")
        self.name, self.expected = name, hint


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never printed, and read from its environment variable or file at each use.

    Attributes:
        name: Name of the option, for messages.
        reference: `env:NAME`, `file:PATH`, or the value itself.
    """

    name: str
    reference: str

    def __repr__(self) -> str:
        return f"Secret({self.name})"

    @property
    def is_elsewhere(self) -> bool:
        """True if the value is in an environment variable or a file (`env:NAME`, `file:PATH`)."""
        return self.reference.startswith(("env:", "file:"))

    def resolve(self) -> str:
        """Return the value, from the environment variable or file of this machine if so given.

        Raises InvalidOption if the variable is not set or the file cannot be read as text.
        """
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
        """Return an error message without the secret value and without a password in it."""
        value = self.resolve()
        hidden = [(found[1] or found[2]).strip("'") for found in _PASSWORD.finditer(value)]
        # If the value is no connection string, the message may repeat any word of it.
        hidden += [word for word in value.split() if "=" not in word and "://" not in word]
        for word in sorted(hidden, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "***", text)
        return text.replace(value, "***") if value else text


class Values:
    """The options of a query by name, regardless of case.

    The methods return the parsed value of one option and raise InvalidOption if it is invalid. An
    option with an empty value counts as not set.

    Args:
        options: The options from Spark.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def names(self) -> list[str]:
        """Return the names of all given options, in lower case."""
        return list(self._options)

    def text(self, name: str) -> str | None:
        """Return the text of an option without surrounding white space; None if it is empty or not
        set.
        """
        return self._options.get(name.lower(), "").strip() or None

    def secret(self, name: str) -> Secret | None:
        """Return the value of an option as a secret; None if not set."""
        value = self.text(name)
        return Secret(name, value) if value is not None else None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return the value of an option that must be one of `choices`, regardless of case.

        Returns `default` if the option is not set. Raises InvalidOption for any other word.
        """
        value = self.text(name) or default
        found = {choice.lower(): choice for choice in choices}.get(value.lower())
        if found is None:
            raise InvalidOption(name, value, "one of " + ", ".join(choices))
        return found

    def flag(self, name: str, default: bool) -> bool:
        """Return the boolean value of an option; `default` if not set.

        Raises InvalidOption unless the value is `true` or `false`, regardless of case.
        """
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def number(self, name: str, *, least: int = 1) -> int | None:
        """Return the integer value of an option; None if not set.

        Raises InvalidOption if the value is not a whole number from `least` to 2^63 - 1.
        """
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not least <= _number(value) <= LARGEST:
            raise InvalidOption(name, value, f"a whole number of at least {least}, below 2^63")
        return int(value)

    def size(self, name: str) -> int | None:
        """Return the value of an option in bytes; None if not set.

        Examples are `1048576`, `64MiB` and `64m`; units are powers of 1024. Raises InvalidOption
        for any other form, for 0, and for more than 2^63 - 1 bytes.
        """
        value = self.text(name)
        if value is None:
            return None
        match = _SIZE.fullmatch(value)
        found = _number(match[1]) * 1024 ** _POWERS[(match[2] or "b")[0].lower()] if match else 0
        if not 1 <= found <= LARGEST:
            raise InvalidOption(name, value, "a number of bytes, such as 1048576 or 64MiB")
        return found

    def seconds(self, name: str, default: float) -> float:
        """Return the duration that an option sets, in seconds; `default` if not set.

        Examples are `90` (seconds), `500ms`, `1.5s`, `5m` and `1h`. Raises InvalidOption for any
        other form, and for more than 100 years.
        """
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
        """Return the names in an option, without duplicates; empty if not set.

        The value is a list with commas, or a JSON array if a name contains a comma. Raises
        InvalidOption if a name is empty or the JSON is not an array of strings.
        """
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
    """Convert digits to an integer; 40 digits and more become 2^100, which exceeds every limit."""
    return int(digits) if len(digits) < 40 else 1 << 100


def rfc3339_ns(text: str) -> int | None:
    """Parse an RFC 3339 time and return nanoseconds since the epoch; None for any other text."""
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
