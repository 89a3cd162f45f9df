"""The codec of frames, without a socket; against the reference it is in tests/integration."""

# Subject: protocol, WebSocket

import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.protocol import websocket as ws
from core.protocol.upgrade import RefusedUpgrade, WebSocketOptions, upgrade
from tests.support.websocket import deflate, frame, request

_MAX = 1000
_TEXT = b'CONNECT {"verbose":false}\r\nPUB a 5\r\nhello\r\n'


def _reader(*, masked: bool = True, compressed: bool = True) -> ws.FrameReader:
    return ws.FrameReader(masked=masked, compressed=compressed, max_payload=_MAX)


def _read(pieces: list[bytes]) -> tuple[bytes, list[bytes], bytes | None, int]:
    reader = _reader()
    code = 0
    for piece in pieces:
        try:
            while reader.feed(piece):
                piece = b""
        except ws.WebSocketError as error:
            code = error.code
            break
    return b"".join(reader.payload), reader.pings, reader.close, code


def test_a_text_frame_split_at_every_offset() -> None:
    data = frame(_TEXT, 0x81)
    for cut in range(len(data) + 1):
        assert _read([data[:cut], data[cut:]]) == (_TEXT, [], None, 0)


_FRAMES = st.one_of(
    st.tuples(st.just("data"), st.binary(max_size=300), st.sampled_from([0, 126, 127])),
    st.tuples(st.just("ping"), st.binary(max_size=125), st.just(0)),
    st.tuples(st.just("deflate"), st.binary(max_size=300), st.just(0)),
    st.tuples(st.just("pieces"), st.binary(max_size=300), st.just(0)),
    st.tuples(st.just("junk"), st.binary(min_size=1, max_size=20), st.just(0)),
    st.tuples(st.just("close"), st.sampled_from([b"", b"\x03\xe8x", b"\x03"]), st.just(0)),
)


def _bytes(kind: str, payload: bytes, form: int) -> bytes:
    if kind == "data":
        return frame(payload, 0x81, form=form)
    if kind == "deflate":
        return frame(deflate(payload), 0xC2)
    if kind == "pieces":
        half = len(payload) // 2
        ping = frame(b"between", 0x89)
        return frame(payload[:half], 0x02) + ping + frame(payload[half:], 0x80)
    if kind == "junk":
        return payload
    return frame(payload, 0x89 if kind == "ping" else 0x88)


@given(st.lists(_FRAMES, max_size=6), st.data())
def test_borders_of_reads_mean_nothing(parts: list[Any], data: Any) -> None:
    whole = b"".join(_bytes(*part) for part in parts)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert _read(pieces) == _read([whole])


@given(st.binary(max_size=2000), st.booleans(), st.sampled_from([0, 7, 4096]), st.booleans())
def test_encoded_frames_are_read_again(
    data: bytes, compressed: bool, frame_max: int, whole: bool
) -> None:
    reader = ws.FrameReader(masked=False, compressed=True, max_payload=1 << 20)
    reader.feed(ws.frames(data, compressed=compressed, frame_max=frame_max, whole=whole))
    assert b"".join(reader.payload) == data


def test_an_announced_size_allocates_nothing() -> None:
    reader = _reader()
    reader.feed(frame(b"abc", size=1 << 62, form=127))
    assert reader.payload == [b"abc"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: frame(deflate(b"x" * 100_000_000), 0xC2),
        lambda: frame(b"\0" * (8 * _MAX + 1), 0xC2),
        lambda: frame(b"", 0x42) + frame(b"\0" * 4000, 0x00) * 3,
    ],
    ids=["bomb", "wire", "fragments"],
)
def test_a_message_that_grows_too_large_is_closed_with_1009(make: Callable[[], bytes]) -> None:
    payload, _, _, code = _read([make()])
    assert code == ws.TOO_BIG
    assert len(payload) <= _MAX


def test_many_bombs_inflate_one_after_the_other() -> None:
    """What a read of some kilobytes becomes must not be in memory all at once."""
    data = frame(deflate(b"x" * _MAX), 0xC2) * 1000
    reader, total, peak = _reader(), 0, 0
    while reader.feed(data):
        data = b""
        size = sum(map(len, reader.payload))
        total, peak = total + size, max(peak, size)
        reader.payload.clear()
    assert total + sum(map(len, reader.payload)) == 1000 * _MAX
    assert peak <= 2 * _MAX


def test_uncompressed_fragments_never_gather() -> None:
    reader = _reader()
    reader.feed(frame(b"", 0x02))
    for _ in range(1000):
        reader.feed(frame(b"x" * 4000, 0x00))
        assert len(b"".join(reader.payload)) == 4000
        reader.payload.clear()


def test_nothing_is_read_after_a_close() -> None:
    reader = _reader()
    reader.feed(frame(b"\x03\xe8", 0x88) + frame(_TEXT))
    reader.feed(frame(_TEXT))
    assert (reader.payload, reader.close) == ([], b"\x03\xe8")


def test_a_long_reason_ends_in_dots() -> None:
    payload = ws.close_payload(ws.BAD_PROTOCOL, "é" * 100)
    assert len(payload) <= 125
    assert payload[2:].decode().endswith("...")


def test_large_messages_are_compressed_and_small_ones_not() -> None:
    assert ws.frames(b"x" * 64, compressed=True)[0] == 0x82
    large = ws.frames(b"x" * 65, compressed=True)
    assert large[0] == 0xC2
    assert zlib.decompressobj(-15).decompress(large[2:] + b"\0\0\xff\xff") == b"x" * 65


@pytest.mark.parametrize(
    "options",
    [{"allowed_origins": ("nowhere",)}, {"headers": {"a b": "c"}}, {"headers": {"a": "\n"}}],
)
def test_options_that_cannot_be_meant_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        WebSocketOptions(**options)


def test_very_many_frames_are_read_in_several_calls() -> None:
    reader = _reader()
    more = reader.feed(frame(b"a") * 2000 + frame(b"", 0x89))
    calls, most = 1, len(reader.payload)
    while more:
        before = len(reader.payload)
        more = reader.feed(b"")
        calls += 1
        most = max(most, len(reader.payload) - before)

    assert b"".join(reader.payload) == b"a" * 2000
    assert reader.pings == [b""]
    assert (calls, most) == (4, 512)


@pytest.mark.parametrize(
    "more", ["".join(f"A{n}: b\r\n" for n in range(300)), f"Connection: {'a,' * 300}b\r\n"]
)
def test_a_handshake_has_a_few_hundred_headers_and_elements_of_lists(more: str) -> None:
    head = request()[:-2] + more.encode() + b"\r\n"
    with pytest.raises(RefusedUpgrade) as refused:
        upgrade(head, WebSocketOptions())

    assert refused.value.status == 431
