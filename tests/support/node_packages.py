"""Packages of Node that tests run scripts with, in a directory of the user's cache."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = ("@nats-io/nats-core@3.4.0", "ws@8.18.3")
_SECONDS = 90


def directory() -> Path:
    """Where the packages are; the name changes with their versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    name = "-".join(package.replace("/", "-").strip("@") for package in PACKAGES)
    return cache / "jetgate-tests" / f"npm-{name}"


def node_packages() -> Path:
    """Return the directory, filled once; skips the test where Node or the packages are not had."""
    where = directory()
    command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(where), *PACKAGES]
    enabled = "needs Node 20 with npm, and once: " + " ".join(command)
    if shutil.which("node") is None:
        pytest.skip(enabled)
    if not (where / "node_modules" / "ws").is_dir():
        if shutil.which("npm") is None:
            pytest.skip(enabled)
        where.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
        except (subprocess.SubprocessError, OSError):
            pytest.skip(enabled)
    return where


def run_node(script: Path, *arguments: str) -> str:
    """Run a script with the packages; return what it printed. Raises AssertionError."""
    where = node_packages()
    done = subprocess.run(
        ["node", str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NODE_PATH": str(where / "node_modules")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
