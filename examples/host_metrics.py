"""Publish live readings of this machine into the stream METRICS, ten times a second.

    python examples/host_metrics.py [--server nats://127.0.0.1:4222] [--seconds 10]

Everything comes from /proc: CPU times, memory, disks, network interfaces and every process.
Subjects: metrics.cpu.<cpu>, metrics.memory, metrics.disk.<device>, metrics.net.<interface>,
metrics.process.<pid>. Rates are per second since the reading before.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamConfig

PROC = Path("/proc")
INTERVAL = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SECTOR = 512

Reading = dict[str, object]


def token(text: str) -> str:
    """Replace what must not be in a token of a subject."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in text) or "_"


def cpu() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield seconds spent per CPU since boot."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    for line in (PROC / "stat").read_text().splitlines():
        if line.startswith("cpu"):
            name, *times = line.split()
            seconds = [int(t) / TICKS for t in times]
            yield f"cpu.{name}", dict(zip(names, seconds, strict=False))


def memory() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the machine's memory in bytes."""
    values: dict[str, float] = {}
    for line in (PROC / "meminfo").read_text().splitlines():
        name, value, *unit = line.replace(":", " ").split()
        values[name] = int(value) * (1024 if unit else 1)
    yield "memory", values


def disks() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield bytes and operations per block device since boot."""
    for line in (PROC / "diskstats").read_text().splitlines():
        fields = line.split()
        reads, read, writes, written = (int(fields[i]) for i in (3, 5, 7, 9))
        if reads or writes:
            yield (
                f"disk.{token(fields[2])}",
                {
                    "reads": reads,
                    "read_bytes": read * SECTOR,
                    "writes": writes,
                    "written_bytes": written * SECTOR,
                },
            )


def interfaces() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield bytes and packets per network interface since boot."""
    for line in (PROC / "net/dev").read_text().splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = [int(f) for f in rest.split()]
        yield (
            f"net.{token(name.strip())}",
            {
                "received_bytes": fields[0],
                "received_packets": fields[1],
                "sent_bytes": fields[8],
                "sent_packets": fields[9],
            },
        )


def processes() -> Iterator[tuple[str, dict[str, object]]]:
    """Yield every process: name, state, CPU seconds, resident bytes, threads."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it may end while we look
            text = (entry / "stat").read_text(errors="replace")
            name = text[text.index("(") + 1 : text.rindex(")")]
            fields = text[text.rindex(")") + 2 :].split()
            yield (
                f"process.{entry.name}",
                {
                    "name": name,
                    "state": fields[0],
                    "cpu_seconds": (int(fields[11]) + int(fields[12])) / TICKS,
                    "threads": int(fields[17]),
                    "resident_bytes": int(fields[21]) * PAGE,
                },
            )


def readings() -> Iterator[tuple[str, Reading]]:
    """Yield (subject, reading) of all current readings."""
    host = token(os.uname().nodename)
    now = time.time()
    for source in (cpu, memory, disks, interfaces, processes):
        for subject, values in source():
            yield f"metrics.{subject}", {"host": host, "time": now, **values}


async def connected(server: str) -> Client:
    """Connect; a connection that breaks later is made again. Raises OSError, nats.errors.Error."""
    try:
        probe = await nats.connect(
            server, max_reconnect_attempts=1, reconnect_time_wait=0.1, error_cb=ignored
        )
    except nats.errors.NoServersError:
        raise OSError(f"no server answers at {server}; --server names another address") from None
    await probe.close()
    return await nats.connect(server)


async def ignored(_: Exception) -> None:
    """Leave the error to who connects."""


async def main() -> None:
    """Publish for the given time, or until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--server", default="nats://127.0.0.1:4222", help="address of jetgate (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=0, help="0: until Ctrl-C")
    options = parser.parse_args()
    connection = await connected(options.server)
    js = connection.jetstream(publish_async_max_pending=4000)
    await js.add_stream(StreamConfig(name="METRICS", subjects=["metrics.>"], max_age=24 * 3600))
    started = time.monotonic()
    published = 0
    rounds = 0
    while not options.seconds or time.monotonic() - started < options.seconds:
        acks = [
            await js.publish_async(subject, json.dumps(reading).encode())
            for subject, reading in readings()
        ]
        last = (await asyncio.gather(*acks))[-1]
        published += len(acks)
        rounds += 1
        if rounds % 10 == 0:
            print(f"{published} readings stored, last sequence {last.seq}", flush=True)
        await asyncio.sleep(max(0.0, started + rounds * INTERVAL - time.monotonic()))
    print(f"{published} readings stored in {rounds} rounds")
    await connection.close()


if __name__ == "__main__":
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main())
    except (OSError, ValueError, nats.errors.Error) as error:
        sys.exit(f"host_metrics: {error} (see --help)")
