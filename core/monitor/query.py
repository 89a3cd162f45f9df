"""Parameters of a monitoring request, with the reference server's refusals."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DIGITS = 21  # more than any integer has that is allowed


class BadQuery(Exception):
    """A parameter cannot be read: answered with 400 and this text."""


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a text, empty when it is not there."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean as Go reads it. Raises BadQuery."""
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
        """Return an integer. Raises BadQuery."""
        begin = f"Error decoding int for '{name}': strconv.Atoi"
        return _integer(self.text(name), begin, _INTEGER, range(-(1 << 63), 1 << 63))

    def page(self, most: int) -> tuple[int, int]:
        """Return the offset and limit of a list; `most` is the default limit. Raises BadQuery."""
        limit = self.number("limit")
        return max(self.number("offset"), 0), limit if limit > 0 else most

    def unsigned(self, name: str) -> int:
        """Return an unsigned integer. Raises BadQuery."""
        begin = f"Error decoding uint64 for '{name}': strconv.ParseUint"
        return _integer(self.text(name), begin, _UNSIGNED, range(1 << 64))


def _integer(text: str, begin: str, form: re.Pattern[str], allowed: range) -> int:
    """Read an integer as Go does; none is 0."""
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
