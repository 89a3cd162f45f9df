"""Parameters of a monitoring request, with the reference server's refusals."""

from collections.abc import Mapping
from dataclasses import dataclass


class BadQuery(Exception):
    """A parameter cannot be read: answered with 400 and this text."""


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """A text, empty when it is not there."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean as Go reads it. Raises BadQuery."""
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
        """An integer. Raises BadQuery."""
        value = self.text(name)
        if not value:
            return 0
        try:
            return int(value)
        except ValueError:
            raise BadQuery(
                f"Error decoding int for '{name}': strconv.Atoi: parsing \"{value}\":"
                " invalid syntax"
            ) from None

    def unsigned(self, name: str) -> int:
        """An integer of no sign. Raises BadQuery."""
        value = self.text(name)
        if value and not (value.isascii() and value.isdigit()):
            raise BadQuery(
                f"Error decoding uint64 for '{name}': strconv.ParseUint: parsing \"{value}\":"
                " invalid syntax"
            )
        return int(value or 0)
