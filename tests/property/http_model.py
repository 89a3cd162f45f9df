"""A plain model of RFC 9112: where requests and their bodies begin and end in bytes that are all
there. It is slow, and every rule is a line that names its section."""

from dataclasses import dataclass
from string import ascii_letters, digits

CRLF = b"\r\n"
_TCHAR = frozenset((ascii_letters + digits + "!#$%&'*+-.^_`|~").encode())
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Refused(Exception):
    """The bytes are no request; `status` of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Unfinished(Exception):
    """More bytes are needed."""


@dataclass(frozen=True)
class Request:
    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def read_all(data: bytes) -> tuple[list[Request], str]:
    """The whole requests, and how it ends: `whole`, `unfinished` or the status of a refusal."""
    found: list[Request] = []
    try:
        while True:
            while data.startswith(CRLF):  # 2.2: empty lines before a request line
                data = data[2:]
            if data in (b"", b"\r"):
                return found, "unfinished" if data else "whole"
            request, data = _request(data)
            found.append(request)
    except Refused as refused:
        return found, str(refused.status)
    except Unfinished:
        return found, "unfinished"


def _request(data: bytes) -> tuple[Request, bytes]:
    lines: list[bytes] = []
    while True:
        line, data = _line(data)
        if not line:
            break
        lines.append(line)
    method, target, version = _request_line(lines[0])
    headers = tuple(_field(line) for line in lines[1:])
    body, data = _body(headers, version, data)
    return Request(method, target, headers, body), data


def _line(data: bytes) -> tuple[bytes, bytes]:
    """A line and what follows it. 2.2: it ends in CR LF, and neither stands elsewhere."""
    line, end, rest = data.partition(CRLF)
    if any(byte in b"\r\n" for byte in (line if end else line.removesuffix(b"\r"))):
        raise Refused(400)
    if not end:
        raise Unfinished
    return line, rest


def _request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """3: method SP request-target SP HTTP-version."""
    parts = line.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Refused(400)
    method, target, version = parts
    if not _is_token(method) or not target or not all(0x21 <= byte <= 0x7E for byte in target):
        raise Refused(400)
    if not target.startswith(b"/"):
        raise Refused(400)
    return method, target.partition(b"#")[0], version


def _field(line: bytes) -> tuple[bytes, bytes]:
    """5: field-name ":" OWS field-value OWS; 5.2: no line folding."""
    name, colon, value = line.partition(b":")
    if not colon or not _is_token(name) or not _is_text(value):
        raise Refused(400)
    return name.lower(), value.strip(b" \t")


def _body(
    headers: tuple[tuple[bytes, bytes], ...], version: bytes, data: bytes
) -> tuple[bytes, bytes]:
    """6.3: the length of a message body."""
    lengths = [value for name, value in headers if name == b"content-length"]
    values = [value for name, value in headers if name == b"transfer-encoding"]
    codings = [coding.strip(b" \t").lower() for value in values for coding in value.split(b",")]
    if codings:
        if lengths or version == b"HTTP/1.0":
            raise Refused(400)
        if codings[-1] != b"chunked" or b"chunked" in codings[:-1]:
            raise Refused(400)
        if len(codings) > 1:
            raise Refused(501)
        return _chunks(data)
    if not lengths:
        return b"", data
    if len(lengths) > 1 or not lengths[0] or not all(byte in b"0123456789" for byte in lengths[0]):
        raise Refused(400)
    if len(lengths[0]) > 18:
        raise Refused(400)
    return _exactly(int(lengths[0]), data)


def _exactly(size: int, data: bytes) -> tuple[bytes, bytes]:
    if len(data) < size:
        raise Unfinished
    return data[:size], data[size:]


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    """7.1: chunks, the last one, trailer section."""
    body = b""
    while True:
        line, data = _line(data)
        size, semicolon, extension = line.partition(b";")
        if semicolon:
            size = size.rstrip(b" \t")  # 7.1.1: BWS before an extension
        if not size or len(size) > 16 or not all(byte in _HEX for byte in size):
            raise Refused(400)
        if not _is_text(extension):
            raise Refused(400)
        if not int(size, 16):
            break
        piece, data = _exactly(int(size, 16), data)
        body += piece
        if not data.startswith(CRLF):
            if CRLF.startswith(data):
                raise Unfinished
            raise Refused(400)
        data = data[2:]
    while True:
        line, data = _line(data)
        if not line:
            return body, data
        _field(line)


def _is_token(text: bytes) -> bool:
    return bool(text) and all(byte in _TCHAR for byte in text)


def _is_text(text: bytes) -> bool:
    return all(byte == 0x09 or (0x20 <= byte != 0x7F) for byte in text)
