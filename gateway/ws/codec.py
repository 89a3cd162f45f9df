"""The two encodings of WebSocket frames (JSON and MessagePack): to bytes and from bytes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from core.client import Msg
from core.client.subscribe import JsMsg
from core.goinput import text_of
from core.model.gotime import format_time
from core.model.message import StoredMsg
from gateway.formats import rendering
from gateway.formats.json_members import TWICE, colons_beside, is_plain_text, repeats_a_member
from gateway.formats.validation import json_fault
from gateway.ws import frames, packed_members
from gateway.ws.frames import ClientFrame, ServerFrame


class BadFrame(ValueError):
    """The input is not a valid frame; the text is the reason."""


Render = Callable[[JsMsg], bytes]


class Codec:
    """One encoding of WebSocket frames.

    Attributes:
        subprotocol: Its WebSocket sub-protocol.
        is_text: True if its frames are WebSocket text frames, False for binary frames.
    """

    subprotocol: str
    is_text: bool
    _decoder: Any
    _encoder: Any

    def decode(self, data: str | bytes) -> list[ClientFrame]:
        """Decode one WebSocket message: a frame, or an array of frames.

        Raises BadFrame if it is invalid, or if an object has the same member twice.
        """
        if isinstance(data, str) is not self.is_text:
            kind = "text" if self.is_text else "binary"
            raise BadFrame(f"{self.subprotocol} has {kind} frames")
        try:
            found: ClientFrame | list[ClientFrame] = self._decoder.decode(data)
            if self._repeats_a_member(data, found):
                raise BadFrame(TWICE)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            sent = data.encode(errors="surrogatepass") if isinstance(data, str) else data
            raise BadFrame(json_fault(error, sent)) from None
        return found if isinstance(found, list) else [found]

    def encode(self, frame: ServerFrame) -> bytes:
        """Encode a frame of the server."""
        encoded: bytes = self._encoder.encode(frame)
        return encoded

    def shown(self, headers: bytes, payload: bytes) -> "frames.JsonMessage | frames.PackedMessage":
        """Return a message struct with these message headers and this payload."""
        raise NotImplementedError

    def followed(self, msg: JsMsg) -> bytes:
        """Encode a message of an ordered feed, which needs no acknowledgement."""
        return self._encoded(self._of_stream(msg))

    def delivered(self, msg: JsMsg, token: str) -> bytes:
        """Encode a message of a durable feed (a pull consumer); `token` acknowledges it.

        An empty `token` is left out: the message needs no acknowledgement.
        """
        made = self._of_stream(msg)
        made.delivered = msg.delivered
        if token:
            made.token = token
        return self._encoded(made)

    def core_message(self, msg: Msg) -> bytes:
        """Encode a message of a core NATS feed."""
        made = self.shown(msg.headers, msg.payload)
        made.subject = text_of(msg.subject)
        if msg.reply:
            made.reply = text_of(msg.reply)
        return self._encoded(made)

    def stored(self, msg: StoredMsg) -> bytes:
        """Encode a stored message, the response to the frame `get`."""
        made = self.shown(msg.hdrs, msg.data)
        made.subject, made.seq, made.time = msg.subject, msg.seq, format_time(msg.time)
        return self._encoded(made)

    def replied(self, msg: Msg) -> bytes:
        """Encode the reply to the frame `req`."""
        return self._encoded(self.shown(msg.headers, msg.payload))

    def messages(self, sid: int, bodies: Sequence[bytes], nbytes: int) -> bytes:
        """Encode the frame `msg` of a feed from encoded messages.

        `nbytes` is the size that the frame reports, in bytes, for the client's byte credit; 0:
        none.
        """
        raise NotImplementedError

    def answer(self, kind: str, ident: int, body: bytes) -> bytes:
        """Encode a frame of type `kind` and id `ident` that contains one encoded message."""
        raise NotImplementedError

    def _repeats_a_member(self, data: Any, found: ClientFrame | list[ClientFrame]) -> bool:
        """Return True if an object in the input has a member twice. Raises RecursionError."""
        raise NotImplementedError

    def _encoded(self, message: "frames.JsonMessage | frames.PackedMessage") -> bytes:
        encoded: bytes = self._encoder.encode(message)
        return encoded

    def _of_stream(self, msg: JsMsg) -> "frames.JsonMessage | frames.PackedMessage":
        made = self.shown(msg.headers, msg.payload)
        made.subject = text_of(msg.subject)
        made.seq, made.time, made.pending = msg.stream_seq, format_time(msg.time), msg.pending
        return made


class JsonCodec(Codec):
    """The encoding `js.v1.json` of WebSocket frames."""

    subprotocol = "js.v1.json"
    is_text = True

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(frames.JsonFrame | list[frames.JsonFrame])
        self._encoder = msgspec.json.Encoder()

    def _repeats_a_member(self, data: str, found: ClientFrame | list[ClientFrame]) -> bool:
        whole = found if isinstance(found, list) else [found]
        return not _are_members_once(data, whole) and repeats_a_member(data)

    def shown(self, headers: bytes, payload: bytes) -> frames.JsonMessage:
        """Return a message struct with these message headers and this payload."""
        message = frames.JsonMessage()
        rendering.fill(message, headers, payload)
        return message

    def messages(self, sid: int, bodies: Sequence[bytes], nbytes: int) -> bytes:
        """Encode the frame `msg` of a feed from encoded messages, see `Codec.messages`."""
        told = b'"bytes":%d,' % nbytes if nbytes else b""
        return b'{"type":"msg","sid":%d,%b"messages":[%b]}' % (sid, told, b",".join(bodies))

    def answer(self, kind: str, ident: int, body: bytes) -> bytes:
        """Encode a frame that contains one encoded message, see `Codec.answer`."""
        return b'{"type":"%b","id":%d,"message":%b}' % (kind.encode(), ident, body)


def _are_members_once(text: str, found: list[ClientFrame]) -> bool:
    """Return True if counting colons proves that no publish repeats a member; False: unknown.

    `gateway.formats.json_members` explains the method.
    """
    colons = 0
    for frame in found:
        if not isinstance(frame, frames.Publish):
            return False
        colons += 2 + (frame.id > 0) + (not frame.receipt) + frame.subject.count(":")
        colons += colons_beside(frame.headers, frame.msg_id, frame.expect)
        if isinstance(frame.data, msgspec.Raw):
            colons += 1 + bytes(frame.data).count(b":")
        elif isinstance(frame.text, str):
            colons += 1 + frame.text.count(":")
        elif isinstance(frame.data_base64, str):
            colons += 1
    return text.count(":") == colons and is_plain_text(text)


class PackCodec(Codec):
    """The encoding `js.v1.msgpack` of WebSocket frames."""

    subprotocol = "js.v1.msgpack"
    is_text = False

    def __init__(self) -> None:
        self._decoder = msgspec.msgpack.Decoder(frames.PackedFrame | list[frames.PackedFrame])
        self._encoder = msgspec.msgpack.Encoder()

    def _repeats_a_member(self, data: bytes, found: ClientFrame | list[ClientFrame]) -> bool:
        # The encoder writes the shortest form. Input of the same length cannot have a member
        # twice.
        quick = isinstance(found, list) or len(data) <= _ENCODED_MAX
        if quick and len(self._encoder.encode(found)) == len(data):
            return False
        return packed_members.repeats_a_member(data)

    def shown(self, headers: bytes, payload: bytes) -> frames.PackedMessage:
        """Return a message struct with these message headers and this payload."""
        message = frames.PackedMessage(data=payload)
        rendering.fill_headers(message, headers)
        return message

    def messages(self, sid: int, bodies: Sequence[bytes], nbytes: int) -> bytes:
        """Encode the frame `msg` of a feed from encoded messages, see `Codec.messages`."""
        told = (("bytes", nbytes),) if nbytes else ()
        head = self._map(("type", "msg"), ("sid", sid), *told)
        return b"".join((head, _MESSAGES, _array(len(bodies)), *bodies))

    def answer(self, kind: str, ident: int, body: bytes) -> bytes:
        """Encode a frame that contains one encoded message, see `Codec.answer`."""
        return self._map(("type", kind), ("id", ident)) + _MESSAGE + body

    def _map(self, *items: tuple[str, object]) -> bytes:
        """Encode the start of a MessagePack map: these items; one more item must be appended."""
        parts: Iterable[object] = (part for item in items for part in item)
        return bytes((0x80 + len(items) + 1,)) + b"".join(map(self._encoder.encode, parts))


_MESSAGES = msgspec.msgpack.encode("messages")
_MESSAGE = msgspec.msgpack.encode("message")
_ENCODED_MAX = 1 << 16
"""Bytes.

Above this size, scanning a frame for repeated members is cheaper than encoding it again.
"""


def _array(size: int) -> bytes:
    """Return the MessagePack head of an array with this number of items."""
    return bytes((0x90 + size,)) if size < 16 else b"\xdc" + size.to_bytes(2, "big")


JSON_CODEC = JsonCodec()
CODECS: tuple[Codec, ...] = (JSON_CODEC, PackCodec())
"""All codecs of WebSocket frames, in the server's order of preference."""
