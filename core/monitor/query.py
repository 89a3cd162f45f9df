"""The parameters of a monitoring request, with nats-server's error texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DIGITS = 21  # more than the largest allowed integer has


class BadQuery(Exception):
    """An invalid parameter, answered with status 400 and this text."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The parameters of one request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a text; empty if it is absent."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean in Go's notations; False if it is absent. Raises BadQuery."""
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
        """Return a signed 64-bit integer; 0 if it is absent. Raises BadQuery."""
        begin = f"Error decoding int for '{name}': strconv.Atoi"
        return _integer(self.text(name), begin, _INTEGER, range(-(1 << 63), 1 << 63))

    def page(self, most: int) -> tuple[int, int]:
        """Return offset and limit of a list; `most` is the default limit. Raises BadQuery."""
        limit = self.number("limit")
        return max(self.number("offset"), 0), limit if limit > 0 else most

    def unsigned(self, name: str) -> int:
        """Return an unsigned 64-bit integer; 0 if it is absent. Raises BadQuery."""
        begin = f"Error decoding uint64 for '{name}': strconv.ParseUint"
        return _integer(self.text(name), begin, _UNSIGNED, range(1 << 64))


def _integer(text: str, begin: str, form: re.Pattern[str], allowed: range) -> int:
    """Parse an integer as Go does; an empty text is 0. Raises BadQuery."""
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
