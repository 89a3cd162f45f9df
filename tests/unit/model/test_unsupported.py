"""What is refused until it is served."""

import pytest

from core.errors import ApiError
from core.model.release import API_LEVEL
from core.model.stream import StreamConfig
from core.model.unsupported import refuse_stream
from core.model.versions import is_level_supported, stamp_stream


@pytest.mark.parametrize(
    ("config", "feature"),
    [
        (StreamConfig(allow_batched=True), "batch publish"),
    ],
)
def test_a_stream_with_a_missing_feature_is_refused_by_name(
    config: StreamConfig, feature: str
) -> None:
    with pytest.raises(ApiError) as caught:
        refuse_stream(config)

    assert caught.value.err_code == 10052
    assert caught.value.description == f"{feature} is not supported by this server yet"


def test_a_bucket_of_the_python_client_is_not_refused() -> None:
    bucket = StreamConfig(
        name="KV_b",
        subjects=("$KV.b.>",),
        allow_rollup_hdrs=True,
        allow_msg_ttl=True,
        deny_delete=True,
        max_msgs_per_subject=1,
    )

    refuse_stream(bucket)


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
