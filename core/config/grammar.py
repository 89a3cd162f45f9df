"""The grammar of nats-server's configuration files, as a pure parser.

    key: value   key = value   key value   key { map }      # comment   // comment

Values are maps, arrays, booleans, integers with units, floats, dates, strings in three notations
and blocks in parentheses. `$name` refers to a key of an enclosing map or to the environment;
`include path` merges another file. Files and environment are arguments: the parser does no I/O.

The order of tokens, the error texts and the positions in them are those of nats-server.
"""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.config.numbers import NOTHING, scan_number
from core.config.scanner import SEPARATORS, SPACES, EndOfText, GrammarError, Scanner, shown

__all__ = ["GrammarError", "Item", "Reader", "parse", "plain"]

Reader = Callable[[str, str], tuple[str, str]]
"""Reads an included file: called with the path and the name of the including file.

Returns the name and the text of the included file. Raises GrammarError if it cannot be read.
"""

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_BCRYPT = "$2a$"
_DEPTH_MAX = 200  # readers of the values recurse once per level, too
_VALUE = "pk"  # the key that nats-server uses here: its length counts in columns


@dataclass(slots=True)
class Item:
    """A value of a configuration file, and the position of its key.

    If the value is a map, it contains one `Item` per key; if it is an array, one `Item` per
    element.
    """

    value: Any
    file: str
    line: int
    column: int
    is_variable: bool = False
    """True if a `$name` refers to this key; the key may then be unknown to the server."""

    @property
    def place(self) -> str:
        """The position as `file:line:column`, for error messages."""
        return f"{self.file}:{self.line}:{self.column}"


def parse(text: str, name: str, read: Reader, environment: Mapping[str, str]) -> dict[str, Item]:
    """Parse the text of a configuration file; return its top-level keys with their values.

    Args:
        text: The contents of the file.
        name: Name of the file, for positions in error messages.
        read: Reads included files.
        environment: Values of variables that no map defines.

    Raises:
        GrammarError: The text is invalid.
    """
    return _Parser(text, name, read, environment).parse()


