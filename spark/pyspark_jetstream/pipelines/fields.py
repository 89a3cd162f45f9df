"""Checked access to the fields of a pipeline's declaration.

An error names the field, its value and the valid values.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_jetstream.values import LARGEST

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 100 * 366 * 86400.0
_MOST = 1e300
_UNITS = "microsecond|millisecond|second|minute|hour|day|week|month|year"
_INTERVAL = re.compile(
    rf"\s*(?:interval\s+)?(?:\d{{1,9}}\s+(?:{_UNITS})s?\s*)+", re.IGNORECASE | re.ASCII
)
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)")
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class DeclarationError(ValueError):
    """A field in the declaration of a pipeline is missing, invalid or unknown.

    Args:
        field: Path of the field, such as `pipelines[0].target.path`.
        found: Description of the value in the declaration; never a secret.
        expected: Description of the valid values.
    """

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(f"{field}: {found}; expected {expected}")
        self.field, self.found, self.expected = field, found, expected


def delay(text: str) -> str:
    """Convert the delay of a watermark for Spark: `10s` to milliseconds, `10 seconds` unchanged.

    Raises DeclarationError if the text is neither a duration nor an interval of Spark.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is not None and float(match[1]) * _SECONDS[match[2]] <= _LONGEST:
        return f"{round(float(match[1]) * _SECONDS[match[2]] * 1000)} milliseconds"
    if not _INTERVAL.fullmatch(text):
        expected = "a duration such as 10s, or an interval of Spark such as 10 seconds"
        raise DeclarationError("watermark.delay", shown(text), expected)
    return text


def shown(value: object) -> str:
    """Return a value as text for an error message, at most 80 characters."""
    text = repr(value)
    return f"is {text if len(text) <= 80 else text[:77] + '...'}"


class Fields:
    """A mapping of a declaration, whose fields are read by name and checked for their type.

    Each method that returns a field raises DeclarationError if the field is invalid. After all
    fields are read, `end` refuses unknown ones.

    Args:
        values: The mapping from YAML.
        where: Path of the mapping in the file, for errors.
    """

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            # The value may be a misplaced connection string, so the error does not show it.
            raise DeclarationError(where, f"is a {type(values).__name__}", "a mapping of fields")
        self._values: Mapping[str, Any] = values
        self._read: set[str] = set()
        self.where = where

    def path(self, name: str) -> str:
        """Return the path of a field for errors, such as `pipelines[0].source.stream`."""
        return f"{self.where}.{name}" if self.where else name

    def wrong(self, name: str, expected: str) -> DeclarationError:
        """Return the DeclarationError for a field that is invalid or missing.

        Args:
            name: Name of the field.
            expected: Description of the valid values.
        """
        if name not in self._values:
            return DeclarationError(self.path(name), "is missing", expected)
        if name == "dsn":
            return DeclarationError(
                self.path(name), f"is a {type(self._values[name]).__name__}", expected
            )
        return DeclarationError(self.path(name), shown(self._values[name]), expected)

    def has(self, name: str) -> bool:
        """Return True if the field is present and not null."""
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return the value of a field without a check; None if it is missing."""
        self._read.add(name)
        return self._values.get(name)

    def text(self, name: str, default: str | None = None, expected: str = "a text") -> str:
        """Return the non-empty text of a field, or `default` if the field is missing.

        Raises DeclarationError for any other value, and if the field and `default` are missing.
        """
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(name, expected)
        return value

    def texts(self, name: str, expected: str = "a text or a list of texts") -> tuple[str, ...]:
        """Return the texts of a field that is one text or a list; () if the field is missing.

        Raises DeclarationError for any other value.
        """
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, Sequence) or not all(isinstance(v, str) and v for v in value):
            raise self.wrong(name, expected)
        return tuple(value)

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return the value of a field that must be one of `choices`, or `default` if it is missing.

        Raises DeclarationError for any other value, and if the field and `default` are missing.
        """
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if value not in choices:
            raise self.wrong(name, "one of " + ", ".join(choices))
        return str(value)

    def integer(self, name: str, default: int | None, least: int = 0) -> int | None:
        """Return the integer of a field, or `default` if the field is missing.

        Raises DeclarationError unless the value is a whole number from `least` to 2^63 - 1.
        """
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.wrong(name, f"a whole number of at least {least}, below 2^63")
        return value

    def number(self, name: str, default: float) -> float:
        """Return the number of a field, or `default` if the field is missing.

        Raises DeclarationError unless the value is a number above 0 and at most 1e300.
        """
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
            raise self.wrong(name, "a number above 0, of at most 1e300")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return the boolean of a field, or `default` if the field is missing.

        Raises DeclarationError for any value other than true and false.
        """
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def duration(self, name: str, default: float | None) -> float | None:
        """Return the duration of a field in seconds, or `default` if the field is missing.

        Examples are `500ms`, `10s`, `5m`, `2h`, `7d`. Raises DeclarationError for any other form,
        and for more than 100 years.
        """
        value = self.raw(name)
        if value is None:
            return default
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1]) * _SECONDS[match[2]] if match else _LONGEST + 1
        if seconds > _LONGEST:
            expected = "a duration such as 500ms, 10s, 5m, 2h or 7d, of at most 100 years"
            raise self.wrong(name, expected)
        return seconds

    def size(self, name: str, default: int | None) -> int | None:
        """Return the size of a field in bytes, or `default` if the field is missing.

        Valid are positive integers and texts such as `64MiB`. Raises DeclarationError for others.
        """
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None or int(match[1]) == 0:
            raise self.wrong(name, "bytes such as 1048576 or 64MiB")
        return int(match[1]) * _BYTES[match[2]]

    def inner(self, name: str) -> "Fields":
        """Return the mapping that a field contains.

        Raises DeclarationError if it is missing or not a mapping.
        """
        if name not in self._values:
            raise self.wrong(name, "a mapping of fields")
        return Fields(self.raw(name), self.path(name))

    def options(self, name: str, reserved: Sequence[str] = ()) -> dict[str, str]:
        """Return a field with options of `format("jetstream")`, each option as text; {} if missing.

        Raises DeclarationError for an invalid value, and for an option in `reserved`, which the
        pipeline sets itself.
        """
        values = self.inner(name)._values if self.has(name) else {}
        found: dict[str, str] = {}
        for key, value in values.items():
            where = f"{self.path(name)}.{key}"
            if not isinstance(key, str):
                raise DeclarationError(where, "is not the name of an option", "a text")
            if key.lower() in {one.lower() for one in reserved}:
                expected = f"none of {', '.join(reserved)}, which the pipeline sets itself"
                raise DeclarationError(where, "is not an option here", expected)
            if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
                value = ",".join(value)
            if isinstance(value, bool):
                value = "true" if value else "false"
            if not isinstance(value, str | int | float):
                # The value may be a secret; its type is enough to find the mistake.
                raise DeclarationError(
                    where, f"is a {type(value).__name__}", "a text, a number, true or false"
                )
            found[key] = str(value)
        return found

    def end(self) -> None:
        """Raise DeclarationError for the first unknown field: one that no method has read."""
        for name in self._values:
            if name not in self._read:
                known = ", ".join(sorted(self._read))
                raise DeclarationError(self.path(str(name)), "is no field", f"one of {known}")
