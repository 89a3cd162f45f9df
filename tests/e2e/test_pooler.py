"""A real PgBouncer between `jetgate serve` and PostgreSQL: refused, with the reason."""

# Subject: schema

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from core.storage.postgres.embedded.installation import find_account
from tests.support.eventually import eventually
from tests.support.http_proxies import listens
from tests.support.jetgate import ROOT
from tests.support.pg import PostgresServer
from tests.support.ports import free_port

# Where it is for root only, the search path of others may not have it.
PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
IGNORED = (
    "extra_float_digits,search_path,jit,timezone,tcp_keepalives_idle,tcp_keepalives_interval,"
    "tcp_keepalives_count,tcp_user_timeout,statement_timeout,application_name,lock_timeout,"
    "idle_session_timeout,idle_in_transaction_session_timeout,default_transaction_isolation"
)


@contextlib.contextmanager
def pgbouncer(dsn: str, mode: str, ignored: str) -> Iterator[str]:
    """PgBouncer before a database; its connection string."""
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not here (apt-get install pgbouncer)")
    parts = urlsplit(dsn)
    port = free_port()
    account = find_account()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as place:
        if account.switch:
            os.chown(place, account.uid, account.gid)
        config = Path(place) / "pgbouncer.ini"
        config.write_text(
            "[databases]\n"
            f"pooled = host={parse_qs(parts.query)['host'][0]} dbname={parts.path[1:]}"
            " user=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {mode}\nignore_startup_parameters = {ignored}\n"
        )
        config.chmod(0o644)
        process = subprocess.Popen(
            [PGBOUNCER, str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.uid if account.switch else None,
            group=account.gid if account.switch else None,
            extra_groups=[] if account.switch else None,
        )
        try:
            eventually(lambda: listens(port))
            yield f"postgresql://postgres@127.0.0.1:{port}/pooled"
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.parametrize(
    ("command", "mode", "ignored"),
    [
        ("serve", "transaction", "extra_float_digits"),
        ("serve", "transaction", IGNORED),
        ("serve", "statement", IGNORED),
        ("serve", "session", IGNORED),
        ("migrate", "transaction", IGNORED),
    ],
)
def test_a_pooler_is_refused_in_one_line(
    durable: PostgresServer, command: str, mode: str, ignored: str
) -> None:
    database = durable.fresh_database(migrated=False)
    durable.dir.chmod(0o755)  # the socket is in the data directory, which PgBouncer has to reach
    with pgbouncer(database, mode, ignored) as dsn:
        ports = ["--nats-port", "0", "--http-port", "0"] if command == "serve" else []
        ended = subprocess.run(
            [sys.executable, "-m", "jetgate", command, "--dsn", dsn, *ports],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
            check=False,
        )

    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("jetgate: PostgreSQL at 127.0.0.1:")
    assert "a connection pooler is in between (PgBouncer or alike)" in line
    assert "expected a direct connection" in line
