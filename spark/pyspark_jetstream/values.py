"""Option strings as values: numbers, sizes, durations, lists, secrets.

Every failure is an `InvalidOption` that names the option, the value and what was expected.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

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
"""Characters of a value that a message shows."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Hidden:
    """Stands for a value that may be secret."""

    def __repr__(self) -> str:
        return "set"


SET = _Hidden()
"""The value of an option that is set to what no message shows."""

LARGEST = (1 << 63) - 1
"""The largest number of Spark and PostgreSQL."""
_LONGEST = 100 * 366 * 86400.0
"""Seconds of the longest duration: clocks and sockets take no more than some centuries."""


class InvalidOption(ValueError):
    """An option that cannot be used.

    Args:
        name: The option, as it is documented.
        value: What it was set to, `SET` where that may be secret, None where it was not set.
        expected: What it may be.
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        if isinstance(value, str):  # it may be a connection string in the wrong place
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
        name: As it was given.
        hint: What it may be.
    """

    def __init__(self, name: str, hint: str) -> None:
        ValueError.__init__(self, f"the jetstream format has no option {name!r}: {hint}")
        self.name, self.expected = name, hint


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never printed, taken from where it is kept only when it is used.

    Args:
        name: The option, for messages.
        reference: `env:NAME`, `file:PATH`, or the value itself.
    """

    name: str
    reference: str

    def __repr__(self) -> str:
        return f"Secret({self.name})"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the value is kept in the environment or in a file."""
        return self.reference.startswith(("env:", "file:"))

    def resolve(self) -> str:
        """The value; in a task it is the executor's environment or file. Raises InvalidOption."""
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
        """What somebody says about the value, without the value or a password in it."""
        value = self.resolve()
        hidden = [(found[1] or found[2]).strip("'") for found in _PASSWORD.finditer(value)]
        # Of what is no connection string a message may repeat any word.
        hidden += [word for word in value.split() if "=" not in word and "://" not in word]
        for word in sorted(hidden, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "***", text)
        return text.replace(value, "***") if value else text


class Values:
    """The options of a query, by name whatever its case.

    Args:
        options: As Spark gives them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def names(self) -> list[str]:
        """What was set, in lower case."""
        return list(self._options)

    def text(self, name: str) -> str | None:
        """The value as it is; None when it was not set or is empty."""
        return self._options.get(name.lower(), "").strip() or None

    def secret(self, name: str) -> Secret | None:
        """A value that may be kept elsewhere."""
        value = self.text(name)
        return Secret(name, value) if value is not None else None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words, in any case."""
        value = self.text(name) or default
        found = {choice.lower(): choice for choice in choices}.get(value.lower())
        if found is None:
            raise InvalidOption(name, value, "one of " + ", ".join(choices))
        return found

    def flag(self, name: str, default: bool) -> bool:
        """`true` or `false`."""
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def number(self, name: str, *, least: int = 1) -> int | None:
        """A whole number."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not least <= _number(value) <= LARGEST:
            raise InvalidOption(name, value, f"a whole number of at least {least}, below 2^63")
        return int(value)

    def size(self, name: str) -> int | None:
        """Bytes: `1048576`, `64MiB`, `64m` (powers of 1024)."""
        value = self.text(name)
        if value is None:
            return None
        match = _SIZE.fullmatch(value)
        found = _number(match[1]) * 1024 ** _POWERS[(match[2] or "b")[0].lower()] if match else 0
        if not 1 <= found <= LARGEST:
            raise InvalidOption(name, value, "a number of bytes, such as 1048576 or 64MiB")
        return found

    def seconds(self, name: str, default: float) -> float:
        """A duration: `90`, `500ms`, `1.5s`, `5m`, `1h`; seconds without a unit."""
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
        """Names with commas between them, or a JSON array where a name holds a comma."""
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
    """A number of any length; one of very many digits as one that is too large for all uses."""
    return int(digits) if len(digits) < 40 else 1 << 100


def rfc3339_ns(text: str) -> int | None:
    """A time as nanoseconds since the epoch, exact to the last digit; None when it is no time."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    zone = "+00:00" if match[4] in "Zz" else match[4]
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError:
        return None
    whole = moment - _EPOCH
    return (whole.days * 86400 + whole.seconds) * 10**9 + int((match[3] or "").ljust(9, "0"))
