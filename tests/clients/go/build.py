"""The official Go client's tests, built with the shim in the place of nats-server."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MODULE = "github.com/nats-io/nats.go"
VERSION = "v1.50.0"
SHIM = Path(__file__).parent / "shim"

# The packages of tests that start a server, as directories of the module.
SUITES = ("jetstream/test", "test", "micro/test")


@dataclass(frozen=True)
class Suite:
    """One package of tests: `binary` is run with its working directory in `source`."""

    name: str
    source: Path
    binary: Path

    def tests(self) -> list[str]:
        """The names of its tests, in the order of the source."""
        listed = subprocess.run(
            [str(self.binary), "-test.list", "^Test"],
            cwd=self.source,
            capture_output=True,
            text=True,
            check=True,
        )
        return [name for name in listed.stdout.split() if name != "TestMain"]


def _go(*arguments: str, cwd: Path) -> str:
    # The module and its tests have modules of their own: a workspace or flags would interfere.
    env = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=mod -buildvcs=false"}
    done = subprocess.run(
        ["go", *arguments], cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def build(work: Path, names: tuple[str, ...]) -> list[Suite]:
    """Download the module into `work`, once, and build its tests with the shim."""
    source = work / VERSION
    if not source.exists():
        downloaded = json.loads(_go("mod", "download", "-json", f"{MODULE}@{VERSION}", cwd=work))
        # What the download leaves is read-only, and shared.
        shutil.copytree(downloaded["Dir"], source, copy_function=shutil.copyfile)
        for place in (source, *(p for p in source.rglob("*") if p.is_dir())):
            place.chmod(0o755)
    replaced = f"github.com/nats-io/nats-server/v2={SHIM}"
    _go("mod", "edit", f"-replace={replaced}", "go_test.mod", cwd=source)
    suites = []
    for name in names:
        binary = work / f"{name.replace('/', '_')}.bin"
        _go("test", "-c", "-modfile=go_test.mod", "-o", str(binary), f"./{name}", cwd=source)
        suites.append(Suite(name, source / name, binary))
    return suites
