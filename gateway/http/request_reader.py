"""Splits the input of one HTTP/1.1 connection into heads and bodies of requests (RFC 9112).

It does no I/O: the protocol passes input to `RequestReader.feed`, and takes heads and parts of
bodies. Until a request is complete, every byte outside of its body counts towards a limit.
"""

import re

from gateway.http.problems import Problem
from gateway.http.request_head import CHUNKED, LINE, TOKEN, VALUE, Head, not_http, parse_head

_END = b"\r\n\r\n"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_BEGIN = re.compile(rb"%b{1,32}+(?: (?:[\x21-\x7e]++(?: [HTP/1.0]{0,8}+\r?)?)?)?" % TOKEN)
_BEGIN_BYTES = 64
"""Bytes of an incomplete request line that are checked: other protocols differ within them."""
_LINE_BYTES = 8192
"""Maximum bytes of a chunk's size line or a trailer; each read scans an incomplete line again."""
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16}+)((?:[ \t]*+;%b*+)?)\r\n" % VALUE)
_PART_OF_CHUNK = re.compile(rb"(?:[0-9A-Fa-f]{1,16}+(?:[ \t]*+(?:;%b*+)?)?\r?)?" % VALUE)
_TRAILER = re.compile(rb"%b++:%b*+\r\n" % (TOKEN, VALUE))
_PART_OF_TRAILER = re.compile(rb"(?:%b++(?::%b*+)?)?\r?" % (TOKEN, VALUE))
_BLANKS = re.compile(rb"(?:\r\n)*+")
_LARGE_HEAD_BYTES = 4096
_HEAD_LINES_MAX = 800
_CHUNKS_MAX = 64
"""Maximum chunks in one part of a body. Each takes about three microseconds, however short."""
_TRAILERS_MAX = 100
_HEAD, _LENGTH, _SIZE, _DATA, _DATA_END, _TRAILERS = range(6)


