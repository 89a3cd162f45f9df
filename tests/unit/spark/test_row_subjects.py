"""The subject of a row is one of messages, never one of the server's API."""

# Subject: Spark rows

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

import pyarrow as pa
from pyspark_jetstream.sink.options import write_options
from pyspark_jetstream.sink.rows import RowEncoder, RowError, Shape
from pyspark_jetstream.values import InvalidOption

OURS = [
    "$JS.API.STREAM.DELETE.S",
    "$JS.hub.API.STREAM.PURGE.S",
    "$JS.ACK.S.C.1",
    "$JS",
    "$SYS.REQ.SERVER.PING",
    "$JG.API.TXN.DELETE.S",
    "$SRV.PING",
    "$KV",
    "$KVX.a",
]


def subjects(*names: str, **options: str) -> list[bytes]:
    shape = Shape("", "", frozenset(("subject", "data")), **options)
    batch = pa.RecordBatch.from_pydict({"subject": list(names), "data": [b""] * len(names)})
    return RowEncoder(shape, 3).encode(batch)[0]


@pytest.mark.parametrize("name", OURS)
def test_a_subject_of_the_server_is_refused(name: str) -> None:
    with pytest.raises(
        RowError, match=r"row 1 of partition 3: subject '.*' is one of the server's"
    ):
        subjects("a.b", name)


@pytest.mark.parametrize("name", OURS)
def test_the_option_subject_is_none_of_the_server(name: str) -> None:
    with pytest.raises(InvalidOption, match=r"option 'subject' is .*, expected a subject of mess"):
        write_options({"servers": "nats://h", "subject": name}, streaming=False)


def test_an_api_of_another_prefix_is_refused() -> None:
    assert subjects("hub.API.INFO", "a") == [b"hub.API.INFO", b"a"]
    with pytest.raises(RowError, match=r"row 1 .*'hub.API.INFO' is one of the server's"):
        subjects("hub.APIs", "hub.API.INFO", api_prefix="hub.API")


def test_subjects_of_key_value_and_object_stores_are_messages() -> None:
    names = ("$KV.b.key", "$O.b.M.x", "a.$JS.API", "JS.API")
    assert subjects(*names) == [name.encode() for name in names]
