"""Publish this machine's package index into the stream DEB, one message per package.

    python examples/packages.py [--server nats://127.0.0.1:4222] [--limit N] [--file PATH]

The records are those of `apt-cache dumpavail` (Debian, Ubuntu), or of a file of that form. A
package goes to deb.<section>.<package> as JSON with the fields of its record; the message id is
package and version, so a second run within the deduplication window stores nothing twice.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain

import nats
import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamConfig

WINDOW = 2000


def dump(path: str) -> Iterator[str]:
    """Yield the lines of a file, or of the machine's own package index if there is no path."""
    if path:
        with open(path, errors="replace") as file:
            yield from file
        return
    try:
        process = subprocess.Popen(
            ["apt-cache", "dumpavail"], stdout=subprocess.PIPE, text=True, errors="replace"
        )
    except FileNotFoundError:
        sys.exit("apt-cache is not there: give the index of Debian's packages as --file")
    assert process.stdout is not None
    yield from process.stdout


def records(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the records of the package index, one dictionary of fields each."""
    record: dict[str, str] = {}
    field = ""
    for line in lines:
        text = line.rstrip("\n")
        if not text:
            if record:
                yield record
            record = {}
        elif text[0] in " \t":
            if field not in record:
                raise ValueError(f"no record of a package index: {text[:40]!r}")
            record[field] += "\n" + text.strip()
        else:
            field, colon, value = text.partition(":")
            if not colon or (not record and field != "Package"):
                raise ValueError(f"no record of a package index: {text[:40]!r}")
            value = value.removeprefix(" ")
            record[field] = value
    if record:
        yield record


def token(text: str) -> str:
    """Replace what must not be in a token of a subject."""
    return "".join(c if c.isalnum() or c in "-_+" else "_" for c in text) or "_"


def subject_of(record: dict[str, str]) -> str:
    """Return deb.<section>.<package>."""
    section = record.get("Section", "unknown").rpartition("/")[2]
    return f"deb.{token(section)}.{token(record['Package'])}"


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
    """Publish every record; print how many were stored and how fast."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--server", default="nats://127.0.0.1:4222", help="address of jetgate (%(default)s)"
    )
    parser.add_argument("--limit", type=int, default=0, help="stop after N packages")
    parser.add_argument("--file", default="", help="read these records instead of apt's own")
    options = parser.parse_args()
    lines = dump(options.file)
    first = next(lines, "")  # a file that is not there is told before anything is stored
    connection = await connected(options.server)
    js = connection.jetstream(publish_async_max_pending=WINDOW * 2)
    await js.add_stream(StreamConfig(name="DEB", subjects=["deb.>"], allow_direct=True))
    started = time.monotonic()
    acks = []
    stored = duplicates = 0
    for count, record in enumerate(records(chain([first], lines)), 1):
        msg_id = f"{record['Package']}={record.get('Version', '')}"
        acks.append(
            await js.publish_async(
                subject_of(record),
                json.dumps(record).encode(),
                headers={"Nats-Msg-Id": msg_id, "Content-Type": "application/json"},
            )
        )
        if len(acks) >= WINDOW or count == options.limit:
            for ack in await asyncio.gather(*acks):
                duplicates += bool(ack.duplicate)
                stored += not ack.duplicate
            acks = []
            print(f"\r{stored} packages stored", end="", flush=True)
        if count == options.limit:
            break
    for ack in await asyncio.gather(*acks):
        duplicates += bool(ack.duplicate)
        stored += not ack.duplicate
    seconds = time.monotonic() - started
    print(f"\r{stored} packages stored, {duplicates} known already, in {seconds:.1f} s")
    await connection.close()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (OSError, ValueError, nats.errors.Error) as error:
        sys.exit(f"packages: {error} (see --help)")
