"""Payloads as columns: what `from_json` of Spark gives, whatever stands beside them."""

# Subject: Spark rows

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

import pyarrow as pa
from pyspark_jetstream import times
from pyspark_jetstream.options import JsonOptions
from pyspark_jetstream.payloads import columns
from pyspark_jetstream.payloads.columns import CorruptPayload, JsonColumns
from pyspark_jetstream.payloads.tokens import Tokens

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


@pytest.mark.parametrize(
    "name",
    ["event", "nested", "list", "objects", "empty", "corrupt_alone", "empty_within", "pair"],
)
def test_arrow_gives_what_the_reader_of_single_payloads_does(name: str) -> None:
    """A payload alone is read by Arrow where it can; no answer depends on which of both read it."""
    reader = JsonColumns(TYPES[name], JsonOptions())
    for payload, text in recorded()[name].items():
        alone = pa.array([payload], pa.binary())
        assert comparable(reader.parse(alone)) == [text], payload
        assert comparable(reader._one_by_one(alone, 0)) == [text], payload


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
    reader = JsonColumns(EVENT, JsonOptions())

    assert comparable(reader.parse(payloads[2:])) == comparable(reader.parse(payloads))[2:]


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
    "payload",
    [
        b'{"%b": 0, "id": 1}' % (b"n" * 50_001),
        b'{"%b" \n: 0, "id": 1}' % (b"n" * 50_001),
        b'{"%b\\"%b": 0, "id": 1}' % (b"n" * 30_000, b"n" * 30_000),
        b'{"%b\\\\": "x", "id": 1}' % (b"n" * 50_000),
        b'{"%b": 0, "id": 1}' % ("\U0001d7db" * 25_001).encode(),
    ],
)
def test_a_name_that_is_longer_than_jackson_takes_is_corrupt(payload: bytes) -> None:
    assert parsed(EVENT, payload, b'{"id": 2}') == [
        "{'id': None, 'at': None}",
        "{'id': 2, 'at': None}",
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"%b": 0, "id": 1}' % (b"n" * 50_000),
        b'{"%b": 0, "id": 1}' % ("\U0001d7db" * 25_000).encode(),
        b'{"x": "%b", "id": 1}' % (b"n" * 60_000),
        b'{"x": "%b\\": %b", "id": 1}' % (b"n" * 60_000, b"n" * 60_000),
    ],
)
def test_a_name_or_a_text_that_jackson_takes_is_read(payload: bytes) -> None:
    assert parsed(EVENT, payload) == ["{'id': 1, 'at': None}"]


def test_an_unexpected_error_is_a_corrupt_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(tokens: Tokens) -> str:
        raise RuntimeError("planted")

    monkeypatch.setattr(Tokens, "skip_children", fail)
    payloads = [b'{"id": 1}', b'{"id": 2, "x": "y", "m": 01}', b'{"id": "z"}']
    kind = TYPES["corrupt"]

    assert parsed(kind, *payloads) == [
        "{'id': 1, 'at': None, '_corrupt_record': None}",
        f"{{'id': None, 'at': None, '_corrupt_record': {payloads[1].decode()!r}}}",
        f"{{'id': None, 'at': None, '_corrupt_record': {payloads[2].decode()!r}}}",
    ]
    with pytest.raises(CorruptPayload, match=r"cannot be read .RuntimeError: planted") as caught:
        parsed(kind, *payloads, fail_fast=True)
    assert caught.value.place == 1


def test_a_value_that_arrow_does_not_take_is_a_corrupt_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(times, "timestamp", lambda text, zone: 1 << 70 if text == "x" else None)
    payloads = [b'{"id": 1}', b'{"id": 2, "at": "x"}', b'{"id": 3}']

    assert parsed(TYPES["corrupt"], *payloads) == [
        "{'id': 1, 'at': None, '_corrupt_record': None}",
        f"{{'id': None, 'at': None, '_corrupt_record': {payloads[1].decode()!r}}}",
        "{'id': 3, 'at': None, '_corrupt_record': None}",
    ]
    with pytest.raises(CorruptPayload, match="OverflowError") as caught:
        parsed(EVENT, *payloads, fail_fast=True)
    assert caught.value.place == 1


def test_an_unexpected_error_of_arrow_has_payloads_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(columns, "_parse_all", fail)

    assert parsed(EVENT, b'{"id": 1}') == ["{'id': 1, 'at': None}"]


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
