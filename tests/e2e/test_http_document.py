"""The lines of docs/http.md, pasted into a shell one block after the other, do what they say."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT, JetgateServer

BLOCKS = [
    re.sub(r"^    ", "", block, flags=re.MULTILINE)
    for block in re.findall(
        r"(?:^    .*\n)+", (ROOT / "docs" / "http.md").read_text(), re.MULTILINE
    )
    if "curl" in block
]
# Whoever pastes sees an error; a script is told of it by an exit code.
FIRST = 'set -e -o pipefail\ncurl() { command curl -sS -f "$@"; }\n'


def test_every_line_does_what_it_says(jetgate_server: JetgateServer, tmp_path: Path) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not there: the lines cannot be pasted")
    host, port = jetgate_server.http
    script = FIRST + "".join(BLOCKS).replace("localhost:8080", f"{host}:{port}")

    pasted = subprocess.run(
        ["bash"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )

    assert pasted.returncode == 0, (pasted.stdout[-2000:], pasted.stderr)
    assert '{"succeeded":1,"failed":[]}' in pasted.stdout
    assert len(BLOCKS) > 8
