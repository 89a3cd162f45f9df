"""The code of docs/javascript.md does what the document says."""

# Subject: documents

import os
import re
import subprocess
from pathlib import Path

from tests.support.chromium import Pages, bundled, chromium
from tests.support.dropin import DropIn
from tests.support.jetgate import ROOT
from tests.support.node_packages import node_packages
from tests.support.programs import node

_HERE = Path(__file__).parent
_TEXT = (ROOT / "docs" / "javascript.md").read_text()
_NODE, _PAGE = re.findall(r"```js\n(.*?)```", _TEXT, re.DOTALL)


def test_node(pair: list[DropIn], tmp_path: Path) -> None:
    os.symlink(node_packages() / "node_modules", tmp_path / "node_modules")
    script = tmp_path / "readings.mjs"
    script.write_text(_NODE.replace("nats://127.0.0.1:4222", pair[0].url))
    done = subprocess.run(
        [node(), str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    after = _TEXT.split(_NODE)[1].removeprefix("```\n")
    shown = "".join(re.findall(r"^    (.*\n)", after.split("##")[0], re.MULTILINE))
    assert done.stdout == shown


def test_page(pair: list[DropIn], tmp_path: Path) -> None:
    chromium()
    script = tmp_path / "page.js"
    script.write_text(_PAGE.replace("ws://127.0.0.1:4223", pair[0].ports()["websocket"][0]))
    bundled(_HERE / "browser/bundle.cjs", [script], tmp_path / "out")
    with Pages(_HERE / "browser/page.html", tmp_path / "out") as pages:
        pages.jobs = [{"script": "page"}]
        [job] = pages.run()
    assert f"`{job['text']}`" in _TEXT
    assert job["text"].startswith("greeting")
