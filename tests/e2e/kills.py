"""`kill -9` of servers with JetStream, time after time, and what is left of them.

Run by hand: `python -m tests.e2e.kills --count 1000`. A third of the servers are killed at a random
point of their start, a third once a message is stored, a third while many are being stored. Every
other directory is removed at once, as scripts do; the others are watched until the last process is
gone, for files that still come or go. What the machine has in the end and did not have in the
beginning is counted and named: where others start servers at the same time, run it apart from them
(`unshare --fork --pid --ipc --mount --mount-proc`).
"""

import argparse
import ctypes
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from core.storage.postgres.embedded.directory import processes_in
from tests.support.dropin import DropIn
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT
from tests.support.scratch import scratch

MOMENTS = ("start", "stored", "load")
_CONFIG = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()
_START_S, _LOAD_S = 1.2, 0.1  # within which a kill comes, by chance
# of <sys/inotify.h>
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Kill:
    """What one kill was followed by.

    Attributes:
        gone_s: seconds from the end of the killed process until its last descendant was gone.
        changes: names that came or went meanwhile in a directory that was left alone.
        failure: why the directory could not be removed at once; empty: it could.
        processes: those that were still there a minute later.
        temporary: what was left in the directory for temporary files.
    """

    moment: str
    gone_s: float = 0.0
    changes: list[str] = field(default_factory=list)
    failure: str = ""
    processes: list[int] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)


def kill_once(moment: str, *, watched: bool) -> Kill:
    """Start a server, kill it at a moment, and remove its directory.

    Args:
        moment: One of `MOMENTS`.
        watched: Whether to look at the directory until every process is gone, and remove it then.
    """
    found = Kill(moment)
    store, temporary = scratch("jetgate-kill-"), Path(tempfile.mkdtemp(prefix="jetgate-kill-"))
    data = store / "jetstream" / "pg"
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    with DropIn(
        *("jetgate-nats-server", "-js", "-sd", str(store), "-a", "127.0.0.1", "-p", "-1"),
        env=environment,
    ) as server:
        client = _until(server, moment)
        pids = processes_in(data)
        with changes_in(store if watched else None) as changes:
            server.send(signal.SIGKILL)
            server.end()
            ended = time.monotonic()
            if watched:
                changes.clear()
            else:
                found.failure = remove(store)
            try:
                eventually(partial(_all_gone, pids, data), within=60, every=0.0005)
            except AssertionError:
                found.processes = [pid for pid in pids if is_there(pid)] + processes_in(data)
            found.gone_s = time.monotonic() - ended
            found.changes = changes.names()
        if client is not None:
            client.close()
    found.temporary = [str(place) for place in temporary.rglob("*")]
    shutil.rmtree(temporary)
    shutil.rmtree(store, ignore_errors=True)
    return found


def _until(server: DropIn, moment: str) -> socket.socket | None:
    if moment == "start":
        wait(random.uniform(0, _START_S))
        return None
    if moment == "stored":
        return publish_one(server)
    client = publish_much(server)
    wait(random.uniform(0, _LOAD_S))
    return client


def wait(seconds: float) -> None:
    """Let time pass: the moment of a kill is by chance."""
    threading.Event().wait(seconds)


