"""What an origin is asked, and how its messages are dressed."""

# Subject: mirrors and sources

import json
from typing import Any

import pytest

from core.jetstream.sourcing.ack_subjects import parse_ack_subjects
from core.jetstream.sourcing.origin import Origin, StartPosition, without_publish_headers
from core.model.stream import ExternalStream, StreamConsumerSource, StreamSource
from core.model.stream import SubjectTransformConfig as Transform

FAR = ExternalStream(api="$JS.far.API", deliver="")
KEYS = {
    "S > >": StreamSource(name="S"),
    "S a.* >": StreamSource(name="S", filter_subject="a.*"),
    "S a.*\fb x.$1\f>": StreamSource(
        name="S",
        subject_transforms=(Transform(src="a.*", dest="x.$1"), Transform(src="b", dest="")),
    ),
    "S:C=CjO585uE > >": StreamSource(name="S", consumer=StreamConsumerSource(name="copies")),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_key_is_that_of_the_headers(key: str) -> None:
    source = KEYS[key]
    origin = Origin(source, "A", "$G", "", mirrors=False)

    (block,) = origin.stored_headers([b""], [7], [b"a.b"], "OGukcTEP")

    assert origin.key == key
    value = block.partition(b": ")[2].removesuffix(b"\r\n\r\n")
    assert origin.start_in(value) == StartPosition(7, "OGukcTEP")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"S 3 > > s.a", StartPosition(3, "")),
        (b"S 3 > >", StartPosition(3, "")),
        (b"S 3 > > s.a OGukcTEP", StartPosition(3, "OGukcTEP")),
        (b"S 3 a > s.a", None),
        (b"S 3 > a s.a", None),
        (b"T 3 > > s.a", None),
        (b"S 3", None),
        (b"S x > > s.a", None),
        (b"S", None),
        (b"", None),
    ],
)
def test_older_and_foreign_headers(value: bytes, found: StartPosition | None) -> None:
    assert _origin(StreamSource(name="S")).start_in(value) == found


def test_a_destination_with_blanks_is_cut_in_headers_and_whole_in_the_key() -> None:
    """As nats-server 2.15.1 writes it."""
    made = [
        _origin(
            StreamSource(
                name="S",
                subject_transforms=(Transform(src="a.*.*", dest=f"{{{{partition(3, {n})}}}}"),),
            )
        )
        for n in (1, 2)
    ]

    blocks = [origin.stored_headers([b""], [7], [b"a.b"], "OGukcTEP") for origin in made]

    assert made[0].key != made[1].key
    assert blocks[0] == blocks[1]
    value = blocks[0][0].partition(b": ")[2].removesuffix(b"\r\n\r\n")
    assert value == b"S 7 a.*.* {{partition(3, a.b OGukcTEP"
    assert made[0].start_in(value) == StartPosition(7, "OGukcTEP")


def test_origins_elsewhere_have_keys_of_their_own() -> None:
    near, far = StreamSource(name="S"), StreamSource(name="S", external=FAR)

    assert _origin(near).key != _origin(far).key


@pytest.mark.parametrize("tail", ["x" * 3900, "é" * 1900, "a\0b"])
def test_the_key_of_any_filter_fits_into_storage_and_is_that_of_the_headers(tail: str) -> None:
    origin = _origin(StreamSource(name="S", filter_subject=f"s.{tail}"))

    (block,) = origin.stored_headers([b""], [7], [b"s.a"], "OGukcTEP")

    assert len(origin.key.encode()) <= 2048
    assert "\0" not in origin.key
    assert origin.key.startswith("S ")
    assert origin.key != _origin(StreamSource(name="S", filter_subject=f"s.{tail}y")).key
    value = block.partition(b": ")[2].removesuffix(b"\r\n\r\n")
    assert value.startswith(f"S 7 s.{tail} > s.a ".encode())
    assert origin.start_in(value) == StartPosition(7, "OGukcTEP")


def _origin(source: StreamSource) -> Origin:
    return Origin(source, "A", "$G", "", mirrors=False)


