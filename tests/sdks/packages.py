"""The TypeScript SDK as its users get it: built by the compiler that its package names."""

import json
import subprocess
from pathlib import Path

from tests.support.jetgate import ROOT
from tests.support.node_packages import node_packages
from tests.support.programs import node

SOURCE = ROOT / "sdks" / "typescript"


def tools() -> Path:
    """The directory with `node_modules` of what the SDK is generated and built by."""
    said = json.loads((SOURCE / "package.json").read_text())["devDependencies"]
    return node_packages(tuple(f"{name}@{at}" for name, at in said.items()), name="sdk")


def built(into: Path) -> Path:
    """Check the types and build; return the module to import. Raises AssertionError."""
    compiler = tools() / "node_modules/typescript/bin/tsc"
    command = [node(), str(compiler), "--project", str(SOURCE), "--outDir", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout
    return into / "index.js"