def publish_one(server: DropIn) -> socket.socket:
    """Have a stream and one stored message in it."""
    client = socket.create_connection(server.address)
    client.sendall(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\n')
    for subject, payload, answer in (
        (b"$JS.API.STREAM.CREATE.S", _CONFIG, b'"did_create":true'),
        (b"s.a", b"x", b'"seq":1'),
    ):
        client.sendall(request(subject, payload))
        said = b""
        while answer not in said:
            said += client.recv(4096)
    return client


def publish_much(server: DropIn) -> socket.socket:
    """Have a stream, one stored message, and much that is being stored."""
    client = publish_one(server)
    client.sendall(request(b"s.a", bytes(10_000)) * 200)
    return client


def request(subject: bytes, payload: bytes) -> bytes:
    """A publish that asks for an answer."""
    return b"PUB %b answers %d\r\n%b\r\n" % (subject, len(payload), payload)


def remove(directory: Path) -> str:
    """Remove a directory as `rm -r` does; why that failed, or nothing."""
    try:
        shutil.rmtree(directory)
    except OSError as error:
        return re.sub(r"\S*jetgate-kill-[^/']*", "...", str(error))
    return ""


def is_there(pid: int) -> bool:
    """Whether a process still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _all_gone(pids: list[int], data: Path) -> bool:
    return not any(map(is_there, pids)) and not processes_in(data)


class Changes:
    """Names of files that come or go in a tree, as inotify tells them."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._places: dict[int, str] = {}

    def watch(self, libc: ctypes.CDLL, directory: str) -> None:
        kinds = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
        number = libc.inotify_add_watch(self._handle, os.fsencode(directory), kinds)
        if number >= 0:
            self._places[number] = directory

    def clear(self) -> None:
        """Forget what happened until now."""
        self.names()

    def names(self) -> list[str]:
        """What came or went since the last question."""
        found: list[str] = []
        while self._handle >= 0 and select.select([self._handle], [], [], 0)[0]:
            said = os.read(self._handle, 1 << 16)
            at = 0
            while at < len(said):
                number, kind, _, size = (
                    int.from_bytes(said[at + 4 * i : at + 4 * i + 4], "little") for i in range(4)
                )
                name = os.fsdecode(said[at + 16 : at + 16 + size].rstrip(b"\0"))
                at += 16 + size
                how = "-" if kind & (_MOVED_FROM | _DELETE) else "+"
                place = Path(self._places.get(number, "?")).name
                found.append(f"{how}{place}/{name}")
        return found


@contextmanager
def changes_in(root: Path | None) -> Iterator[Changes]:
    """Watch a tree; None: nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(_NONBLOCK) if root is not None else -1
    changes = Changes(handle)
    if root is not None:
        for folder, _, _ in os.walk(root):
            changes.watch(libc, folder)
    try:
        yield changes
    finally:
        if handle >= 0:
            os.close(handle)


def belongings() -> dict[str, set[str]]:
    """What processes can leave on a machine beside their own directories, by kind."""
    unix = Path("/proc/net/unix").read_text().splitlines()[1:]
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return {
        "processes": {path.name for path in processes if b"jetgate-kill-" in _line(path)},
        "shared memory (System V)": _numbers("shm"),
        "semaphores (System V)": _numbers("sem"),
        "shared memory and semaphores (POSIX)": set(os.listdir("/dev/shm")),
        "sockets": {line.split(maxsplit=7)[7] for line in unix if line.count("/")},
        "directories": set(os.listdir(tempfile.gettempdir())),
    }


def _line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _numbers(kind: str) -> set[str]:
    lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
    return {line.split()[1] for line in lines}


def main() -> None:
    """Kill, and print what is left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="how many kills")
    parser.add_argument("--at-once", type=int, default=1, help="how many servers run at once")
    chosen = parser.parse_args()
    before = belongings()
    with ThreadPoolExecutor(chosen.at_once) as pool:
        tries = (
            pool.submit(kill_once, MOMENTS[number % 3], watched=number // 3 % 2 == 1)
            for number in range(chosen.count)
        )
        kills = [each.result() for each in list(tries)]
    after = belongings()
    for moment in MOMENTS:
        times = sorted(kill.gone_s * 1000 for kill in kills if kill.moment == moment)
        if times:
            middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
            print(
                f"{moment}: {len(times)} kills; last process gone after {middle:.1f} ms (median),"
                f" {late:.1f} ms (99 %), {times[-1]:.1f} ms (longest)"
            )
    watched = Counter(name for kill in kills for name in kill.changes)
    print(f"files that came or went after the kill: {dict(watched)}")
    print(f"removals that failed: {dict(Counter(kill.failure for kill in kills if kill.failure))}")
    print(f"processes left: {sum(len(kill.processes) for kill in kills)}")
    print(f"temporary files left: {sum(len(kill.temporary) for kill in kills)}")
    for kind, names in after.items():
        print(f"{kind} left: {len(names - before[kind])} {sorted(names - before[kind])[:5]}")


if __name__ == "__main__":
    main()
