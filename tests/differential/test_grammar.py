"""Random configuration files: both servers report the same digest or the same errors for each.

Files consist of random characters, or of random members of blocks. Features that jetgate refuses by
name are not compared.

`python -m tests.differential.test_grammar SEED COUNT` compares more files and shortens those
that differ.
"""

# Subject: configuration

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.config.grammar import GrammarError
from dropin.config.files import included
from dropin.config.options import Options
from dropin.config.reader import Mistakes, read
from tests.differential.configuration_blocks import blocks
from tests.differential.configurations import ENVIRONMENT, INCLUDED, configuration
from tests.differential.test_configuration import lines_of, our_error
from tests.support.natsserver import binary

SEEDS = 800
_BLOCK = 100
_ASKED = 12
"""Number of runs of nats-server before its output counts as different.

It reads maps in a random order, and reports only the first error of some kinds.
"""

_ITS_OWN_FAULT = "runtime error: invalid memory address"


def error_of_reference(server: str) -> str:
    wording = subprocess.run([server, "-t", "-c", "c.conf"], capture_output=True, check=False)
    lines = wording.stderr.decode(errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if _ITS_OWN_FAULT not in line)


def difference(text: str, server: str) -> tuple[str, str] | None:
    """Return both outputs for a file in the working directory; None when they are the same."""
    if is_refused(text):
        return None
    Path("c.conf").write_bytes(text.encode())
    ours = our_error(text)
    for _ in range(_ASKED):
        theirs = error_of_reference(server)
        if lines_of(ours) == lines_of(theirs):
            return None
        if " error on " in theirs or " is valid " in theirs:
            break
    return ours, theirs


def is_refused(text: str) -> bool:
    """Return True if a file uses a feature that jetgate refuses by name."""
    options = Options()
    with contextlib.suppress(GrammarError, Mistakes):
        read(text, "c.conf", options, included, os.environ)
    return bool(options.refusals)


def prepare(directory: Path) -> None:
    os.chdir(directory)
    for name, text in INCLUDED.items():
        Path(name).write_text(text)


@pytest.mark.parametrize(
    ("made", "first"),
    [
        *((configuration, first) for first in range(0, SEEDS, _BLOCK)),
        *((blocks, first) for first in range(0, SEEDS // 2, _BLOCK)),
    ],
)
def test_both_servers_report_the_same_about_random_files(
    made: Callable[[int], str], first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    prepare(tmp_path)
    server = binary()

    for seed in range(first, first + _BLOCK):
        text = made(seed)
        found = difference(text, server)
        assert found is None, f"seed {seed}: {shortest(text, server)!r}\nof {text!r}: {found}"


def shortest(text: str, server: str) -> str:
    """Remove characters while the servers still differ."""
    size = max(len(text) // 2, 1)
    while size:
        at = 0
        while at < len(text):
            fewer = text[:at] + text[at + size :]
            if difference(fewer, server) is None:
                at += size
            else:
                text = fewer
        size //= 2
    return text


def main(first: int, count: int) -> None:
    """Compare files and print those that differ, shortened."""
    server = binary()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as directory:
        prepare(Path(directory))
        for seed in range(first, first + count):
            for made in (configuration, blocks):
                text = made(seed)
                if difference(text, server) is not None:
                    text = shortest(text, server)
                    found = difference(text, server)
                    print(f"seed {seed}: {text!r}", *(found or ()), sep="\n  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
