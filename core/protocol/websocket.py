"""Frames of a WebSocket (RFC 6455), without I/O.

`FrameReader` extracts the payloads from the received bytes. Boundaries of frames and messages have
no meaning for NATS, so the payloads form one stream of bytes, passed on as it arrives. Only
compressed messages (RFC 7692, without context takeover) are kept until they are complete, with
limits for their compressed and inflated sizes. The order of checks and their texts are those of
nats-server. `frames` builds frames for the opposite direction.
"""

import struct
import zlib

from core.errors import ProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL, GOING_AWAY, BAD_PROTOCOL, BAD_DATA = 1000, 1001, 1002, 1007
POLICY, TOO_BIG, INTERNAL = 1008, 1009, 1011

_FINAL, _RSV1, _RSV23, _MASK = 0x80, 0x40, 0x30, 0x80
_CONTROL_MAX = 125
_COMPRESS_ABOVE = 64
_WIRE_FACTOR, _WIRE_MAX = 8, 64 * 1024 * 1024
_FRAMES_MAX = 512
_SYNC_TAIL = b"\x00\x00\xff\xff"
_LAST_BLOCK = b"\x00\x00\xff\xff\x01\x00\x00\xff\xff"
_RESERVED_CODES = (1004, 1005, 1006, 1015)


