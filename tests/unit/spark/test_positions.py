"""Offsets as a checkpoint holds them."""

# Subject: Spark rows

import pytest
from pyspark_jetstream.positions import Position, from_json, to_json


def test_an_offset_has_no_more_than_it_must() -> None:
    value = to_json({"B": Position(5, 0), "A": Position(3, 42, snapshot=50, origin=0)})

    assert value == {
        "v": 1,
        "streams": {
            "A": {"incarnation": 3, "seq": 42, "snapshot": 50, "origin": 0},
            "B": {"incarnation": 5, "seq": 0},
        },
    }


@pytest.mark.parametrize("value", [{}, {"v": 1}, {"v": 1, "streams": {"A": {"seq": 1}}}, {"v": 2}])
def test_an_invalid_offset_is_shown(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="offset"):
        from_json(value)