class RequestReader:
    """Reads requests one after another from the bytes of a connection.

    Life cycle: `feed` adds input. `read_head` takes a head, `read_body` the parts of its body until
    it is complete.

    Attributes:
        head_bytes: Maximum size of a head, in bytes. The same limit applies to chunk extensions and
            trailers, minus twice the size of the data, so that moderate extensions pass.
        head_lines: Maximum number of lines in a head; each takes one or two microseconds before the
            exact limit is checked.
        is_partial: True if the last part of a body has the maximum number of chunks, and more are
            buffered.
    """

    __slots__ = (
        "_blank",
        "_data",
        "_excess",
        "_left",
        "_pos",
        "_scanned",
        "_state",
        "_trailers",
        "head_bytes",
        "head_lines",
        "is_partial",
    )

    def __init__(self, head_bytes: int) -> None:
        self.head_bytes = head_bytes
        self.head_lines = _HEAD_LINES_MAX
        self.is_partial = False
        self._trailers = 0
        self._data: bytes | bytearray = b""
        self._pos = 0
        self._scanned = 0
        self._blank = 0
        self._state = _HEAD
        self._left = 0
        self._excess = 0

    @property
    def held(self) -> int:
        """Number of bytes that are buffered and not taken yet."""
        return len(self._data) - self._pos

    @property
    def in_body(self) -> bool:
        """True if a head was taken and its body is not complete."""
        return self._state != _HEAD

    def feed(self, data: bytes) -> None:
        """Add input of the connection to the buffer."""
        if self._pos == len(self._data):
            self._data, self._pos = data, 0
            return
        if type(self._data) is not bytearray:
            self._data = bytearray(self._data)
        del self._data[: self._pos]
        self._pos = 0
        self._data += data

    def pop_rest(self) -> bytes:
        """Take all buffered bytes, for another protocol."""
        rest = bytes(self._data[self._pos :])
        self._data, self._pos = b"", 0
        return rest

    @property
    def has_large_head(self) -> bool:
        """True if the next input is a head of more than 4 KiB, which is slow to parse."""
        begin = self._pos
        is_large = self.held > _LARGE_HEAD_BYTES
        return is_large and self._data.find(_END, begin, begin + _LARGE_HEAD_BYTES) < 0

    def read_head(self) -> Head | None:
        """Take a head from the buffer; None: it is incomplete. Read its body before the next head.

        Raises Problem 400 for malformed input, 414 or 431 for a large head, 501 for a transfer
        coding.
        """
        data, begin = self._data, self._pos
        blanks = _BLANKS.match(data, begin)  # RFC 9112, 2.2
        if blanks is not None and blanks[0]:
            begin = blanks.end()
            self._blank += begin - self._pos
            self._scanned = 0
        self._pos = begin
        end = data.find(_END, begin + max(self._scanned - 3, 0))
        size = (len(data) if end < 0 else end + 4) - begin
        if size + self._blank > self.head_bytes:
            raise self._too_large(begin)
        if end < 0:
            self._check_part(begin)
            self._scanned = size
            return None
        if size > _LARGE_HEAD_BYTES and data.count(b"\r\n", begin, end) > self.head_lines:
            detail = f"headers: more than {self.head_lines} lines"
            raise Problem(431, "headers-too-large", detail)
        head = parse_head(bytes(data[begin : end + 2]))
        self._pos = end + 4
        self._scanned = self._blank = self._excess = self._trailers = 0
        length = head.framing.length
        self._state = _SIZE if length == CHUNKED else _LENGTH
        self._left = max(length, 0)
        return head

    def read_body(self) -> tuple[bytes, bool]:
        """Take the buffered part of the body. Returns it, and True if the body is complete.

        A part with more than 64 chunks is split (`is_partial`). Raises Problem 400 for malformed
        chunks, 431 for large chunk extensions or trailers.
        """
        self.is_partial = False
        if self._state != _LENGTH:
            return self._read_chunks()
        begin = self._pos
        end = min(begin + self._left, len(self._data))
        self._pos = end
        self._left -= end - begin
        if not self._left:
            self._state = _HEAD
        return bytes(self._data[begin:end]), not self._left

    def _read_chunks(self) -> tuple[bytes, bool]:
        parts: list[bytes] = []
        while self._state != _TRAILERS:
            if len(parts) >= _CHUNKS_MAX and self._state == _SIZE and self.held:
                self.is_partial = True
                break
            if self._state == _SIZE and not self._begin_chunk():
                break
            if self._state == _DATA:
                begin = self._pos
                end = min(begin + self._left, len(self._data))
                parts.append(bytes(self._data[begin:end]))
                self._pos = end
                self._left -= end - begin
                if self._left:
                    break
                self._state = _DATA_END
            if self._state == _DATA_END and not self._end_chunk():
                break
        is_complete = self._state == _TRAILERS and self._skip_trailers()
        if is_complete:
            self._state = _HEAD
        return parts[0] if len(parts) == 1 else b"".join(parts), is_complete

    def _begin_chunk(self) -> bool:
        """Read the size line of a chunk; False: it is incomplete. Raises Problem."""
        line = _CHUNK.match(self._data, self._pos)
        if line is None:
            self._check_line(_PART_OF_CHUNK, "the size of a chunk is not a hexadecimal number")
            return False
        self._check_size(line.end() - self._pos)
        self._left = int(line[1], 16)
        self._pos = line.end()
        self._excess = max(self._excess + len(line[2]) - 2 * self._left, 0)
        self._check_excess(0)
        self._state = _DATA if self._left else _TRAILERS
        return True

    def _end_chunk(self) -> bool:
        """Read the line end after a chunk; False: it is incomplete. Raises Problem 400."""
        end = bytes(self._data[self._pos : self._pos + 2])
        if not b"\r\n".startswith(end):
            raise not_http("a chunk does not end where its size says")
        if len(end) < 2:
            return False
        self._pos += 2
        self._state = _SIZE
        return True

    def _skip_trailers(self) -> bool:
        """Skip trailer fields; False: they are incomplete. Raises Problem.

        They do not become headers of the request, because a proxy that checked its headers did not
        check them.
        """
        data, begin = self._data, self._pos
        while line := _TRAILER.match(data, self._pos):
            self._check_size(line.end() - self._pos)
            self._pos = line.end()
            self._trailers += 1
            if self._trailers > _TRAILERS_MAX:
                detail = f"chunks: more than {_TRAILERS_MAX} trailers"
                raise Problem(431, "headers-too-large", detail)
        self._excess += self._pos - begin
        self._check_excess(0)
        if data.startswith(b"\r\n", self._pos):
            self._pos += 2
            return True
        self._check_line(_PART_OF_TRAILER, "a line behind the last chunk is not `name: value`")
        return False

    def _check_line(self, pattern: re.Pattern[bytes], detail: str) -> None:
        """Raise Problem if the buffered bytes cannot become the expected line, or are too long."""
        if pattern.fullmatch(self._data, self._pos) is None:
            raise not_http(detail)
        self._check_size(self.held)
        self._check_excess(self.held)

    def _check_size(self, size: int) -> None:
        """Raise Problem 431 if a line of a chunked body is too long; `size` includes its CR LF."""
        if size > _LINE_BYTES + 2:
            detail = f"chunks: an extension or trailer of more than {_LINE_BYTES} bytes"
            raise Problem(431, "headers-too-large", detail)

    def _check_excess(self, more: int) -> None:
        if self._excess + more > self.head_bytes:
            detail = f"chunks: extensions and trailers of more than {self.head_bytes} bytes"
            raise Problem(431, "headers-too-large", detail)

    def _check_part(self, begin: int) -> None:
        """Raise Problem 400 if an incomplete head cannot become valid."""
        data = self._data
        if self._scanned < _BEGIN_BYTES and len(data) > begin:
            line, end, _ = bytes(data[begin : begin + _BEGIN_BYTES]).partition(b"\r\n")
            is_possible = LINE.fullmatch(line + end) if end else _BEGIN.fullmatch(line)
            if not is_possible and line != b"\r":
                raise not_http("the request line is none of HTTP/1.1")
        if _CONTROL.search(data, begin + max(self._scanned - 1, 0)):
            raise not_http("a control character, or a line that ends in no CR LF")

    def _too_large(self, begin: int) -> Problem:
        if self._data.find(b"\r\n", begin, begin + self.head_bytes) < 0 and self.held:
            return Problem(
                414, "target-too-long", f"request line: more than {self.head_bytes} bytes"
            )
        return Problem(431, "headers-too-large", f"headers: more than {self.head_bytes} bytes")
