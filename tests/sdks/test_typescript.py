"""The TypeScript SDK in Node and in a real headless Chromium: the same scenarios in both."""

# Subject: SDKs

import json
import re
import subprocess
from pathlib import Path

from tests.sdks.packages import SOURCE
from tests.sdks.pages import passed_in_a_page
from tests.support.programs import node

_HERE = Path(__file__).parent / "typescript"
_NAMES = re.findall(r'^  async "(.+)"\(', (_HERE / "scenarios.mjs").read_text(), re.MULTILINE)


def test_in_node(typescript_sdk: Path, url: str) -> None:
    command = [node(), str(_HERE / "node.mjs"), str(typescript_sdk), url, "NODE"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == _NAMES
    assert len(_NAMES) > 8


def test_in_a_page_of_another_origin(typescript_sdk: Path, tmp_path: Path) -> None:
    assert passed_in_a_page(typescript_sdk, tmp_path, "scenarios") == _NAMES


def test_nothing_is_installed_with_it() -> None:
    package = json.loads((SOURCE / "package.json").read_text())

    assert "dependencies" not in package
    assert package["engines"] == {"node": ">=20"}
