"""The level of the API that requests require, and that streams are stamped with."""

# Subject: streams

import pytest

from core.model.release import API_LEVEL
from core.model.stream import StreamConfig
from core.model.versions import is_level_supported, stamp_stream


@pytest.mark.parametrize(
    ("text", "good"), [(b"5", True), (b"6", False), (b"x", False), (b"", False)]
)
def test_the_required_level_is_compared(text: bytes, good: bool) -> None:
    assert API_LEVEL == 5
    assert is_level_supported(text) is good


def test_only_the_required_level_is_stored() -> None:
    metadata = {"_nats.ver": "0", "_nats.level": "0", "_nats.req.level": "9", "mine": "x"}

    stored = stamp_stream(StreamConfig(allow_msg_ttl=True, metadata=metadata)).metadata

    assert stored == {"_nats.req.level": "1", "mine": "x"}
