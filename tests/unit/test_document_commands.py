"""Every command that a document promises is run by a test, or marked as one that cannot be.

A mark is a comment above the block, `<!-- not run: REASON -->`. What is marked is checked at least
for the programs, flags and files that it names.
"""

# Subject: documents

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import typer
from pyspark_jetstream.command import _parser
from typer.testing import CliRunner

from dropin.config.flags import parse_flags
from jetgate import serve
from jetgate.commands import command_line
from jetgate.config import Config
from tests.support.document_commands import CommandBlock, blocks_of
from tests.support.jetgate import ROOT

OPERATIONS = "tests/e2e/test_day.py"
PAGES = "docs/operations"
HTTP = "tests/e2e/test_http_document.py"
RUN: dict[str, tuple[str, str]] = {
    "CONTRIBUTING.md pip": (".ci/run", ""),
    "README.md pip": (".ci/run", ""),
    "README.md pytest": (".ci/run", ""),
    "README.md python": ("tests/e2e/test_examples.py", "test_the_orders_of_the_readme"),
    "docs/examples.md python examples/packages": ("tests/e2e/test_examples.py", "packages"),
    "docs/examples.md python examples/host_metrics": ("tests/e2e/test_examples.py", "host_metrics"),
    "docs/examples.md curl": ("tests/e2e/test_examples.py", "last_by=deb.editors.vim"),
    "docs/features/batches.md curl": ("tests/e2e/test_batches_document.py", "batches.md"),
    "docs/features/counters.md curl": ("tests/e2e/test_counters_document.py", "counters.md"),
    "docs/features/counters.md printf": ("tests/e2e/test_counters_document.py", "counters.md"),
    "docs/http.md": (HTTP, "http.md"),
    "docs/kv.md": (HTTP, "kv.md"),
    "docs/objects.md": (HTTP, "objects.md"),
    PAGES: (OPERATIONS, "quickstart.md"),
    "docs/features/schedules.md curl": ("tests/e2e/test_schedules_document.py", "schedules.md"),
    "docs/http-auth.md curl": (HTTP, "http-auth.md"),
}
"""Which test runs the blocks of a document, or those that begin with a program, and a word of it.

The tests of whole pages take every block with a `curl` in it, or every line behind `$ `.
"""

_FOLDERS = (
    "*.md",
    "docs/**/*.md",
    "deploy/**/*.md",
    "sdks/*/*.md",
    "spark/*.md",
    "examples/**/*.md",
)
DOCUMENTS = [
    *sorted(path for folder in _FOLDERS for path in ROOT.glob(folder)),
    ROOT / "tests/README.md",
    ROOT / "tests/histories/README.md",
]


def _blocks() -> Iterator[CommandBlock]:
    for path in DOCUMENTS:
        yield from blocks_of(path, str(path.relative_to(ROOT)))


BLOCKS = list(_blocks())
CLI = typer.main.get_command(command_line())


def _run_by(block: CommandBlock) -> tuple[str, str] | None:
    document = block.place.rpartition(":")[0]
    for key, test in RUN.items():
        page, _, beginning = key.partition(" ")
        is_page = document == page or (page == PAGES and document.startswith(PAGES))
        if is_page and block.commands[0].startswith(beginning):
            return test
    return None


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_every_block_is_run_or_marked_as_not_run(block: CommandBlock) -> None:
    test = _run_by(block)

    assert test or block.reason, f"{block.place}: no test runs {block.commands[0]!r}"
    if test is not None and block.place.startswith(("docs/http", "docs/kv", "docs/obj")):
        assert any("curl" in command for command in block.commands), block.place


def test_commands_are_run_by_tests_that_exist() -> None:
    for test, word in RUN.values():
        if (ROOT / test).exists():  # the gate is no part of a distribution
            assert word in (ROOT / test).read_text(), test
        else:
            assert test == ".ci/run"
    used = {_run_by(block) for block in BLOCKS}
    assert set(RUN.values()) <= used
    assert len(BLOCKS) > 120


@pytest.mark.parametrize(
    ("place", "command"),
    [(block.place, each) for block in BLOCKS for each in block.commands],
    ids=lambda text: str(text)[:40],
)
def test_every_command_names_what_there_is(place: str, command: str) -> None:
    words = _words(command)
    if words[:1] == ["jetgate"]:
        _parse(CLI, words[1:])
    elif words[:1] == ["jetgate-nats-server"]:
        parse_flags(words[1:])
    elif words[:3] == ["python", "-m", "pyspark_jetstream"]:
        _parser().parse_args(words[3:])
    elif words[:2] == ["python", "-m"]:
        assert find_spec(words[2]) is not None, place
    elif words[:1] == ["python"]:
        assert (ROOT / words[1]).is_file() or words[1] == "-", place
    elif words[:1] == ["pytest"]:
        paths = [word.partition("::")[0] for word in words[1:] if word.startswith("tests")]
        assert all((ROOT / path).exists() for path in paths), place
    elif words[:2] == ["pip", "install"]:
        paths = [word.partition("[")[0] for word in words[2:] if word.startswith(".")]
        assert all((ROOT / path / "pyproject.toml").is_file() for path in paths), place


@pytest.mark.parametrize(
    "command",
    [each for block in BLOCKS for each in block.commands if each.startswith("jetgate dev")],
)
def test_every_server_of_ones_own_can_be_configured_so(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Config] = []
    monkeypatch.setattr(serve, "_serve", lambda _context, _logs, make: made.append(make()))

    done = CliRunner().invoke(command_line(), _words(command)[1:])

    assert (done.exit_code, len(made)) == (0, 1), done.output


def _words(command: str) -> list[str]:
    """The words of a command, up to a pipe, a redirection, `&`, `;` or a comment."""
    text = re.sub(r"\$\([^)]*\)", "X", command.replace("\\\n", " "))
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # a quotation of several lines
        return text.split()[:1]
    end = next((at for at, word in enumerate(words) if set(word) <= set("|&;<>")), len(words))
    return [word for word in words[:end] if not re.fullmatch(r"[A-Z_]+=.*", word)]


def _parse(command: Any, words: list[str]) -> None:
    """Read a command line of jetgate without running it. Raises a UsageError."""
    context = typer.Context(command, info_name="jetgate")
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name, *words = words
        command = command.get_command(context, name)
        assert command is not None, name
    command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("words", [["dev", "--no-such-flag"], ["reader", "nothing"], ["nothing"]])
def test_a_command_that_is_not_there_is_noticed(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"No such option|nothing"):
        _parse(CLI, words)
