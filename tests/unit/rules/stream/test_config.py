"""Stream configurations: the cases one wants to read, without a server beside them."""

# Subject: streams

import pytest
from msgspec.structs import replace

from core.errors import ApiError
from core.model.account import ServerLimits
from core.model.consumer import ConsumerConfig
from core.model.stream import Discard, StreamConfig, StreamConsumerLimits
from core.rules.stream.config.validation import check_create, check_update

SECOND = 1_000_000_000


def _created(config: StreamConfig, **streams: StreamConfig) -> StreamConfig:
    stored, is_new = check_create(config, streams, name=config.name)
    assert is_new
    return stored


def test_defaults_are_filled_in() -> None:
    config = _created(StreamConfig(name="S"))

    assert config.subjects == ("S",)
    assert (config.max_msgs, config.max_bytes, config.max_consumers) == (-1, -1, -1)
    assert (config.num_replicas, config.duplicate_window) == (1, 120 * SECOND)
    assert config.metadata == {"_nats.req.level": "0"}


def test_the_duplicate_window_is_no_longer_than_the_age() -> None:
    assert _created(StreamConfig(name="S", max_age=SECOND)).duplicate_window == SECOND


def test_the_same_stream_may_be_created_again() -> None:
    stored = _created(StreamConfig(name="S"))

    again, is_new = check_create(
        StreamConfig(name="S", subjects=("S",), metadata={"_nats.ver": "9"}),
        {"S": stored},
        name="S",
    )

    assert again is stored
    assert not is_new


def test_another_configuration_is_refused() -> None:
    stored = _created(StreamConfig(name="S"))

    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="S", max_msgs=1), {"S": stored}, name="S")

    assert caught.value.err_code == 10058


def test_subjects_of_another_stream_are_refused() -> None:
    other = _created(StreamConfig(name="O", subjects=("a.>",)))

    with pytest.raises(ApiError) as caught:
        _created(StreamConfig(name="S", subjects=("a.*",)), O=other)

    assert caught.value.err_code == 10065


def test_a_stream_cannot_be_created_on_a_subject_of_another_name() -> None:
    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="S"), {}, name="T")

    assert caught.value.err_code == 10056


def test_the_number_of_streams_is_limited() -> None:
    other = _created(StreamConfig(name="O"))

    with pytest.raises(ApiError) as caught:
        check_create(
            StreamConfig(name="S"), {"O": other}, name="S", limits=ServerLimits(max_streams=1)
        )

    assert caught.value.err_code == 10027


def test_more_bytes_than_the_account_has_cannot_be_reserved() -> None:
    limits = ServerLimits(max_storage=100)
    other = _created(StreamConfig(name="O", max_bytes=60))

    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="S", max_bytes=41), {"O": other}, name="S", limits=limits)

    assert caught.value.err_code == 10047


def test_an_update_may_reserve_what_the_stream_has_already() -> None:
    limits = ServerLimits(max_storage=100)
    stored = _created(StreamConfig(name="S", max_bytes=60))

    changed = check_update(
        StreamConfig(name="S", max_bytes=100), {"S": stored}, {}, name="S", limits=limits
    )

    assert changed.max_bytes == 100


def test_sealing_implies_the_rest() -> None:
    stored = _created(StreamConfig(name="S", max_age=SECOND, allow_rollup_hdrs=True))

    sealed = check_update(replace(stored, sealed=True), {"S": stored}, {}, name="S")

    assert (sealed.max_age, sealed.discard, sealed.allow_rollup_hdrs) == (0, Discard.NEW, False)
    assert sealed.deny_delete
    assert sealed.deny_purge


def test_limits_that_a_consumer_exceeds_are_refused() -> None:
    stored = _created(StreamConfig(name="S"))
    limits = StreamConsumerLimits(max_ack_pending=5)

    with pytest.raises(ApiError) as caught:
        check_update(
            replace(stored, consumer_limits=limits),
            {"S": stored},
            {"big": ConsumerConfig(max_ack_pending=6), "small": ConsumerConfig(max_ack_pending=5)},
            name="S",
        )

    assert caught.value.err_code == 10069
    assert caught.value.description == "change to limits violates consumers: big"


def test_ten_thousand_subjects_are_checked_without_comparing_each_with_each() -> None:
    subjects = tuple(f"s{i}.*" for i in range(10_000))

    assert len(_created(StreamConfig(name="S", subjects=subjects)).subjects) == 10_000
    with pytest.raises(ApiError) as caught:
        _created(StreamConfig(name="S", subjects=(*subjects, "s9999.x")))
    assert caught.value.description == 'subject "s9999.*" overlaps with "s9999.x"'
