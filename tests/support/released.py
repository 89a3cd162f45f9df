"""Test data for upgrades: a database as the last release wrote it.

`released.sql` is a dump of a database of the last release. `released.json` contains the answers of
its server to API requests, after a restart. Tests load the dump with the current code and send the
same requests. For each release that changes the schema, `python -m tests.support.released` writes
both files once, with the oldest supported version of PostgreSQL, so that later ones can load them.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import asyncpg

from core.storage.postgres.preflight import VERSIONS
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find
from tests.support.wire import Wire

DATA = ROOT / "tests/e2e/data"
DUMP, TOLD = DATA / "released.sql", DATA / "released.json"
_YEARS = 10 * 365 * 24 * 3600 * 1_000_000_000
"""Ten years in nanoseconds: ack wait and deduplication window, which must not end before tests."""

_STREAMS: list[dict[str, Any]] = [
    {
        "name": "ORDERS",
        "subjects": ["orders.>"],
        "duplicate_window": _YEARS,
        "allow_direct": True,
        "allow_msg_ttl": True,
        "metadata": {"owner": "shop"},
    },
    {"name": "LAST", "subjects": ["last.*"], "max_msgs_per_subject": 1},
    {"name": "JOBS", "subjects": ["jobs.*"], "retention": "workqueue"},
    {"name": "NEWS", "subjects": ["news.*"], "retention": "interest"},
    {"name": "HITS", "subjects": ["hits.*"], "allow_msg_counter": True, "allow_direct": True},
    {"name": "PLANS", "subjects": ["plans.>", "due.>"], "allow_msg_schedules": True},
    {"name": "BATCHES", "subjects": ["batches"], "allow_atomic": True},
    {"name": "COPY", "mirror": {"name": "ORDERS"}},
    {"name": "SOME", "sources": [{"name": "ORDERS", "filter_subject": "orders.eu.>"}]},
    {
        "name": "KV_settings",
        "subjects": ["$KV.settings.>"],
        "max_msgs_per_subject": 5,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
    },
]
_CONSUMERS: list[tuple[str, dict[str, Any]]] = [
    ("ORDERS", {"durable_name": "billing", "ack_wait": _YEARS, "max_ack_pending": 50}),
    ("ORDERS", {"durable_name": "retried", "ack_wait": _YEARS, "max_deliver": 9}),
    ("ORDERS", {"durable_name": "europe", "filter_subjects": ["orders.eu.>", "orders.uk.>"]}),
    ("ORDERS", {"durable_name": "pushed", "deliver_subject": "pushed.here"}),
    ("ORDERS", {"durable_name": "paused", "pause_until": "2120-01-01T00:00:00Z"}),
    ("ORDERS", {"durable_name": "late", "deliver_policy": "by_start_sequence", "opt_start_seq": 9}),
    ("JOBS", {"durable_name": "workers", "ack_wait": _YEARS}),
    ("NEWS", {"durable_name": "one", "ack_wait": _YEARS}),
    ("NEWS", {"durable_name": "other", "ack_wait": _YEARS, "filter_subject": "news.sport"}),
]
_TRANSIENT = {
    "cluster",
    "ts",
    "last_active",
    "active",
    "lag",
    "pause_remaining",
    "push_bound",
    "num_waiting",
}
"""Members of API answers that depend on the time of the request or on connections."""


def headers(**values: str) -> bytes:
    """Return a header block with these headers; underscores in names become hyphens."""
    lines = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in values.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def fill(wire: Wire) -> None:
    """Create streams and consumers of each kind, store messages, and acknowledge some of them."""
    for stream in _STREAMS:
        _done(wire.api(f"STREAM.CREATE.{stream['name']}", stream))
    for of, config in _CONSUMERS:
        body = {"stream_name": of, "config": {"ack_policy": "explicit", **config}}
        _done(wire.api(f"CONSUMER.CREATE.{of}.{config['durable_name']}", body))
    for n in range(1, 41):
        place = ("eu.fr", "uk", "us")[n % 3]
        _publish(wire, f"orders.{place}", b"order %d" % n, Nats_Msg_Id=f"order-{n}", Kind="new")
    _publish(wire, "orders.us", b"\x00\xff\xfe", Nats_TTL="80000h")
    eventually(lambda: _messages(wire, "COPY") == 41 and _messages(wire, "SOME") == 13)
    _done(wire.api("STREAM.MSG.DELETE.ORDERS", {"seq": 7}))
    _done(wire.api("STREAM.PURGE.ORDERS", {"filter": "orders.uk", "seq": 12}))
    for n in range(30):
        _publish(wire, f"last.{n % 4}", b"%d" % n)
        _publish(wire, f"jobs.{n % 3}", b"job %d" % n)
        _publish(wire, ("news.sport", "news.world")[n % 2], b"news %d" % n)
    for step in ("+1", "+20", "-4"):
        _publish(wire, "hits.page", Nats_Incr=step)
    _publish(
        wire,
        "plans.a",
        b"x",
        Nats_Schedule="@at 2120-01-01T00:00:00Z",
        Nats_Schedule_Target="due.a",
    )
    for n in (1, 2, 3):
        last = {"Nats_Batch_Commit": "1"} if n == 3 else {}
        block = {"Nats_Batch_Id": "b1", "Nats_Batch_Sequence": str(n), **last}
        _publish(wire, "batches", b"%d" % n, **block)
    for n in range(1, 8):
        _publish(wire, "$KV.settings.colour", b"colour %d" % n)
    _publish(wire, "$KV.settings.size", b"9")
    _publish(wire, "$KV.settings.gone", b"soon")
    _publish(wire, "$KV.settings.gone", KV_Operation="DEL")
    _publish(wire, "$KV.settings.purged", b"soon")
    _publish(wire, "$KV.settings.purged", KV_Operation="PURGE", Nats_Rollup="sub")
    _work(wire)


def _messages(wire: Wire, stream: str) -> int:
    return int(wire.api(f"STREAM.INFO.{stream}")["state"]["messages"])


def _work(wire: Wire) -> None:
    """Deliver messages to consumers, and acknowledge some of them in various orders."""
    replies = fetch(wire, "ORDERS", "billing", 12)
    for n in (0, 1, 2, 5, 8):
        wire.request(replies[n].decode(), b"+ACK")
    wire.request(replies[3].decode(), b'-NAK {"delay": %d}' % _YEARS)
    wire.request(replies[4].decode(), b"+TERM")
    first, *_ = fetch(wire, "ORDERS", "retried", 3)
    wire.request(first.decode(), b"-NAK")
    fetch(wire, "ORDERS", "retried", 1)
    for reply in fetch(wire, "ORDERS", "europe", 4):
        wire.request(reply.decode(), b"+ACK")
    for stream, consumer, acked in (
        ("JOBS", "workers", 5),
        ("NEWS", "one", 6),
        ("NEWS", "other", 3),
    ):
        for reply in fetch(wire, stream, consumer, 8)[:acked]:
            wire.request(reply.decode(), b"+ACK")


def fetch(wire: Wire, stream: str, consumer: str, count: int) -> list[bytes]:
    """Pull `count` messages from a consumer; return their reply subjects, in order of delivery."""
    inbox = f"pulled.{stream}.{consumer}"
    body = json.dumps({"batch": count, "expires": 30_000_000_000}).encode()
    wire.send(b"SUB %s pull\r\n" % inbox.encode())
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply=inbox.encode())
    found: list[bytes] = []
    while len(found) < count:
        frame = wire.frame()
        assert frame.reply, frame
        found.append(frame.reply)
    wire.send(b"UNSUB pull\r\n")
    return found


def _publish(wire: Wire, subject: str, payload: bytes = b"", **block: str) -> None:
    answer = wire.request(subject, payload, headers(**block) if block else b"").payload
    assert not answer or "error" not in json.loads(answer), (subject, answer)


def _done(answer: Any) -> None:
    assert "error" not in answer, answer


def told(wire: Wire) -> dict[str, Any]:
    """Return a report of each stream, by name: configuration, state, messages and consumers.

    The report has no members that depend on the time of the request or on connections.
    """
    found: dict[str, Any] = {}
    for each in wire.api("STREAM.LIST", {})["streams"]:
        name = each["config"]["name"]
        info = wire.api(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})
        state = info["state"]
        gone = set(state.get("deleted") or ())
        found[name] = {
            **_without_transient({key: info[key] for key in ("config", "created", "state")}),
            "messages": [
                wire.api(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
                for seq in range(state["first_seq"], state["last_seq"] + 1)
                if seq not in gone
            ],
            "consumers": [
                _without_transient(consumer)
                for consumer in wire.api(f"CONSUMER.LIST.{name}", {})["consumers"] or ()
            ],
        }
    return found


def _without_transient(value: Any) -> Any:
    """Return a JSON value without the members named in `_TRANSIENT`, at any depth."""
    if isinstance(value, dict):
        return {k: _without_transient(v) for k, v in value.items() if k not in _TRANSIENT}
    return [_without_transient(each) for each in value] if isinstance(value, list) else value


async def load(dsn: str) -> None:
    """Execute `released.sql` in an empty database."""
    session = await asyncpg.connect(dsn)
    try:
        await session.execute(DUMP.read_text())
    finally:
        await session.close()


def _dumped(program: Path, dsn: str) -> str:
    done = subprocess.run(
        [program, "--inserts", "--no-owner", "--exclude-table-data=jetgate_store.node", dsn],
        capture_output=True,
        text=True,
        check=True,
    )
    # Leave out comments, and commands that only psql understands.
    lines = [line for line in done.stdout.splitlines() if not re.match(r"--|\\(un)?restrict", line)]
    return re.sub(r"\n{2,}", "\n\n", "\n".join(lines).strip()) + "\n"


def main() -> None:
    """Write `released.sql` and `released.json` with the current code."""
    oldest = find(VERSIONS[0])
    if oldest is None:
        raise SystemExit(f"PostgreSQL {VERSIONS[0]} is not here")
    with PostgresServer(installation=oldest, settings={"fsync": "on"}) as postgres:
        dsn = postgres.fresh_database(migrated=False)
        with JetgateServer(dsn=dsn) as server:
            with Wire(server.address) as wire:
                wire.hello()
                fill(wire)
            server.restart()
            with Wire(server.address) as wire:
                wire.hello()
                found = told(wire)
        DUMP.write_text(_dumped(oldest.binary("pg_dump"), dsn))
    TOLD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
