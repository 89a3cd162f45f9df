"""`kill -9` of a server with JetStream, as scripts do it: its directory goes at once."""

# Subject: crashes

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from core.storage.postgres.embedded.directory import processes_in
from core.storage.postgres.embedded.template import DATABASE, SUPERUSER
from tests.e2e.kills import MOMENTS, is_there, kill_once, publish_much
from tests.support.dropin import DropIn
from tests.support.eventually import eventually, observed
from tests.support.scratch import scratch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

_ROUNDS = 10
_BUSY_TICKS = 5
_EXITING = 0x4  # PF_EXITING of the kernel: the signal is taken, memory is still being given back
_SESSIONS = 5  # of the server, and more works in the background
_YOUNG_S = 3.0  # within which a session that was forked has signed in, and is bound


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


@pytest.mark.thorough
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


def test_nothing_of_postgresql_outlives_the_server() -> None:
    """Once the server can be waited for, each process is dead or about to be: no luck is needed."""
    store = scratch("jetgate-kill-")
    with DropIn("jetgate-nats-server", "-js", "-sd", str(store), "-p", "-1") as server:
        client = publish_much(server)
        data = store / "jetstream" / "pg"
        pids = eventually(lambda: settled(data), within=60)
        server.send(signal.SIGKILL)
        server.end()

        assert [pid for pid in pids if is_there(pid) and not is_being_killed(pid)] == []

        client.close()
    shutil.rmtree(store)


def settled(data: Path) -> list[int]:
    """All processes that are bound, once those of the start are."""
    pids = [pid for pid in processes_in(data) if is_bound(pid)]
    return pids if len(pids) > _SESSIONS else []


def is_bound(pid: int) -> bool:
    """All processes are but the guard, workers of autovacuum, and sessions that are just coming."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
        age = age_of(pid)
    except OSError:  # it has just ended
        return False
    return age > _YOUNG_S and b"launcher.py" not in title and b"autovacuum worker" not in title


def age_of(pid: int) -> float:
    """Seconds since a process was forked."""
    began = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")


def is_being_killed(pid: int) -> bool:
    """Whether SIGKILL waits for a process, which it can do nothing more before, or is ending it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        flags = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6])
    except OSError:
        return True
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(flags & _EXITING) or any(
        int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending
    )


def test_a_kill_ends_what_postgresql_is_busy_with() -> None:
    """A query, or vacuum, would go on without its postmaster until it next waits."""
    store = scratch("jetgate-kill-")
    with DropIn("jetgate-nats-server", "-js", "-sd", str(store), "-p", "-1") as server:
        publish_much(server).close()
        asyncio.run(kill_while_busy(server, store / "jetstream" / "pg"))
    shutil.rmtree(store)


async def kill_while_busy(server: DropIn, data: Path) -> None:
    """Kill a server while one of PostgreSQL's sessions counts, and see that session end."""
    session = await asyncpg.connect(host=str(data), user=SUPERUSER, database=DATABASE)
    backend = session.get_server_pid()
    # In the select list the series is made row by row, and takes no space.
    query = "select count(n) from (select generate_series(1, 1e9) n) endless"
    counting = asyncio.create_task(session.execute(query))
    await observed(lambda: ticks_of(backend) > _BUSY_TICKS)
    server.send(signal.SIGKILL)
    server.end()

    await observed(lambda: not is_there(backend))
    with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
        await counting


def ticks_of(pid: int) -> int:
    """Time on the processor, in ticks of 10 ms."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_nothing(moment: str) -> None:
    """`python -m tests.e2e.kills` does this a thousand times."""
    kill = kill_once(moment, watched=False)

    assert (kill.failure, kill.processes, kill.temporary) == ("", [], [])


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
