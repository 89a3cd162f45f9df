"""Messages as JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from core.model.message import StoredMsg
from gateway.rendering import stored


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
