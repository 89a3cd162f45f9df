"""The generated part of both SDKs: made by their builds, with every operation of the contract."""

# Subject: SDKs

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import generate
import jetgate_client.generated.api

from tests.sdks.packages import SOURCE, sources
from tests.support.jetgate import ROOT
from tests.support.programs import node

REDUCED = generate.reduced(json.loads(generate.CONTRACT.read_bytes()))
OPERATIONS = {
    operation["operationId"]
    for operations in REDUCED["paths"].values()
    for operation in operations.values()
}


def test_python_has_every_operation() -> None:
    api = Path(jetgate_client.generated.api.__path__[0])
    paths = [path for path in api.glob("*/*.py") if path.stem != "__init__"]
    package = jetgate_client.generated.api.__name__
    modules = [import_module(f"{package}.{path.parent.name}.{path.stem}") for path in paths]

    assert {path.stem.replace("_", "") for path in paths} == {name.lower() for name in OPERATIONS}
    assert all(callable(module.asyncio_detailed) for module in modules)
    assert len(OPERATIONS) == len(modules) > 70


def test_typescript_has_every_operation(typescript_sdk: Path) -> None:
    at = (typescript_sdk.parent / "generated/index.js").as_uri()
    names = f"Object.getOwnPropertyNames((await import('{at}')).Operations.prototype)"

    assert sorted(_node(names)) == sorted({"constructor", *OPERATIONS})


def test_both_languages_are_generated_from_the_same_document() -> None:
    at, contract = (SOURCE / "contract.mjs").as_uri(), generate.CONTRACT.as_uri()
    document = f"JSON.parse((await import('node:fs')).readFileSync(new URL('{contract}')))"

    # numbers of JavaScript are floats
    expected = json.loads(json.dumps(REDUCED), parse_int=float)
    assert _node(f"(await import('{at}')).reduced({document})") == expected


def _node(expression: str) -> Any:
    """Evaluate an expression in Node; return its value as JSON."""
    script = f"console.log(JSON.stringify({expression}))"
    command = [node(), "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_int=float)


def test_the_extra_installs_the_generator_of_the_builds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert generate.GENERATOR in project["optional-dependencies"]["dev"]


def test_a_wheel_is_generated_and_an_sdist_needs_no_generator(tmp_path: Path) -> None:
    wheel = _built("wheel", sources(tmp_path / "checkout") / "python", tmp_path)
    archive = _built("sdist", tmp_path / "checkout/sdks/python", tmp_path)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "sdist", filter="data")
    [unpacked] = (tmp_path / "sdist").iterdir()

    files = _files(wheel)
    generated = {name for name in files if name.startswith("jetgate_client/generated/api/")}
    assert len(generated) > len(OPERATIONS)
    assert _files(_built("wheel", unpacked, tmp_path / "again")) == files


def _built(kind: str, project: Path, into: Path) -> Path:
    """Build a distribution by its backend, as pip does."""
    into.mkdir(exist_ok=True)
    script = f"import sys, hatchling.build as build; print(build.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(into)]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return into / done.stdout.split()[-1]


def _files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist() if "RECORD" not in name}
