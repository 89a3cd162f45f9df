"""What a micro-batch of a consumer is in a checkpoint."""

# Subject: Spark rows, Spark work queues

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark_jetstream.deliveries import Deliveries, OffsetError, from_json, runs_of

_deliveries = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 80)),
    max_size=30,
    unique_by=(lambda delivery: delivery[0], lambda delivery: delivery[1]),
)


def _batch(deliveries: list[tuple[int, int]]) -> Deliveries:
    return Deliveries("S", "C", 1795366378198282833, 7, "$JS.ACK.S.C", runs_of(deliveries))


@given(_deliveries)
def test_an_offset_holds_every_sequence_and_its_acknowledgement(
    deliveries: list[tuple[int, int]],
) -> None:
    text = json.dumps(_batch(deliveries).to_json())
    batch = from_json(json.loads(text), "S", "C")
    assert batch == _batch(deliveries)
    assert len(batch) == len(deliveries)
    assert batch.sequences() == sorted(seq for seq, _ in deliveries)
    assert set(batch.ack_subjects()) == {f"$JS.ACK.S.C.1.{seq}.{at}.0.0" for seq, at in deliveries}


def test_a_batch_that_was_delivered_in_order_is_short_whatever_its_size() -> None:
    batch = _batch([(seq, seq + 5) for seq in range(1000, 101_000)])
    assert batch.runs == ((1000, 1005, 100_000),)
    assert len(json.dumps(batch.to_json())) < 200


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"v": 2}, "version 2, expected 1"),
        ({"consumer": "D"}, "consumer 'D' of stream 'S'"),
        ({"stream": "T"}, "stream 'T'"),
        ({"runs": "1:2"}, "no offset of mode=consumer"),
        ({"runs": None}, "no offset of mode=consumer"),
    ],
)
def test_an_offset_of_something_else_is_refused(change: dict[str, object], expected: str) -> None:
    with pytest.raises(OffsetError, match=expected):
        from_json({**_batch([(1, 1)]).to_json(), **change}, "S", "C")
    with pytest.raises(OffsetError):
        from_json({"v": 1, "streams": {}}, "S", "C")
