"""Parser of the request line and headers of an HTTP/1.1 request (RFC 9112, 2 to 5 and 6.3).

Ambiguous input is refused: bare CR or LF, folded lines, blanks before a colon, a Content-Length
that is repeated, not in digits, or combined with chunks.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from gateway.http.problems import Problem, bad_request

CHUNKED = -1
"""The `Framing.length` of a chunked body."""

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
VALUE = rb"[\t\x20-\x7e\x80-\xff]"
"""A character of a field value: visible, a blank, a tab, or obs-text (RFC 9110, 5.5)."""

LINE = re.compile(rb"(%b{1,32}+) ([\x21-\x7e]++) HTTP/1\.([01])\r\n" % TOKEN)
_FIELD = re.compile(rb"%b++:%b*+" % (TOKEN, VALUE))
_ABSOLUTE = re.compile(rb"https?://([A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]+)(?=[/?#]|$)", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]{1,18}")
_FRAMING = frozenset((b"connection", b"content-length", b"expect", b"transfer-encoding"))
_CACHED_FIELD_BYTES = 160
_CACHED_HEAD_BYTES = 1024


@dataclass(slots=True)
class Head:
    """The request line and headers of a request. It is cached for later requests: do not modify it.

    Attributes:
        method: The method, in its original case.
        path: Percent-encoded path without the query. For a target in absolute form, the authority
            is removed and becomes the value of `host` (RFC 9112, 3.2.2).
        query: The part after the first `?`; may be empty.
        version: `1.0` or `1.1`.
        headers: Names in lower case, values without surrounding blanks and tabs.
        framing: Body length and connection options, from the headers.
    """

    method: str
    path: bytes
    query: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    framing: "Framing"


@dataclass(slots=True)
class Framing:
    """Body length and connection options of a request.

    Attributes:
        length: Bytes of the body, or CHUNKED.
        is_last: True if the connection ends after the response.
        waits: True if the client waits for `100 Continue` before the body (`Expect`).
        upgrades: True if `Connection` contains `upgrade`.
    """

    length: int = 0
    is_last: bool = False
    waits: bool = False
    upgrades: bool = False


def parse_head(head: bytes) -> Head:
    """Parse a request line and header lines, each with its CR LF.

    Raises:
        Problem: 400 for malformed input, 501 for a transfer coding other than `chunked`.
    """
    return _parse_head_cached(head) if len(head) <= _CACHED_HEAD_BYTES else _parse_head(head)


def _parse_head(head: bytes) -> Head:
    line = LINE.match(head)
    if line is None:
        raise not_http("the request line is none of HTTP/1.1")
    method, target, minor = line.groups()
    headers: list[tuple[bytes, bytes]] = []
    framing: list[tuple[bytes, bytes]] = []
    for field in head[line.end() :].split(b"\r\n")[:-1]:
        parse = _parse_field_cached if len(field) <= _CACHED_FIELD_BYTES else _parse_field
        header, is_framing = parse(field)
        headers.append(header)
        if is_framing:
            framing.append(header)
    if target[:1] != b"/":
        target = _origin_form(target, headers)
    if b"#" in target:
        target = target.partition(b"#")[0]
    path, _, query = target.partition(b"?")
    return Head(
        method.decode(),
        path,
        query,
        "1." + minor.decode(),
        headers,
        _framing(tuple(framing), minor),
    )


_parse_head_cached = lru_cache(256)(_parse_head)
"""`_parse_head` with a cache, because clients repeat the same head on a connection."""


def not_http(detail: str) -> Problem:
    """Return the Problem 400 for bytes that are not an HTTP/1.1 request."""
    return bad_request("not-http", detail)


def _origin_form(target: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return path and query of a target in absolute form, and set Host to its authority.

    Raises Problem 400 for other forms except `*`.
    """
    if target == b"*":
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise not_http("the request target is neither a path nor a URL of HTTP")
    for place, (name, _) in enumerate(headers):
        if name == b"host":
            headers[place] = (name, absolute[1])
    rest = target[absolute.end() :]
    return rest if rest[:1] == b"/" else b"/" + rest


def _parse_field(field: bytes) -> tuple[tuple[bytes, bytes], bool]:
    """Parse a header line.

    Returns (name, value), and True if it affects framing. Raises Problem 400.
    """
    if _FIELD.fullmatch(field) is None:
        raise not_http("a header line is not `name: value`, or has a control character")
    name, _, value = field.partition(b":")
    name = name.lower()
    return (name, value.strip(b" \t")), name in _FRAMING


_parse_field_cached = lru_cache(1024)(_parse_field)
"""`_parse_field` with a cache, because clients repeat most of their header lines."""


@lru_cache(256)
def _framing(headers: tuple[tuple[bytes, bytes], ...], minor: bytes) -> Framing:
    """Compute the framing from its headers.

    Raises Problem 400 if they are invalid or contradict.
    """
    framing = Framing(is_last=minor == b"0")
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings += [coding.strip(b" \t") for coding in value.lower().split(b",")]
        elif name == b"connection":
            options = [option.strip(b" \t") for option in value.lower().split(b",")]
            framing.is_last |= b"close" in options
            framing.upgrades |= b"upgrade" in options
        else:
            framing.waits |= value.lower() == b"100-continue" and minor == b"1"
    if codings:
        _check_codings(codings, minor, has_length=bool(lengths))
        framing.length = CHUNKED
    elif lengths:
        if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
            raise not_http("headers: Content-Length is not one number")
        framing.length = int(lengths[0])
    return framing


def _check_codings(codings: list[bytes], minor: bytes, *, has_length: bool) -> None:
    """Raise Problem unless `chunked` is the only transfer coding."""
    if minor == b"0":
        # A proxy may not know the header, and see another end of the body (RFC 9112, 6.1).
        raise not_http("headers: HTTP/1.0 has no Transfer-Encoding")
    if has_length:
        raise not_http("headers: Content-Length and Transfer-Encoding exclude each other")
    if codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise not_http("headers: the last Transfer-Encoding is not chunked, or it is there twice")
    if len(codings) > 1:
        raise Problem(501, "unsupported-encoding", "Transfer-Encoding: only chunked is supported")
