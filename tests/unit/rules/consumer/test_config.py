"""Consumer configurations: the cases one wants to read, without a server beside them."""

# Subject: consumers

import pytest
from msgspec.structs import replace

from core.errors import ApiError
from core.model.consumer import AckPolicy, Action, ConsumerConfig, CreateConsumerRequest
from core.model.stream import StreamConfig
from core.rules.consumer.config.validation import check_create_or_update, named_request

SECOND = 1_000_000_000
STREAM = StreamConfig(name="S", subjects=("s.>",), num_replicas=1)


def _created(config: ConsumerConfig, **consumers: ConsumerConfig) -> ConsumerConfig:
    stored, existing = check_create_or_update(config, STREAM, consumers)
    assert existing == ""
    return stored


def test_defaults_are_filled_in() -> None:
    config = _created(ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT))

    assert (config.ack_wait, config.max_ack_pending) == (30 * SECOND, 1000)
    assert (config.max_deliver, config.max_waiting, config.inactive_threshold) == (-1, 512, 0)
    assert config.metadata == {"_nats.req.level": "0"}


def test_an_ephemeral_consumer_goes_when_it_is_not_used() -> None:
    assert _created(ConsumerConfig()).inactive_threshold == 5 * SECOND


def test_the_first_backoff_is_the_ack_wait() -> None:
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, backoff=(7, 8), ack_wait=SECOND)

    assert _created(config).ack_wait == 7


def test_an_update_names_the_consumer_it_replaces() -> None:
    stored = _created(ConsumerConfig(durable_name="C"))

    config, existing = check_create_or_update(
        replace(stored, description="x"), STREAM, {"C": stored}
    )

    assert existing == "C"
    assert config.description == "x"


def test_an_update_keeps_a_pause() -> None:
    stored = _created(ConsumerConfig(durable_name="C", pause_until=5))

    config, _ = check_create_or_update(ConsumerConfig(durable_name="C"), STREAM, {"C": stored})

    assert config.pause_until == 5


@pytest.mark.parametrize(
    ("action", "exists", "code"),
    [(Action.CREATE, True, 10148), (Action.UPDATE, False, 10149)],
)
def test_the_action_must_fit(action: Action, exists: bool, code: int) -> None:
    consumers = {"C": _created(ConsumerConfig(durable_name="C"))} if exists else {}

    with pytest.raises(ApiError) as caught:
        check_create_or_update(
            ConsumerConfig(durable_name="C", max_batch=1), STREAM, consumers, action=action
        )

    assert caught.value.err_code == code


def test_a_deliver_subject_in_use_cannot_be_changed() -> None:
    stored = _created(ConsumerConfig(durable_name="C", deliver_subject="d"))
    changed = replace(stored, deliver_subject="e")

    with pytest.raises(ApiError) as caught:
        check_create_or_update(changed, STREAM, {"C": stored}, has_interest=True)

    assert caught.value.err_code == 10013
    assert check_create_or_update(changed, STREAM, {"C": stored})[0].deliver_subject == "e"


def test_the_name_of_the_subject_goes_into_the_configuration() -> None:
    request = CreateConsumerRequest(stream_name="S", config=ConsumerConfig(name="other"))

    assert named_request(request, "S", "C", "", durable=False).name == "C"


def test_a_filter_in_the_subject_must_be_the_configured_one() -> None:
    request = CreateConsumerRequest(stream_name="S", config=ConsumerConfig(filter_subject="s.a"))

    assert named_request(request, "S", "C", "s.a", durable=False).filter_subject == "s.a"
    with pytest.raises(ApiError) as caught:
        named_request(request, "S", "C", "s.b", durable=False)
    assert caught.value.err_code == 10131
