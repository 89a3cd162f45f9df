"""The SDKs as their users get them: built from a copy of their sources."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.support.jetgate import ROOT
from tests.support.node_packages import node_packages
from tests.support.programs import node_environment, npm

SOURCE = ROOT / "sdks" / "typescript"
_NOT_COMMITTED = ("node_modules", "dist", "generated", "__pycache__", ".*")


def sources(into: Path) -> Path:
    """Copy the committed files that an SDK is built from; return the copy of `sdks`."""
    shutil.copytree(ROOT / "openapi", into / "openapi")
    ignored = shutil.ignore_patterns(*_NOT_COMMITTED)
    return Path(shutil.copytree(ROOT / "sdks", into / "sdks", ignore=ignored))


def tools() -> Path:
    """Return the directory with `node_modules` that generates and builds the TypeScript SDK."""
    said = json.loads((SOURCE / "package.json").read_text())["devDependencies"]
    return node_packages(tuple(f"{name}@{at}" for name, at in said.items()), name="sdk")


def run_npm(script: str, where: Path) -> None:
    """Run a script of `package.json`. Raises AssertionError if it fails."""
    done = subprocess.run(
        [*npm(), "run", script],
        cwd=where,
        env=node_environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def built(into: Path) -> Path:
    """Generate, check the types and build by `npm run build`; return the module to import."""
    package = sources(into) / "typescript"
    (package / "node_modules").symlink_to(tools() / "node_modules")
    run_npm("build", package)
    return package / "dist" / "index.js"
