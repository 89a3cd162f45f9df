"""The rules by which nats-server parses the input of clients, and some of the parsers.

Clients see the rules of Go's standard library. All input of clients is parsed by one of these
functions and modules, never by `int`, `float`, `str.strip` or `datetime`, which accept other texts:

    input                rule                  accepted                   refused
    members of JSON      `codec`               names in any case, null    in API requests: names
                                               (as before), the last      that are unknown
                                               of equal names
    strings of JSON      `gojson`              invalid UTF-8 and lone     control characters
                                               surrogates: U+FFFD
    integers of JSON     `codec`               64 bits, `-0`              `1.0`, `1e2`, `"1"`, `01`
    more after a value   `codec.decode_older`  blanks                     any other text
    sequences in headers `parse_uint`          `007`                      `+1`, ` 1`, `1_0`, `１`
    expected sequences   `parse_wrapped`       any number of digits,      the same
                                               modulo 2 to the 64th
    integers with a sign `parse_int`           `+1`, `-0`, `007`          ` 1`, `1_0`, `１`
    durations            `durations`           `1.5s`, `.5h`, `+1m`,      `1`, `1d`, `1 s`, `1S`,
                                               `1µs`, `0`                 more than 292 years
    times                `gotime`              `,5` as a fraction, an     `t`, `z`, second 60,
                                               hour of one digit, year    `+0200`, `+25:00`
                                               0, `+24:00`
    blanks around        `trim_space`          those of Unicode           U+001C, U+200B

A time keeps the zone that it was written in, and is formatted in it (`ZonedTime`). `codec`,
`gojson`, `durations` and `gotime` are modules of `core.model`.
"""

import codecs
import re

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1

_SIGNED = re.compile(r"[+-]?[0-9]+")
_DIGITS = 20
# Below 4300 digits, the default limit of Python's `int`.
_MOST_DIGITS = 4000
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def folded(name: str) -> str:
    """Return the name of a JSON member in lower case, by Go's rule for names in any case."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def parse_uint(digits: bytes) -> int | None:
    """Parse decimal digits as an unsigned 64-bit number, as Go's strconv.ParseUint does.

    Returns None for any other text, a sign included, and for larger numbers.
    """
    if not digits.isdigit():
        return None
    if len(digits) > _DIGITS:
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) > _DIGITS:
            return None
    number = int(digits)
    return number if number <= UINT64_MAX else None


def parse_wrapped(digits: bytes) -> int | None:
    """Parse decimal digits as nats-server's parseInt64 does: an overflow of 64 bits wraps around.

    Returns the number modulo 2 to the 64th; None for any other text, or more than 4000 digits.
    """
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    return int(digits) & UINT64_MAX


def parse_int(text: str) -> int | None:
    """Parse a signed 64-bit number, as Go's strconv.ParseInt does.

    Returns None for any other text, and for numbers out of range.
    """
    if _SIGNED.fullmatch(text) is None:
        return None
    magnitude = parse_uint(text.lstrip("+-").encode())
    if magnitude is None:
        return None
    number = -magnitude if text[0] == "-" else magnitude
    return number if INT64_MIN <= number <= INT64_MAX else None


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("go", _each_byte)


def text_of(raw: bytes) -> str:
    """Decode UTF-8 as Go does: each invalid byte becomes one U+FFFD."""
    return raw.decode("utf-8", "go")


def trim_space(text: bytes) -> bytes:
    """Return a text without surrounding white space, as Go's bytes.TrimSpace does."""
    if text.isascii():
        return text.strip(b"\t\n\v\f\r ")
    # Invalid UTF-8 is not a blank, and stays as it is.
    shown = text.decode("utf-8", "surrogateescape").strip(_BLANKS)
    return shown.encode("utf-8", "surrogateescape")
