"""The bytes per message in PostgreSQL: `python -m bench.sizes`.

It starts `jetgate serve` over a PostgreSQL of its own and publishes over NATS. The sizes are
PostgreSQL's, divided by the number of messages: of the tables, of their indexes, and of the WAL for
both. "Kept" is the remaining size of tables and indexes after removed messages are deleted and
vacuumed.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.pg import PostgresServer
from tests.support.sql import on
from tests.support.wire import Wire

_PARTITIONS = ("jetgate_store.message_0", "jetgate_store.message_1")
_TABLES = " + ".join(f"pg_table_size('{partition}')" for partition in _PARTITIONS)
_INDEXES = " + ".join(f"pg_indexes_size('{partition}')" for partition in _PARTITIONS)
_SIZES = f"select {_TABLES}, {_INDEXES}, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
_ROWS = "select count(*) from jetgate_store.message"
_WINDOW = 1000
_ID = b"NATS/1.0\r\nNats-Msg-Id: %036d\r\n\r\n"


def publish(wire: Wire, subject: Callable[[int], str], count: int, size: int, block: bytes) -> None:
    """Publish messages and wait for their acks, a thousand at a time."""
    wire.send(b"SUB acks a\r\n")
    for start in range(0, count, _WINDOW):
        for n in range(start, start + _WINDOW):
            header = block % n if block else b""
            wire.publish(subject(n), b"x" * size, reply=b"acks", headers=header)
        for _ in range(_WINDOW):
            answer = json.loads(wire.frame().payload)
            assert "error" not in answer, answer
    wire.send(b"UNSUB a\r\n")


def drain(wire: Wire, count: int) -> None:
    """Pull all messages of the stream and acknowledge them."""
    config = {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": _WINDOW}
    wire.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    wire.send(b"SUB pulled p\r\n")
    body = json.dumps({"batch": _WINDOW, "expires": 30_000_000_000}).encode()
    for _ in range(0, count, _WINDOW):
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", body, reply=b"pulled")
        replies = [wire.frame().reply.decode() for _ in range(_WINDOW)]
        for reply in replies:
            wire.publish(reply)
    wire.send(b"UNSUB p\r\n")
    wire.flush()


def measure(config: dict[str, Any], count: int, size: int, block: bytes = b"") -> list[int]:
    """Publish messages to one kind of stream; return bytes per message in PostgreSQL.

    The four values are for table, indexes, WAL, and what remains of table and indexes after removed
    messages are deleted and vacuumed.

    Args:
        config: Configuration of the stream.
        count: Number of messages.
        size: Size of a payload in bytes.
        block: Header block of each message.
    """
    with PostgresServer(settings={"fsync": "on"}) as postgres:
        dsn = postgres.fresh_database()
        with JetgateServer(dsn=dsn) as server, Wire(server.address) as wire:
            wire.hello()
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **config})
            [before] = on(dsn, _SIZES)
            publish(wire, lambda n: f"s.{n % 10_000:05}", count, size, block)
            [after] = on(dsn, _SIZES)
            if config.get("retention"):
                drain(wire, count)
            left = wire.api("STREAM.INFO.S")["state"]["messages"]
            eventually(lambda: on(dsn, _ROWS) == [(left,)], within=120, every=0.2)
            [kept] = on(dsn, *(f"vacuum {partition}" for partition in _PARTITIONS), _SIZES)
    grown = [(now - then) // count for now, then in zip(after, before, strict=True)]
    return [*grown, (kept[0] + kept[1] - before[0] - before[1]) // count]


def main() -> None:
    """Measure each kind of stream, and print a row for it."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="messages of each kind")
    count = parser.parse_args().count // _WINDOW * _WINDOW
    kinds: dict[str, tuple[dict[str, Any], int, bytes]] = {
        "log, 128 B": ({}, 128, b""),
        "log, 128 B, message ids of 36 B": ({}, 128, _ID),
        "log, 1 KiB": ({}, 1024, b""),
        "log, 64 KiB": ({}, 65_536, b""),
        "10,000 keys, 128 B, each put 10 times": ({"max_msgs_per_subject": 1}, 128, b""),
        "work queue, 128 B, all acknowledged": ({"retention": "workqueue"}, 128, b""),
    }
    print("| bytes a message | table | index | WAL | kept |\n|---|---|---|---|---|")
    for kind, (config, size, block) in kinds.items():
        some = count // 50 // _WINDOW * _WINDOW or _WINDOW if size > 10_000 else count
        found = measure(config, some, size, block)
        print(f"| {kind} | {' | '.join(f'{each:,}' for each in found)} |", flush=True)


if __name__ == "__main__":
    main()
