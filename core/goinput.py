"""How the reference server reads what clients send, and the readers of numbers and blanks.

Clients see the rules of Go's standard library. Everything that a client sends is read by one of
these, never by `int`, `float`, `str.strip` or `datetime`, which take other texts:

    what                 rule                  takes                      not
    members of JSON      `codec`               names in any case, null    in API requests: names
                                               (as before), the last      that are unknown
                                               of equal names
    strings of JSON      `gojson`              what is not UTF-8 and      control characters
                                               lone surrogates: U+FFFD
    integers of JSON     `codec`               64 bits, `-0`              `1.0`, `1e2`, `"1"`, `01`
    more behind a value  `codec.decode_older`  blanks                     anything else
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

A time keeps the zone that it was written in, and is shown so again (`ZonedTime`). `codec`,
`gojson`, `durations` and `gotime` are modules of `core.model`.
"""

import codecs
import re

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1

_SIGNED = re.compile(r"[+-]?[0-9]+")
_DIGITS = 20
# Python reads no more at once.
_MOST_DIGITS = 4000
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def folded(name: str) -> str:
    """Return the name of a JSON member without regard to case, as Go compares names."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def parse_uint(digits: bytes) -> int | None:
    """Read an unsigned number of 64 bits; None for anything else (strconv.ParseUint)."""
    if not digits.isdigit():
        return None
    if len(digits) > _DIGITS:
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) > _DIGITS:
            return None
    number = int(digits)
    return number if number <= UINT64_MAX else None


def parse_wrapped(digits: bytes) -> int | None:
    """Read digits as nats-server's parseInt64: in 64 bits, with what overflows wrapped around.

    Returns an unsigned number; None for anything else.
    """
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    return int(digits) & UINT64_MAX


def parse_int(text: str) -> int | None:
    """Read a number of 64 bits that may have a sign; None for anything else (strconv.ParseInt)."""
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
    """Return bytes as Go shows them as text: each byte that is no UTF-8 is one U+FFFD."""
    return raw.decode("utf-8", "go")


def trim_space(text: bytes) -> bytes:
    """Return a text without the blanks around it (bytes.TrimSpace)."""
    if text.isascii():
        return text.strip(b"\t\n\v\f\r ")
    # What is not UTF-8 is no blank, and stays as it is.
    shown = text.decode("utf-8", "surrogateescape").strip(_BLANKS)
    return shown.encode("utf-8", "surrogateescape")
