"""The worked example of spark/README.md, run as it stands but for addresses and seconds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import spark as support
from tests.support.document_commands import blocks_of
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer

support.require()

RECORDED = ROOT / "tests/e2e/data/dumpavail.txt"
FIRST = 'set -e\ncurl() { command curl -sS -f "$@"; }\n'


@pytest.mark.thorough
def test_the_worked_example_does_what_it_says(tmp_path: Path) -> None:
    page = ROOT / "spark/README.md"
    after = page.read_text().split("## A worked example")[0].count("\n")
    blocks = [
        block
        for block in blocks_of(page, "spark/README.md")
        if int(block.place.rpartition(":")[2]) > after
    ]
    assert len(blocks) == 3
    with JetgateServer() as server:
        url = "nats://{}:{}".format(*server.address)
        # The addresses are told to programs before they are told to people.
        (dsn,) = eventually(lambda: re.findall(r"psql '(postgresql://[^']+)'", server.log(1 << 20)))
        script = FIRST + "\n".join(command for block in blocks for command in block.commands)
        for there, here in {
            "postgresql://postgres@/jetgate?host=...": dsn,
            "http://127.0.0.1:8080": "http://{}:{}".format(*server.http),
            "examples/packages.py": f"examples/packages.py --server {url} --file {RECORDED}",
            "--seconds 120": f"--seconds 12 --server {url}",
            "--svg docs/spark-example.svg": f"--svg {tmp_path}/drawn.svg --lake {tmp_path}/lake",
            "examples/spark/host.yaml": str(_pipelines(tmp_path)),
            "python ": f"{sys.executable} ",
        }.items():
            assert there in script, there
            script = script.replace(there, here)
        done = subprocess.run(
            ["bash"],
            input=script,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=os.environ | support.environment(),
            timeout=300,
            check=False,
        )

    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    assert "transform hosts: done" in done.stdout
    assert "archive lake: done" in done.stdout
    assert '"busy_percent":' in done.stdout
    assert (tmp_path / "drawn.svg").read_text().startswith("<svg")


def _pipelines(place: Path) -> Path:
    """The file of the example, with what it writes elsewhere."""
    file = place / "host.yaml"
    text = (ROOT / "examples/spark/host.yaml").read_text()
    assert ".jetgate/" in text
    file.write_text(text.replace(".jetgate/", f"{place}/"))
    return file
