"""The grammar of nats-server's configuration files, as a pure parser.

    key: value   key = value   key value   key { map }      # comment   // comment

Values are maps, arrays, booleans, integers with units, floats, dates, strings in three spellings
and blocks in parentheses; `$name` refers to a key of an enclosing map or to the environment;
`include path` merges another file. Files and environment are arguments: nothing is read here.

What may follow what, the texts of errors and the positions in them are the reference server's.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.config.scanner import GrammarError, Scanner

__all__ = ["GrammarError", "Item", "Reader", "parse", "plain"]

Reader = Callable[[str, str], tuple[str, str]]
"""Called with the path in an `include` and the name of the file that has it; returns the name and
the text of the included file. Raises GrammarError."""

_INTEGER = re.compile(r"(-?\d+)(?:(k|m|g|t|p|e)(b|ib|i)?)?", re.IGNORECASE)
_FLOAT = re.compile(r"-?\d+\.\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_POWERS = "kmgtpe"
_BCRYPT = "$2a$"
_INT_MAX = (1 << 63) - 1


@dataclass(slots=True)
class Item:
    """A value and where its key stands. Maps hold items by key, arrays items without keys."""

    value: Any
    file: str
    line: int
    column: int
    is_variable: bool = False
    """Some `$name` refers to it: an unknown key may be there just for that."""

    @property
    def place(self) -> str:
        """`file:line:column` as error texts show it."""
        return f"{self.file}:{self.line}:{self.column}"


def parse(text: str, name: str, read: Reader, environment: Mapping[str, str]) -> dict[str, Item]:
    """Read a configuration.

    Args:
        text: the file.
        name: its name, for positions.
        read: how includes are read.
        environment: where variables are looked up that no map has.

    Raises:
        GrammarError: it cannot be read.
    """
    return _Parser(text, name, read, environment, []).parse()


def plain(value: Any) -> Any:
    """The value without positions."""
    if isinstance(value, Item):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class _Parser:
    def __init__(
        self,
        text: str,
        name: str,
        read: Reader,
        environment: Mapping[str, str],
        maps: list[dict[str, Item]],
    ) -> None:
        self._scan = Scanner(text)
        self._name = name
        self._read = read
        self._environment = environment
        self._maps = maps
        self._resolving: frozenset[str] = frozenset()
        self._including: frozenset[str] = frozenset((posixpath.normpath(name),))

    def parse(self) -> dict[str, Item]:
        top: dict[str, Item] = {}
        self._maps.append(top)
        while not self._scan.at_end():
            self._scan.skip_blank("{}")
            if self._scan.at_end():
                break
            self._member(top, "Expected a top-level value to end with a new line, comment or EOF")
        self._maps.pop()
        return top

    # -- members

    def _member(self, into: dict[str, Item], unended: str) -> None:
        scan = self._scan
        line, column = scan.position()
        if scan.peek() in "=:":
            raise scan.error(f"Unexpected key separator '{scan.peek()}'")
        is_quoted = scan.peek() in "\"'"
        key_line, key_column = line, column + is_quoted
        key = scan.quoted() if is_quoted else scan.key()
        if not is_quoted and key.lower() == "include" and scan.peek() in (" ", "\t"):
            self._include(into)
        else:
            value = self._value_of(key, key_line, key_column)
            into[key] = Item(value, self._name, key_line, key_column)
        scan.skip_spaces()
        if not scan.ends_value():
            raise scan.error(f"{unended}, but got '{scan.shown()}' instead.")
        if into is not self._maps[0] and scan.ends_text():
            raise scan.error(f"{unended}, but got '\0' instead.")
        scan.skip_terminator()

    def _value_of(self, key: str, line: int, column: int) -> Any:
        scan = self._scan
        scan.skip_spaces()
        separated = scan.peek() in ("=", ":")
        if separated:
            scan.advance()
            scan.skip_spaces()
        if scan.at_end():
            if separated:
                return ""
            raise GrammarError(f"config is invalid ({self._name}:{line}:{column + len(key)})")
        if scan.peek() in "\r\n":
            scan.skip_line_end()
            raise scan.error("Expected value but found new line")
        return self._value()

    def _include(self, into: dict[str, Item]) -> None:
        scan = self._scan
        scan.skip_spaces()
        path = scan.quoted(" in {} include") if scan.peek() in "\"'" else scan.bare()
        name, text = self._read(path, self._name)
        place = posixpath.normpath(name)
        if place in self._including:
            raise GrammarError(f"error parsing include file '{path}', it includes itself")
        # Variables of the including file are not seen in the included one.
        parser = _Parser(text, name, self._read, self._environment, [])
        parser._including = self._including | {place}
        try:
            into.update(parser.parse())
        except GrammarError as error:
            raise GrammarError(f"error parsing include file '{path}', {error}") from error

    # -- values

    def _value(self) -> Any:
        scan = self._scan
        first = scan.peek()
        if first == "{":
            return self._map()
        if first == "[":
            return self._array()
        if first == "(":
            return scan.block()
        if first in "\"'":
            return scan.quoted()
        if first == ".":
            raise scan.error("Floats must start with a digit")
        return self._scalar()

    def _map(self) -> dict[str, Item]:
        scan = self._scan
        unended = 'Expected a map value terminator "," or a map terminator "}"'
        scan.advance()
        found: dict[str, Item] = {}
        self._maps.append(found)
        while True:
            scan.skip_blank("")
            if scan.at_end():
                raise scan.error("Unexpected EOF processing map.")
            if scan.peek() == "}":
                scan.advance()
                self._maps.pop()
                return found
            self._member(found, unended)

    def _array(self) -> list[Item]:
        scan = self._scan
        unended = 'Expected an array value terminator "," or an array terminator "]", but got '
        scan.advance()
        found: list[Item] = []
        while True:
            scan.skip_blank("")
            if scan.at_end():
                raise scan.error(f"{unended}'{scan.shown()}' instead.")
            if scan.peek() == ",":
                raise scan.error("Unexpected array value terminator ','.")
            if scan.peek() == "]":
                scan.advance()
                return found
            line, column = scan.position()
            column += scan.peek() in "\"'"
            value = self._value()
            if isinstance(value, dict):  # is shown where it ends
                line, column = scan.position()
            found.append(Item(value, self._name, line, column))
            scan.skip_spaces()
            if scan.at_end() or not (scan.peek() in ",]\r\n" or scan.at_comment()):
                raise scan.error(f"{unended}'{scan.shown()}' instead.")
            if scan.peek() == ",":
                scan.advance()

    def _scalar(self) -> Any:
        line = self._scan.line
        text, is_escaped = self._scan.bare_with_escapes()
        if is_escaped:
            return text
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if text.startswith("$") and not text.startswith(_BCRYPT):
            return self._variable(text[1:], line)
        return _number(text)

    def _variable(self, name: str, line: int) -> Any:
        for members in reversed(self._maps):
            if (item := members.get(name)) is not None:
                item.is_variable = True
                return item.value
        text = self._environment.get(name)
        if text is None:
            raise GrammarError(f"variable reference for '{name}' on line {line} can not be found")
        try:
            if name in self._resolving:
                raise GrammarError(f"variable reference cycle for '{name}'")
            inner = _Parser(f"{name}={text}", self._name, self._read, self._environment, [])
            inner._resolving = self._resolving | {name}
            return inner.parse()[name].value
        except GrammarError as error:
            raise GrammarError(
                f"variable reference for '{name}' on line {line} could not be parsed: {error}"
            ) from error


def _number(text: str) -> Any:
    """An integer with or without unit, a float, a date; anything else stays a string."""
    if (found := _INTEGER.fullmatch(text)) is not None:
        number, unit, binary = int(found[1]), (found[2] or "").lower(), found[3]
        if abs(number) > _INT_MAX:
            raise GrammarError(f"integer '{found[1]}' is out of the range")
        base = 1024 if binary else 1000
        return number * base ** (_POWERS.index(unit) + 1) if unit else number
    if _FLOAT.fullmatch(text):
        return float(text)
    if _DATE.fullmatch(text):
        try:
            return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise GrammarError(f"expected Zulu formatted DateTime, but got '{text}'") from None
    return text
