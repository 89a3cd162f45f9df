"""The programs pg_dump and pg_restore: where they are installed, and how they connect.

The connection parameters are passed as environment variables, because other users of the machine
can read command lines.
"""

import asyncio
import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

from core.errors import OperatorError
from core.runtime.threads import in_thread
from core.storage.postgres.connect import Connector
from core.storage.postgres.dsn import Host
from core.storage.postgres.preflight import VERSIONS

# The directories of Debian and Red Hat for each version, and the wheel that `jetgate dev` runs.
_SYSTEM = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin")
_WHEEL = ("pginstall/bin", "pginstall18/bin")
_PIECE = 1 << 20
_VERSION_TIMEOUT_S = 30
# Overrides settings of the role. The checksums cover bytes, whatever their format in the archive.
_SETTINGS = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c bytea_output=hex"


@contextlib.asynccontextmanager
async def running(
    command: list[str], environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program as a context manager; kill it if it still runs when the context ends.

    Raises OperatorError if the program cannot be started, or if it fails and the body has not
    raised.
    """
    name = Path(command[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            limit=_PIECE,
        )
    except OSError as error:
        raise OperatorError(f"cannot run {command[0]}: {(error.strerror or '').lower()}") from error
    try:
        yield process
        assert process.stderr is not None, "it is a pipe"
        said = (await process.stderr.read()).decode(errors="replace")
        if await process.wait():
            lines = [line for line in said.splitlines() if line.strip()]
            reason = " ".join(lines[:2]).removeprefix(f"{name}: ").removeprefix("error: ")
            raise OperatorError(f"{name} failed: {reason or f'exit code {process.returncode}'}")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.communicate()


async def find_dump(major: int) -> Path:
    """Return the path of pg_dump for a server of a major version, or of the next newer version.

    Raises:
        OperatorError: No such pg_dump is installed; the text names the package to install.
    """
    found = await in_thread(functools.partial(_found, "pg_dump"), name="pg_dump")
    newer = sorted(version for version in found if version >= major)
    if not newer:
        raise OperatorError(_absent("pg_dump", major, found))
    return found[newer[0]]


async def find_restore() -> Path:
    """Return the path of the newest pg_restore that is installed.

    It reads archives of older versions.

    Raises:
        OperatorError: No pg_restore is installed; the text names the package to install.
    """
    found = await in_thread(functools.partial(_found, "pg_restore"), name="pg_restore")
    if not found:
        raise OperatorError(_absent("pg_restore", VERSIONS[-1], found))
    return found[max(found)]


def _absent(name: str, major: int, found: dict[int, Path]) -> str:
    there = ", ".join(f"{path} is {version}" for version, path in sorted(found.items()))
    return (
        f"no {name} of PostgreSQL {major} or newer ({there or 'none on PATH'}):"
        f" install postgresql-client-{major} (Debian) or postgresql{major} (Red Hat)"
    )


@functools.cache
def _found(name: str) -> dict[int, Path]:
    """Return the installed programs with a name, by major version; one on PATH precedes others."""
    found: dict[int, Path] = {}
    for path in _places(name):
        version = _major(path)
        if version is not None:
            found.setdefault(version, path)
    return found


def _places(name: str) -> Iterator[Path]:
    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)
    for form in _SYSTEM:
        yield from (Path(form.format(major), name) for major in VERSIONS)
    from core.storage.postgres.embedded.installation import PACKAGE  # not for every command

    spec = find_spec(PACKAGE)
    for root in (spec and spec.submodule_search_locations) or ():
        yield from (Path(root, directory, name) for directory in _WHEEL)


def _major(path: Path) -> int | None:
    if not path.exists():
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(version[1]) if version is not None else None


def environment(connector: Connector, host: Host) -> dict[str, str]:
    """Return environment variables (PGHOST and others) for pg_dump to connect to `host`.

    They have the same parameters as sessions of `connector`. The variables of this process are
    included, except its own PG variables.

    Raises:
        OperatorError: The TLS key has a password, for which libpq has no environment variable.
    """
    parts, tls = connector.parts, connector.parts.tls
    if tls.key_password:
        raise OperatorError("sslpassword cannot be given to pg_dump: use a key without a password")
    ours = {
        "PGHOST": host.target,
        "PGPORT": str(host.port),
        "PGUSER": parts.user,
        "PGDATABASE": parts.database,
        "PGPASSWORD": parts.password(host),
        "PGAPPNAME": f"{parts.application_name} backup",
        "PGOPTIONS": f"{parts.settings.get('options', '')} {_SETTINGS}".strip(),
        "PGCONNECT_TIMEOUT": "10",
        "PGSSLMODE": tls.mode,
        "PGSSLNEGOTIATION": "direct" if tls.is_direct else "",
        "PGSSLROOTCERT": tls.rootcert,
        "PGSSLCERT": tls.cert,
        "PGSSLKEY": tls.key,
        "PGSSLCRL": tls.crl,
        "PGSSLCERTMODE": "" if tls.sends_cert else "disable",
        "PGSSLMINPROTOCOLVERSION": tls.least,
        "PGSSLMAXPROTOCOLVERSION": tls.most,
        "PGKRBSRVNAME": parts.krbsrvname,
        "PGGSSLIB": parts.gsslib,
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {name: value for name, value in ours.items() if value}