def plain(value: Any) -> Any:
    """Return a value without positions: each `Item` in it is replaced by its value."""
    if isinstance(value, Item):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class _Parser:
    """The parser of one configuration text.

    Keys are pushed on a stack until their values are parsed, as in nats-server: a map that ends in
    place of a value (`a { b: }`) becomes the value of the innermost key, and so on outwards.
    """

    def __init__(
        self,
        text: str,
        name: str,
        read: Reader,
        environment: Mapping[str, str],
    ) -> None:
        self._scan = Scanner(text)
        self._name = name
        self._read = read
        self._environment = environment
        self._maps: list[dict[str, Item]] = []
        self._keys: list[tuple[str, int, int]] = []
        self._key_before: str | None = None
        """The key, if it was the last token parsed; else None."""
        self._depth = 0
        self._resolving: frozenset[str] = frozenset()
        self._including: frozenset[str] = frozenset((posixpath.normpath(name),))

    def parse(self) -> dict[str, Item]:
        top: dict[str, Item] = {}
        self._maps.append(top)
        try:
            self._top(top)
        except EndOfText:
            if self._key_before not in (None, "}"):
                line, column = self._scan.position()
                place = f"{self._name}:{line}:{column}"
                raise GrammarError(f"config is invalid ({place})") from None
        return top

    def _top(self, top: dict[str, Item]) -> None:
        """Parse the members of the file, and the optional braces around them (as in JSON)."""
        scan, depth = self._scan, 0
        while True:
            scan.skip(SPACES)
            if scan.at_comment():
                self._comment()
            elif scan.peek() == "{":
                scan.advance()
                depth += 1
            elif depth and scan.peek() == "}":
                scan.advance()
                depth = self._outwards(depth)
            elif scan.at_end():
                return
            elif scan.peek() in "/\0":
                raise scan.error("Unexpected EOF.")
            else:
                self._member(top, in_map=False)
                if self._end_value(in_braces=depth > 0):
                    depth = self._outwards(depth)

    def _end_value(self, *, in_braces: bool) -> bool:
        """Parse the end of a value. Return True if it closes braces around the value."""
        scan = self._scan
        while True:
            if scan.at_comment():
                self._comment()
                if not in_braces:
                    return False
            letter = scan.advance()
            if letter in ";,\r\n" or (letter in "}\0" and not in_braces):
                return False
            if letter == "}":
                return True
            if letter not in " \t/":
                level = "block-level" if in_braces else "top-level"
                raise scan.error(
                    f"Expected a {level} value to end with a new line, comment or EOF, but got"
                    f" '{shown(letter)}' instead."
                )

    def _outwards(self, depth: int) -> int:
        """Parse the text after a closing brace. Return the number of braces still open."""
        scan = self._scan
        depth -= 1
        while depth:
            if scan.at_comment():
                self._comment()
                return depth
            letter = scan.advance()
            if letter == "}":
                depth -= 1
            elif letter in ";,":
                return depth
            elif letter not in " \t\r\n/":
                end = "Expected a block-level to end with a '}', but got"
                raise scan.error(f"{end} '{shown(letter)}' instead.")
        return 0

    def _comment(self) -> None:
        self._scan.skip_comment()
        self._key_before = None

    # -- members

    def _member(self, into: dict[str, Item], *, in_map: bool) -> bool:
        """Parse a key and its value. Return True if the map ended in place of the value."""
        scan = self._scan
        if scan.peek() in SEPARATORS:
            raise scan.error(f"Unexpected key separator '{scan.peek()}'" + "." * in_map)
        is_quoted = scan.peek() in "\"'"
        if in_map and scan.peek() == "/":
            scan.advance()
        column = 0 if scan.peek() == "\n" else scan.position()[1]
        key = scan.quoted_key(in_map=in_map) if is_quoted else scan.key(in_map=in_map)
        if not is_quoted and key.lower() == "include" and scan.peek() in SPACES:
            self._include(into)
            return False
        self._keys.append((key, scan.line, column + is_quoted))
        self._key_before = key
        scan.skip(SPACES)
        if scan.peek() in SEPARATORS:
            scan.advance()
        elif scan.peek() == "\0" and not in_map:
            raise EndOfText
        if in_map:
            scan.skip(SPACES)
            if scan.peek() == ",":
                raise scan.error('Unexpected map value terminator ",".')
            if scan.peek() == "}":
                scan.advance()
                return True
        self._set(into, self._value())
        return False

    def _set(self, into: dict[str, Item], value: Any) -> None:
        self._key_before = None
        if value is not NOTHING:
            key, line, column = self._keys.pop()
            into[key] = Item(value, self._name, line, column)

    def _include(self, into: dict[str, Item]) -> None:
        scan = self._scan
        scan.skip(" \t")
        path = scan.path()
        self._key_before = None
        name, text = self._read(path, self._name)
        place = posixpath.normpath(name)
        if place in self._including:
            raise GrammarError(f"error parsing include file '{path}', it includes itself")
        # Variables of the including file are unknown in the included one.
        parser = _Parser(text, name, self._read, self._environment)
        parser._including = self._including | {place}
        try:
            into.update(parser.parse())
        except GrammarError as error:
            raise GrammarError(f"error parsing include file '{path}', {error}") from error

    # -- values

    def _value(self) -> Any:
        scan = self._scan
        scan.skip(" \t")
        scan.begin_value()
        first = scan.peek()
        if first in "{[":
            return self._nested(self._map if first == "{" else self._array)
        if first == "(":
            return scan.block()
        if first in "\"'":
            return scan.quoted()
        if first == "-" or first.isdecimal():
            return scan_number(scan)
        if first == ".":
            raise scan.error("Floats must start with a digit")
        if first in "\r\n":
            scan.advance()
            raise scan.error("Expected value but found new line")
        return self._word()

    def _nested(self, take: Callable[[], Any]) -> Any:
        if self._depth == _DEPTH_MAX:
            raise GrammarError("config is invalid: nested too deeply")
        self._depth += 1
        found = take()
        self._depth -= 1
        return found

    def _map(self) -> dict[str, Item]:
        scan = self._scan
        scan.advance()
        self._key_before = None
        found: dict[str, Item] = {}
        self._maps.append(found)
        while True:
            scan.skip(SPACES)
            if scan.at_comment():
                self._comment()
                continue
            if scan.peek() == "}":
                scan.advance()
                break
            if scan.peek() == "]":
                raise scan.error("Unexpected array end ']' processing map.")
            if scan.peek() == "\0":
                raise scan.error("Unexpected EOF processing map.")
            if self._member(found, in_map=True):
                break
            if self._ends(";,/\r\n", "}", "a map"):
                break
        self._maps.pop()
        return found

    def _array(self) -> list[Item]:
        scan = self._scan
        scan.advance()
        self._key_before = None
        found: list[Item] = []
        while True:
            scan.skip(SPACES)
            if scan.at_comment():
                self._comment()
                continue
            if scan.peek() in ",/":
                raise scan.error("Unexpected array value terminator ','.")
            if scan.peek() == "]":
                scan.advance()
                return found
            value = self._value()
            self._key_before = None
            line, column = scan.line, scan.column
            if isinstance(value, dict | list):  # its position is its end, as in nats-server
                line, column = scan.position()
            if value is not NOTHING:
                found.append(Item(value, self._name, line, column))
            if self._ends(",/\r\n", "]", "an array"):
                return found

    def _ends(self, between: str, end: str, what: str) -> bool:
        """Parse the end of a value. Return True if it ends the map or the array."""
        scan = self._scan
        while True:
            scan.skip(" \t")
            if scan.at_comment():
                self._comment()
                continue
            letter = scan.advance()
            if letter == end or letter in between:
                return letter == end
            raise scan.error(
                f'Expected {what} value terminator "," or {what} terminator "{end}", but got'
                f" '{shown(letter)}' instead."
            )

    def _word(self) -> Any:
        text, is_plain = self._scan.bare(self._scan.mark())
        if not is_plain:
            return text
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if text.startswith("$"):
            self._scan.column += 1
            return text if text.startswith(_BCRYPT) else self._variable(text[1:])
        return text

    def _variable(self, name: str) -> Any:
        line = self._scan.line
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
            inner = _Parser(f"{_VALUE}={text}", "", self._read, self._environment)
            inner._resolving = self._resolving | {name}
            found = inner.parse().get(_VALUE)
        except GrammarError as error:
            raise GrammarError(
                f"variable reference for '{name}' on line {line} could not be parsed: {error}"
            ) from error
        if found is None:
            raise GrammarError(f"variable reference for '{name}' on line {line} can not be found")
        return found.value
