"""Payloads as columns: what `from_json` of Spark gives, whatever stands beside them."""

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

import pyarrow as pa
from pyspark_jetstream.options import JsonOptions
from pyspark_jetstream.payloads.columns import CorruptPayload, JsonColumns

from tests.support.json_inputs import TYPES, comparable, recorded

EVENT = TYPES["event"]


def parsed(kind: pa.DataType, *payloads: bytes | None, **options: object) -> list[str]:
    """What payloads are read as, together."""
    found = JsonColumns(kind, JsonOptions(**options)).parse(pa.array(payloads, pa.binary()))  # type: ignore[arg-type]
    found.validate(full=True)
    assert found.type == kind
    return comparable(found)


@pytest.mark.parametrize("name", TYPES)
def test_payloads_are_read_as_by_from_json(name: str) -> None:
    """All together, and each between two whose places it must not take."""
    expected = recorded()[name]

    assert dict(zip(expected, parsed(TYPES[name], *expected), strict=True)) == expected
    assert len(expected) > 15


@pytest.mark.parametrize("name", ["event", "nested", "list", "objects"])
def test_arrow_gives_what_the_reader_of_single_payloads_does(name: str) -> None:
    """A payload alone is read by Arrow where it can; no answer depends on which of both read it."""
    columns = JsonColumns(TYPES[name], JsonOptions())
    for payload, text in recorded()[name].items():
        alone = pa.array([payload], pa.binary())
        assert comparable(columns.parse(alone)) == [text], payload
        assert comparable(columns._one_by_one(alone, 0)) == [text], payload


def test_a_field_of_another_type_costs_no_other_field_and_no_other_row() -> None:
    good, odd = b'{"id": %d, "at": "2026-01-02T03:04:05.123456789Z"}', b'{"id": "x", "at": 5}'
    payloads = [odd if place % 37 == 0 else good % place for place in range(1000)]

    found = parsed(EVENT, *payloads)

    expected = [
        "{'id': None, 'at': 5000000}"
        if place % 37 == 0
        else f"{{'id': {place}, 'at': 1767323045123456}}"
        for place in range(1000)
    ]
    assert found == expected


def test_no_payload_is_null_and_none_of_blanks_is() -> None:
    nothing = "{'id': None, 'at': None}"
    assert parsed(EVENT, None, b"", b" ", b"null", b"{}") == [
        "None",
        "None",
        "None",
        nothing,
        nothing,
    ]


def test_a_slice_of_payloads_is_read_alone() -> None:
    payloads = pa.array([b'{"id": 1}', b"bad", b'{"id": 3}', b'{"id": "x"}'], pa.binary())
    columns = JsonColumns(EVENT, JsonOptions())

    assert comparable(columns.parse(payloads[2:])) == comparable(columns.parse(payloads))[2:]


def test_a_time_without_a_zone_is_one_of_the_zone_that_is_given() -> None:
    times = [b'{"at": "2026-07-01T12:00:00"}', b'{"at": "2026-07-01T12:00:00Z"}']

    noon = 1782907200000000
    assert parsed(EVENT, *times) == [f"{{'id': None, 'at': {noon}}}"] * 2
    berlin = parsed(EVENT, *times, zone="Europe/Berlin")
    assert berlin == [
        f"{{'id': None, 'at': {noon - 7200 * 10**6}}}",
        f"{{'id': None, 'at': {noon}}}",
    ]


def test_a_field_of_another_name_takes_what_is_corrupt() -> None:
    kind = pa.struct([("why", pa.string()), ("id", pa.int64())])

    found = parsed(kind, b'{"id": 1}', b"no", b'{"id": 2, "why": "x"}', corrupt="why")

    assert found == [
        "{'why': None, 'id': 1}",
        "{'why': 'no', 'id': None}",
        "{'why': None, 'id': 2}",
    ]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"no json", "no value at 0"),
        (b'{"id": "x"}', "member 'id' has a value of another type (string)"),
        (b'{"id": 99999999999999999999}', "member 'id' is out of the range of its type"),
        (b"[1]", "the payload has a value of another type ([)"),
    ],
)
def test_a_corrupt_payload_is_named_when_it_is_an_error(payload: bytes, reason: str) -> None:
    rows = [b'{"id": 1}'] * 300
    with pytest.raises(CorruptPayload) as caught:
        parsed(EVENT, *rows, payload, *rows, fail_fast=True)

    assert (caught.value.place, caught.value.reason) == (300, reason)
