"""A hot standby of an embedded PostgreSQL, with control over its replication."""

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

import asyncpg

from core.storage.postgres.embedded.installation import find_installation
from tests.support.eventually import eventually
from tests.support.scratch import scratch


class Standby:
    """A standby of a running PostgreSQL: a base backup with streaming replication.

    A context manager that starts and ends the process. `dsn` is the standby's connection string.

    Args:
        dsn: Connection string of the primary over its Unix socket.
        data: Data directory of the primary; its owner also runs the standby.
    """

    def __init__(self, dsn: str, data: Path) -> None:
        self._primary = parse_qs(urlsplit(dsn).query)["host"][0]
        self._account = data.stat()
        self._programs = find_installation(owner=self._account.st_uid)
        self._dir = scratch("standby-")
        self._data = self._dir / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = dsn.replace(quote(self._primary), quote(str(self._dir)))

    def __enter__(self) -> Self:
        shutil.chown(self._dir, self._account.st_uid, self._account.st_gid)
        for above in Path(self._primary).parents[:2]:  # the standby connects over the file system
            above.chmod(above.stat().st_mode | 0o011)
        self._run(
            "pg_basebackup", "-cfast", "-h", self._primary, "-U", "postgres", "-D", self._data, "-R"
        )
        command = [str(self._programs.binary("postgres")), "-D", str(self._data)]
        settings = {
            "unix_socket_directories": str(self._dir),
            "listen_addresses": "",
            "hot_standby": "on",
            # At least the primary's values, as PostgreSQL requires of a standby.
            "max_connections": "500",
            "max_locks_per_transaction": "256",
            "max_prepared_transactions": "10",
        }
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._dir / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                user=self._account.st_uid,
                group=self._account.st_gid,
                cwd="/",
                stdout=log,
                stderr=log,
            )
        try:
            eventually(self._answers, within=60)
        except AssertionError:
            told = (self._dir / "log").read_text()
            self.__exit__()
            raise AssertionError(f"the standby does not answer: {told}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: it waits for no clients
            self._process.wait(30)
        shutil.rmtree(self._dir, ignore_errors=True)

    def pause(self) -> None:
        """Pause the replay of WAL and wait until it is paused; queries still work."""
        self._execute("select pg_wal_replay_pause()")
        eventually(lambda: self._execute("select pg_get_wal_replay_pause_state()") == "paused")

    def resume(self) -> None:
        """Resume the replay of WAL."""
        self._execute("select pg_wal_replay_resume()")

    def detach(self) -> None:
        """Stop replication from the primary, and wait until the WAL receiver has ended."""
        self._execute("alter system set primary_conninfo = ''")
        self._execute("select pg_reload_conf()")
        eventually(lambda: self._execute("select count(*) from pg_stat_wal_receiver") == 0)

    def promote(self) -> None:
        """Promote the standby to primary."""
        assert self._execute("select pg_promote()")

    def _answers(self) -> bool:
        try:
            return bool(self._execute("select pg_is_in_recovery()"))
        except (OSError, asyncpg.PostgresError):
            return False

    def _execute(self, query: str) -> object:
        async def execute() -> object:
            connection = await asyncpg.connect(self.dsn)
            try:
                return await connection.fetchval(query)
            finally:
                await connection.close()

        return asyncio.run(execute())

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [str(self._programs.binary(program)), *arguments],
            user=self._account.st_uid,
            group=self._account.st_gid,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
