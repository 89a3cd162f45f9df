"""`kill -9` of a server with JetStream, as scripts do it: its directory goes at once."""

import json
import os
import re
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from core.storage.postgres.embedded.directory import processes_in
from tests.support.dropin import DropIn
from tests.support.eventually import eventually
from tests.support.scratch import scratch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

_ROUNDS = 50
_CONFIG = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()


def publish_much(server: DropIn) -> socket.socket:
    """Have a stream, one stored message, and much that is being stored."""
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
    client.sendall(request(b"s.a", bytes(10_000)) * 200)
    return client


def request(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b answers %d\r\n%b\r\n" % (subject, len(payload), payload)


def outside(pids: list[int], directory: Path) -> set[str]:
    """What processes have open or mapped that others could be left with when they are gone."""
    found: set[str] = set()
    for pid in pids:
        maps = Path(f"/proc/{pid}/maps").read_text()
        found |= set(re.findall(r"/dev/shm/\S+", maps))
        found |= {os.readlink(place) for place in Path(f"/proc/{pid}/fd").iterdir()}
    sockets = {name[8:-1] for name in found if name.startswith("socket:[")}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if fields[6] in sockets and len(fields) > 7:
            found.add(fields[7])
    no_place = re.compile(r"(socket|pipe|anon_inode|/dev/null$|/dev/zero|/memfd)")
    return {
        name
        for name in found
        if not name.startswith((str(directory), "./")) and not no_place.match(name)
    }


def segments_of(pids: list[int]) -> list[str]:
    """Shared memory of System V that processes have made."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line for line in lines if int(line.split()[4]) in pids]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_directory_can_be_removed_right_after_a_kill() -> None:
    """Time after time, and while messages are stored: nobody writes in it any more."""
    for _ in range(_ROUNDS):
        store = scratch("jetgate-kill-")
        with DropIn("jetgate-nats-server", "-js", "-sd", str(store), "-p", "-1") as server:
            client = publish_much(server)
            pids = processes_in(store / "jetstream" / "pg")
            assert pids
            server.send(signal.SIGKILL)
            server.end()

            shutil.rmtree(store)

            client.close()
        eventually(lambda pids=pids: not any(map(is_there, pids)))  # type: ignore[misc]
        assert segments_of(pids) == []


def test_postgresql_has_nothing_outside_of_its_directory() -> None:
    """So nothing but the directory is left of it, whatever ends it."""
    store = scratch("jetgate-kill-")
    with DropIn("jetgate-nats-server", "-js", "-sd", str(store), "-p", "-1") as server:
        publish_much(server).close()
        pids = processes_in(store / "jetstream" / "pg")

        assert outside(pids, store) == set()

        [segment] = segments_of(pids)
        mode = int(segment.split()[2], 8)
        assert mode & 0o1000, "the kernel frees it with the last process that has it"
    shutil.rmtree(store)
