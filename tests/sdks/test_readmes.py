"""The first lines of each README, saved and run, do what they say."""

# Subject: SDKs

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.jetgate import ROOT
from tests.support.programs import node


def first_lines(language: str, url: str) -> str:
    """The program at the beginning of a README, for another address."""
    page = (ROOT / "sdks" / language / "README.md").read_text()
    block = re.search(r"(?:^(?:    .*)?\n)+", page.partition("\n\n")[2], re.MULTILINE)
    assert block is not None
    program = re.sub(r"^    ", "", block.group(), flags=re.MULTILINE)
    assert "http://localhost:8080" in program
    return program.replace("http://localhost:8080", url)


@pytest.fixture(autouse=True)
def nothing_is_left(url: str) -> Iterator[None]:
    """The stream of the lines is new to them, and gone afterwards."""
    yield
    httpx.delete(f"{url}/v1/streams/ORDERS")


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_the_first_lines_work(
    language: str, url: str, typescript_sdk: Path, tmp_path: Path
) -> None:
    program = tmp_path / f"first.{'py' if language == 'python' else 'mjs'}"
    program.write_text(first_lines(language, url))
    if language == "typescript":
        package = tmp_path / "node_modules/jetgate-client"
        shutil.copytree(typescript_sdk.parent, package / "dist")
        shutil.copy(ROOT / "sdks/typescript/package.json", package)
    command = [sys.executable if language == "python" else node(), str(program)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT / "sdks/python")},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() in (
        ["orders.new", "{'id':", "7}", "None"],
        ["orders.new", "{", "id:", "7", "}", "undefined"],
    )