def _asked(source: StreamSource, start: StartPosition) -> tuple[bytes, dict[str, object]]:
    origin = Origin(source, "A", "$G", "hub", mirrors=False)
    subject, body = origin.create(start, "to", plain=False)
    return subject, json.loads(body)["config"]


def test_a_filter_is_part_of_the_subject() -> None:
    subject, config = _asked(StreamSource(name="S", filter_subject="a.*"), StartPosition())

    assert subject == b"$JS.API.CONSUMER.CREATE.S.%b.a.*" % str(config["name"]).encode()
    assert config["filter_subject"] == "a.*"
    metadata = {"_nats.src.stream": "A", "_nats.src.acc": "$G", "_nats.src.domain": "hub"}
    assert config["metadata"] == metadata


def test_several_filters_are_not() -> None:
    subject, config = _asked(KEYS["S a.*\fb x.$1\f>"], StartPosition())

    assert subject == b"$JS.API.CONSUMER.CREATE.S"
    assert config["filter_subjects"] == ["a.*", "b"]


@pytest.mark.parametrize(
    ("source", "start", "wanted"),
    [
        ({}, StartPosition(), {"deliver_policy": "all"}),
        ({"opt_start_seq": 5}, StartPosition(), {"opt_start_seq": 5}),
        ({"opt_start_time": 10**18}, StartPosition(), {"opt_start_time": "2001-09-09T01:46:40Z"}),
        ({"opt_start_seq": 5}, StartPosition(8, "x"), {"opt_start_seq": 9}),
        ({"opt_start_time": 10**18}, StartPosition(8, "x"), {"opt_start_seq": 9}),
    ],
)
def test_where_it_starts(
    source: dict[str, Any], start: StartPosition, wanted: dict[str, object]
) -> None:
    _, config = _asked(StreamSource(name="S", **source), start)

    assert wanted.items() <= config.items()
    assert ("opt_start_time" in config) == ("opt_start_time" in wanted)


def test_blocks_lose_what_belongs_to_the_origin() -> None:
    block = (
        b"NATS/1.0\r\nNats-Expected-Stream: S\r\nX: 1\r\n"
        b"Nats-Stream-Source: T 1 > > a\r\nNats-Expected-Last-Sequence: 4\r\n\r\n"
    )
    mirrored = b"NATS/1.0\r\nX: 1\r\nNats-Stream-Source: T 1 > > a\r\n\r\n"
    alone = b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n"

    assert without_publish_headers([block, b"", alone], mirrors=False) == [
        b"NATS/1.0\r\nX: 1\r\n\r\n",
        b"",
        b"",
    ]
    assert without_publish_headers([block], mirrors=True) == [mirrored]


def test_stamps_of_both_forms() -> None:
    short = parse_ack_subjects([b"$JS.ACK.S.C.1.5.2.1000.7", b"$JS.ACK.S.C.1.9.3.1001.6"])
    long = parse_ack_subjects([b"$JS.ACK.hub.acchash.S.C.1.5.2.1000.7.random"])

    assert short is not None
    assert (short.seqs, short.cseqs, short.times, short.left) == ([5, 9], [2, 3], [1000, 1001], 6)
    assert long is not None
    assert (long.seqs, long.cseqs, long.times, long.left) == ([5], [2], [1000], 7)
    assert parse_ack_subjects([b"_INBOX.a"]) is None


@pytest.mark.parametrize(
    ("cseqs", "expected", "stop"),
    [([1, 2, 3], 1, 3), ([2, 3], 1, 0), ([1, 2, 4], 1, 2), ([4, 5], 4, 2)],
)
def test_the_first_gap_is_found(cseqs: list[int], expected: int, stop: int) -> None:
    stamps = parse_ack_subjects([b"$JS.ACK.S.C.1.1.%d.1.0" % cseq for cseq in cseqs])
    assert stamps is not None

    assert stamps.unbroken(0, expected) == stop


@pytest.mark.parametrize("position", ["²", "１", "+7", "1_0", "9" * 5000])
def test_a_position_that_is_no_number_is_none(position: str) -> None:
    """Any client may publish such a header; it must not end the loading of a stream."""
    assert _origin(StreamSource(name="S")).start_in(f"S {position} > >".encode()) is None