class WebSocketError(ProtocolError):
    """Error: the client violates the WebSocket protocol.

    `code` and `text` go into the close frame.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameReader:
    """Parses the frames of one client; each `feed` adds its results to the attributes.

    No bytes are parsed after a close frame or an error.

    Args:
        masked: Whether frames must be masked; if not, they are parsed as unmasked.
        compressed: Whether permessage-deflate is negotiated.
        max_payload: The largest inflated message in bytes. Its compressed form may be eight times
            as large.

    Attributes:
        payload: Bytes of the NATS protocol, in order.
        pings: Payloads of pings to answer.
        close: Payload of the close frame to answer with (None: no close frame has arrived).
    """

    __slots__ = (
        "_compressed",
        "_deflated",
        "_deflated_size",
        "_inflated",
        "_is_deflated",
        "_is_whole",
        "_key",
        "_left",
        "_masked",
        "_max_payload",
        "_rest",
        "close",
        "payload",
        "pings",
    )

    def __init__(self, *, masked: bool, compressed: bool, max_payload: int) -> None:
        self.payload: list[bytes] = []
        self.pings: list[bytes] = []
        self.close: bytes | None = None
        self._masked = masked
        self._compressed = compressed
        self._max_payload = max_payload
        self._rest = b""  # the beginning of a frame header, or of a control frame
        self._left = -1  # bytes of the frame still to come; -1: a header is next
        self._key = b""
        self._is_whole = True  # the last data frame ended its message
        self._is_deflated = False
        self._deflated: list[bytes] = []
        self._deflated_size = 0
        self._inflated = 0

    def feed(self, data: bytes) -> bool:
        """Parse the next bytes. Return True if some of them are left for the next call.

        One call parses a limited number of frames, and stops after a large inflated message, so
        that time and memory of a call are limited. Raises WebSocketError if the client violates the
        protocol; results before the error are in the attributes.
        """
        if self._rest:
            data, self._rest = self._rest + data, b""
        self._inflated = 0
        pos, end = 0, len(data)
        frames_left = _FRAMES_MAX
        while pos < end and self.close is None:
            if self._left < 0:
                if not frames_left:
                    self._rest = data[pos:]
                    return True
                frames_left -= 1
                after = self._header(data, pos)
                if after < 0:
                    self._rest = data[pos:]
                    return False
                pos = after
                if self._left:
                    continue
            count = min(self._left, end - pos)
            if count > 0:
                self._read_frames(data[pos : pos + count])
                pos += count
            if self._left == 0:
                self._left = -1
                if self._is_deflated and self._is_whole:
                    self._inflate()
                    if self._inflated > self._max_payload and pos < end:
                        self._rest = data[pos:]
                        return True
        return False

    def _header(self, data: bytes, pos: int) -> int:
        """Parse a frame header at index `pos`. Return the index of its end; -1: it is incomplete.

        A control frame is processed as a whole, with its payload. For a data frame, `_left` becomes
        the size of its payload in bytes and `_key` its masking key.
        """
        end = len(data)
        first = data[pos]
        if first & _RSV23:
            raise WebSocketError(BAD_PROTOCOL, "RSV2 and RSV3 must be clear")
        if first & _RSV1 and not self._compressed:
            text = "compressed frame received without negotiated permessage-deflate"
            raise WebSocketError(BAD_PROTOCOL, text)
        if end - pos < 2:
            return -1
        second = data[pos + 1]
        if self._masked and not second & _MASK:
            raise WebSocketError(BAD_PROTOCOL, "mask bit missing")
        size = second & 0x7F
        opcode = first & 0x0F
        _check_opcode(opcode, first, size, self._is_whole)
        start = pos + 2 + (2 if size == 126 else 8 if size == 127 else 0)
        body = start + (4 if self._masked else 0)
        if end < start:
            return -1
        if size == 126:
            (size,) = struct.unpack_from(">H", data, pos + 2)
        elif size == 127:
            (size,) = struct.unpack_from(">Q", data, pos + 2)
            if size >> 63:
                raise WebSocketError(BAD_PROTOCOL, "invalid 64-bit payload length")
        if end < body:
            return -1
        key = data[start:body]
        if opcode >= CLOSE:
            if end < body + size:
                return -1
            self._control(opcode, _masked(data[body : body + size], key))
            return body + size
        self._is_whole = bool(first & _FINAL)
        if opcode != CONTINUATION:
            self._is_deflated = bool(first & _RSV1)
        self._key = key
        self._left = size
        return body

    def _read_frames(self, data: bytes) -> None:
        """Process a piece of the payload of a data frame."""
        count = len(data)
        self._left -= count
        if self._key:
            data = _masked(data, self._key)
            turn = count & 3
            self._key = self._key[turn:] + self._key[:turn]
        if not self._is_deflated:
            self.payload.append(data)
            return
        self._deflated_size += count
        if self._deflated_size > min(self._max_payload * _WIRE_FACTOR, _WIRE_MAX):
            raise _too_big()
        self._deflated.append(data)

    def _inflate(self) -> None:
        gathered, self._deflated, self._deflated_size = self._deflated, [], 0
        self._is_deflated = False
        machine = zlib.decompressobj(-15)
        limit = self._max_payload
        try:
            data = machine.decompress(b"".join(gathered) + _LAST_BLOCK, limit + 1)
        except zlib.error as error:
            raise WebSocketError(GOING_AWAY, "Read Error") from error
        self.payload.append(data[:limit])
        self._inflated += len(data)
        if len(data) > limit:
            raise _too_big()

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.pings.append(payload)
        elif opcode == CLOSE:
            self.close = _answer_to_close(payload)


def _check_opcode(opcode: int, first: int, size: int, is_whole: bool) -> None:
    """Check that a frame is allowed after the previous frames. Raises WebSocketError if it is not.

    `first` is its first byte, `size` the 7-bit length in its second byte (126 and 127: longer than
    125 bytes). `is_whole` is False while a fragmented message is incomplete.
    """
    text = ""
    if opcode in (PING, PONG, CLOSE):
        if size > _CONTROL_MAX:
            text = f"control frame length bigger than maximum allowed of {_CONTROL_MAX} bytes"
        elif not first & _FINAL:
            text = "control frame does not have final bit set"
        elif first & _RSV1:
            text = "control frame must not be compressed"
    elif opcode in (TEXT, BINARY):
        if not is_whole:
            text = "new message started before final frame for previous message was received"
    elif opcode == CONTINUATION:
        if is_whole or first & _RSV1:
            text = "invalid continuation frame"
    else:
        text = f"unknown opcode {opcode}"
    if text:
        raise WebSocketError(BAD_PROTOCOL, text)


def _answer_to_close(payload: bytes) -> bytes:
    """Return the payload of the answer to a close frame with `payload`. Raises WebSocketError."""
    if len(payload) == 1:
        raise WebSocketError(BAD_PROTOCOL, "close frame payload cannot be 1 byte")
    if not payload:
        return b""
    code = int.from_bytes(payload[:2], "big")
    if not 1000 <= code < 5000 or 1016 <= code <= 2999 or code in _RESERVED_CODES:
        raise WebSocketError(BAD_PROTOCOL, f"invalid close status code {code}")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        return close_payload(BAD_DATA, "invalid utf8 body in close frame")
    return payload


def _too_big() -> WebSocketError:
    return WebSocketError(TOO_BIG, "Maximum Message Payload Exceeded")


def _masked(data: bytes, key: bytes) -> bytes:
    """Mask or unmask data with a key of 4 bytes; XOR of large integers is fast in Python."""
    count = len(data)
    if not count or not key:
        return data
    mask = (key * (count // 4 + 1))[:count]
    number = int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")
    return number.to_bytes(count, "little")


def frame(opcode: int, payload: bytes, flags: int = _FINAL) -> bytes:
    """Return one unmasked WebSocket frame. `flags` has the FIN and RSV bits."""
    size = len(payload)
    if size <= 125:
        return bytes((flags | opcode, size)) + payload
    if size < 65536:
        return struct.pack(">BBH", flags | opcode, 126, size) + payload
    return struct.pack(">BBQ", flags | opcode, 127, size) + payload


def frames(data: bytes, *, compressed: bool, frame_max: int = 0, whole: bool = False) -> bytes:
    """Return WebSocket frames that contain `data`, for a client.

    Args:
        data: Bytes of the NATS protocol.
        compressed: Compress data of more than 64 bytes (permessage-deflate).
        frame_max: The largest frame payload in bytes (0: no limit).
        whole: Do not split a compressed message into several frames.
    """
    if compressed and len(data) > _COMPRESS_ABOVE:
        machine = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = (machine.compress(data) + machine.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_SYNC_TAIL)
        if not frame_max or whole or len(data) <= frame_max:
            return frame(BINARY, data, _FINAL | _RSV1)
        pieces = [data[at : at + frame_max] for at in range(0, len(data), frame_max)]
        middle = [frame(CONTINUATION, piece, 0) for piece in pieces[1:-1]]
        first, last = frame(BINARY, pieces[0], _RSV1), frame(CONTINUATION, pieces[-1])
        return b"".join((first, *middle, last))
    if not frame_max or len(data) <= frame_max:
        return frame(BINARY, data)
    starts = range(0, len(data), frame_max)
    return b"".join(frame(BINARY, data[at : at + frame_max]) for at in starts)


def close_payload(code: int, text: str) -> bytes:
    """Return the payload of a close frame: the code and the text.

    A text of more than 123 bytes is cut and ends in `...`.
    """
    raw = text.encode()
    if len(raw) > _CONTROL_MAX - 2:
        raw = raw[: _CONTROL_MAX - 5].decode(errors="ignore").encode() + b"..."
    return code.to_bytes(2, "big") + raw
