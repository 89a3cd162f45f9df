"""Parser of values in a configuration file that begin with a digit or a minus sign.

These are integers with units, floats, dates, addresses (127.0.0.1:4222), and texts that begin like
numbers (`5s`). The end of a value and the errors are those of nats-server, even where they are odd.
For example, the array of `[1]` begins with the text `1]` and is not closed, because the character
after plain digits belongs to the value.
"""

import math
import re
from datetime import UTC, datetime
from typing import Any, Final

from core.config.scanner import GrammarError, Scanner, shown

NOTHING: Final = object()
"""Returned for a number with an unknown unit (`1kbb`): the key is ignored, as in nats-server."""

_SUFFIXES = "kmgtpeKMGTPE"
_ENDS_INTEGER = " \t\r\n;,}\0"
_INTEGER = re.compile(r"([^a-z]*)(?:([kmgtpe])(b|ib|i)?)?", re.IGNORECASE)
_POWERS = "kmgtpe"
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_AFTER_YEAR = "00-00T00:00:00Z"


def scan_number(scan: Scanner) -> Any:
    """Parse a value that begins with a digit or a minus sign, at the position of the scanner.

    Returns an int, float, datetime or str, or `NOTHING`. Raises GrammarError if it is invalid.
    """
    start = scan.mark()
    if is_negative := scan.peek() == "-":
        scan.advance()
        letter = scan.advance()
        if letter == ".":
            raise scan.error("Floats must start with a digit, not '.'.")
        if not letter.isdecimal():
            raise scan.error(f"Expected a digit but got '{shown(letter)}'.")
    _skip_digits(scan)
    letter = scan.peek()
    if letter == ".":
        return _with_point(scan, start)
    if letter in _SUFFIXES:
        scan.advance()
        scan.skip("bBiI")
        if scan.peek() not in _ENDS_INTEGER:
            return scan.bare(start)[0]
    elif letter == "-" and not is_negative:
        return _date(scan, start)
    elif letter not in _ENDS_INTEGER and not is_negative:
        scan.advance()
        return scan.bare(start)[0]
    return _integer(scan.number(start))


def _skip_digits(scan: Scanner) -> None:
    while scan.peek().isdecimal():
        scan.advance()


def _integer(text: str) -> Any:
    found = _INTEGER.fullmatch(text)
    if found is None:
        return NOTHING
    if not found[1].isascii():
        raise GrammarError(f"expected integer, but got '{text}'")
    number, unit = int(found[1]), (found[2] or "").lower()
    if not _INT_MIN <= number <= _INT_MAX:
        raise GrammarError(f"integer '{text}' is out of the range")
    if unit:
        number *= (1024 if found[3] else 1000) ** (_POWERS.index(unit) + 1)
    # A product beyond 64 bits wraps around, as in nats-server.
    return (number - _INT_MIN) % (1 << 64) + _INT_MIN


def _with_point(scan: Scanner, start: int) -> Any:
    scan.advance()
    letter = scan.advance()
    if not letter.isdecimal():
        wrong = "Floats must have a digit after the '.', but got"
        raise scan.error(f"{wrong} '{shown(letter)}' instead.")
    _skip_digits(scan)
    if scan.peek() == ".":  # an address
        while scan.peek().isdecimal() or scan.peek() in ".:-":
            scan.advance()
        return scan.number(start)
    text = scan.number(start)
    if not text.isascii():
        raise GrammarError(f"expected float, but got '{text}'")
    if math.isinf(number := float(text)):
        raise GrammarError(f"float '{text}' is out of the range")
    return number


def _date(scan: Scanner, start: int) -> datetime:
    scan.advance()
    if len(scan.since(start).encode()) != len("2026-"):
        raise scan.error("All ISO8601 dates must be in full Zulu form.")
    for wanted in _AFTER_YEAR:
        letter = scan.advance()
        if wanted == "0" and not letter.isdecimal():
            wrong = "Expected digit in ISO8601 datetime"
        elif wanted != "0" and letter != wanted:
            wrong = f"Expected '{wanted}' in ISO8601 datetime"
        else:
            continue
        raise scan.error(f"{wrong}, but found '{shown(letter)}' instead.")
    text = scan.number(start)
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise GrammarError(f"expected Zulu formatted DateTime, but got '{text}'") from None
