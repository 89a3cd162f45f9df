"""Messages as JSON."""

# Subject: HTTP

import json
from base64 import b64decode

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.model.message import StoredMsg
from gateway.formats.rendering import stored
from gateway.ws.codec import PackCodec


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_every_payload_can_be_had_back(payload: bytes) -> None:
    text = stored("S", StoredMsg(subject="a", seq=1, data=payload))

    message = json.loads(text)
    assert b"\n" not in text
    assert len({"data", "text", "data_base64"} & set(message)) == 1
    if "text" in message:
        assert message["text"].encode() == payload


def test_json_is_embedded_with_its_own_digits() -> None:
    payload = b'{"a": 1.10,\r\n "b": 123456789012345678901234567890}'

    text = stored("S", StoredMsg(subject="a", seq=1, data=payload))

    assert b'"data":{"a": 1.10,   "b": 123456789012345678901234567890}' in text


@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), st.binary(max_size=4)), max_size=4))
def test_every_header_value_can_be_had_back(items: list[tuple[str, bytes]]) -> None:
    clean = [(name, bytes(set(value) - set(b"\r\n")).strip()) for name, value in items]
    lines = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in clean)
    headers = b"NATS/1.0\r\n%b\r\n" % lines if clean else b""

    message = json.loads(stored("S", StoredMsg(subject="a", seq=1, hdrs=headers, data=b"x")))
    packed = msgspec.msgpack.decode(
        PackCodec().stored(StoredMsg(subject="a", seq=1, hdrs=headers, data=b"x"))
    )

    for shown in (message, packed):
        encoded = shown.get("headers_base64", {})
        found = {
            name: [b64decode(value) for value in encoded[name]]
            if name in encoded
            else [value.encode() for value in values]
            for name, values in shown.get("headers", {}).items()
        }
        expected: dict[str, list[bytes]] = {}
        for name, value in clean:
            expected.setdefault(name, []).append(value)
        assert found == expected
        assert set(encoded) <= set(expected)
