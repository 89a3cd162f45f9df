"""The executor paths, on a standalone cluster: readers are pickled, executors die."""

# Subject: Spark faults, Spark cluster

# ruff: noqa: E402  (skipped where there is no Spark)

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import spark as support

support.require()

import pyarrow as pa

from tests.spark.feeds import Feed
from tests.spark.on_cluster import ROWS
from tests.spark.readers import batch
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

TARGETS = {
    "killed": {},
    "slow": {},
    "wide": {},
    "narrow": {"duplicate_window": 100_000_000},
}
"""Streams that are written, and their configuration."""


@pytest.fixture
def wire(jetgate_server: JetgateServer) -> Iterator[Wire]:
    with Wire(jetgate_server.address) as made:
        made.hello()
        yield made


@pytest.fixture
def targets(wire: Wire, feed: Feed) -> Iterator[dict[str, str]]:
    """The names of the streams that are written."""
    names = {target: f"{feed.name}{target.upper()}" for target in TARGETS}
    for target, name in names.items():
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True, **TARGETS[target]}
        assert "error" not in wire.api(f"STREAM.CREATE.{name}", config)
    yield names
    for name in names.values():
        wire.api(f"STREAM.DELETE.{name}")
        wire.api(f"STREAM.DELETE.JG_STAGE_{name}")


def _numbers(rows: pa.Table) -> list[int]:
    return [int(data.rstrip(b".")) for data in rows.column("data").to_pylist()]


@pytest.mark.thorough
def test_executors_that_are_killed_are_made_up_for_and_each_row_is_stored_once(
    cluster: support.Cluster,
    jetgate_server: JetgateServer,
    wire: Wire,
    feed: Feed,
    targets: dict[str, str],
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection string is in the environment of the executors, not in the query."""
    feed.publish([(str(one % 7), b"x" * 100, b"") for one in range(1000)])
    monkeypatch.setenv("READER_DSN", dsn)
    address = ["127.0.0.1", jetgate_server.address[1]]
    given = {"stream": feed.name, "address": address, "directory": str(tmp_path), **targets}

    printed = cluster.submit(Path(__file__).parent / "on_cluster.py", json.dumps(given))

    found = json.loads(printed.splitlines()[-1])
    assert found["killed"]
    assert found["batch"] == list(range(1, 1001))
    assert found["streaming"] == list(range(1, 1001))
    assert found["executors"] >= 1
    assert [found[name] for name in ("transaction", "published", "speculated")] == [True] * 3

    def stored(target: str) -> pa.Table:
        servers = f"nats://127.0.0.1:{jetgate_server.address[1]}"
        options = {"servers": servers, "stream": targets[target]}
        return batch(options, "seq", "headers", "data")

    everything = list(range(2 * ROWS))
    assert sorted(_numbers(stored("killed"))) == everything
    assert sorted(_numbers(stored("slow"))) == everything
    assert sorted(_numbers(stored("wide"))) == everything[::2], "known within the window"
    rows = stored("narrow")
    by_number: dict[int, set[str]] = defaultdict(set)
    for number, headers in zip(_numbers(rows), rows.column("headers").to_pylist(), strict=True):
        by_number[number] |= set(dict(headers)["Nats-Msg-Id"])
    assert sorted(by_number) == everything[1::2]
    assert len(rows) > ROWS, "some were stored again behind the window"
    assert {len(ids) for ids in by_number.values()} == {1}
