"""The URL parameters of a monitoring request, with nats-server's error texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DIGITS = 21  # more than the largest allowed integer has


class BadQuery(Exception):
    """Raised for an invalid parameter; the answer is status 400 with this text."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The URL parameters of one monitoring request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return the parameter `name` as text; empty if it is absent."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return the parameter `name` as a boolean in one of Go's notations; False if it is absent.

        Raises BadQuery for any other text.
        """
        value = self.text(name)
        if not value or value in ("0", "f", "F", "FALSE", "false", "False"):
            return False
        if value in ("1", "t", "T", "TRUE", "true", "True"):
            return True
        raise BadQuery(
            f"Error decoding boolean for '{name}': strconv.ParseBool: parsing \"{value}\":"
            " invalid syntax"
        )

    def number(self, name: str) -> int:
        """Return the parameter `name` as a signed 64-bit integer; 0 if it is absent.

        Raises BadQuery for any other text.
        """
        begin = f"Error decoding int for '{name}': strconv.Atoi"
        return _integer(self.text(name), begin, _INTEGER, range(-(1 << 63), 1 << 63))

    def page(self, most: int) -> tuple[int, int]:
        """Return the parameters `offset` (at least 0) and `limit` of a list.

        The limit is `most` if it is absent or not positive. Raises BadQuery if one is no integer.
        """
        limit = self.number("limit")
        return max(self.number("offset"), 0), limit if limit > 0 else most

    def unsigned(self, name: str) -> int:
        """Return the parameter `name` as an unsigned 64-bit integer; 0 if it is absent.

        Raises BadQuery for any other text.
        """
        begin = f"Error decoding uint64 for '{name}': strconv.ParseUint"
        return _integer(self.text(name), begin, _UNSIGNED, range(1 << 64))


def _integer(text: str, begin: str, form: re.Pattern[str], allowed: range) -> int:
    """Parse an integer as Go does; an empty text is 0. Raises BadQuery if it is invalid.

    `begin` begins the error text, `form` matches the syntax, `allowed` is the range.
    """
    if not text:
        return 0
    problem = "invalid syntax"
    if form.fullmatch(text):
        magnitude = int(text.lstrip("+-0")[:_DIGITS] or 0)
        number = -magnitude if text[0] == "-" else magnitude
        if number in allowed:
            return number
        problem = "value out of range"
    raise BadQuery(f'{begin}: parsing "{text}": {problem}')
