"""npm packages for Node.js scripts of tests, installed in the cache directory of the user.

Each set of versions is installed once. If the npm registry is unreachable, tests that need missing
packages are skipped; any other failure of the installation fails the test.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.programs import node, node_environment, npm

PACKAGES = (
    "@nats-io/nats-core@3.4.0",
    "@nats-io/transport-node@3.4.0",
    "@nats-io/jetstream@3.4.0",
    "@nats-io/kv@3.4.0",
    "@nats-io/obj@3.4.0",
    "@nats-io/services@3.0.0-25",
    "ws@8.18.3",
)
_SECONDS = 90
_missing: set[str] = set()
"""Skip reasons of the packages that this run failed to install; it does not try them again."""
_UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")


def cache(name: str) -> Path:
    """Return the path of a directory in the user's cache, which later runs reuse.

    The directory may not exist yet.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    return base / "jetgate-tests" / name


def node_packages(packages: tuple[str, ...] = PACKAGES, *, name: str = "clients") -> Path:
    """Return a directory whose `node_modules` has these packages; install them on first use.

    Skips the test if the npm registry is unreachable or Node is missing.
    """
    versions = "-".join(package.rpartition("@")[2] for package in packages)
    where = cache(f"npm-{name}-{versions}")
    enabled = "needs npm's registry, for: npm install " + " ".join(packages)
    node()
    if where.is_dir():
        return where
    if enabled in _missing:
        pytest.skip(enabled)
    where.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=where.parent))
    try:
        _install(fresh, packages, enabled)
        fresh.rename(where)
    except OSError:
        if not where.is_dir():  # otherwise another run was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return where


def _install(where: Path, packages: tuple[str, ...], enabled: str) -> None:
    flags = ["--no-fund", "--no-audit", "--fetch-retries", "1", "--prefix", str(where)]
    try:
        done = subprocess.run(
            [*npm(), "install", *flags, *packages],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=node_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        _missing.add(enabled)
        pytest.skip(enabled)
    if done.returncode and any(sign in done.stderr for sign in _UNREACHABLE):
        _missing.add(enabled)
        pytest.skip(enabled)
    assert done.returncode == 0, done.stderr


def run_node(script: Path, *arguments: str) -> str:
    """Run a Node.js script that may import the packages in `PACKAGES`; return its output.

    Raises AssertionError if its exit code is not 0, TimeoutExpired after 180 seconds.
    """
    where = node_packages()
    done = subprocess.run(
        [node(), str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        env=node_environment(str(where / "node_modules")),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
