"""Lines of the log of `jetgate-nats-server`: one for each event, whatever clients name in it."""

# Subject: configuration, operations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin import server_log
from dropin.config.options import Options
from dropin.server_log import TRACE, Lines

_TIME = re.compile(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (.*)\n")


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """The file that everything is logged to, traces included."""
    root, found = logging.getLogger(), tmp_path / "log"
    before, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    quiet = {name: logging.getLogger(name).level for name in server_log._QUIET}
    root.handlers[:] = []
    server_log.configure(Options(log_file=str(found), trace=True))
    yield found
    for handler in root.handlers:
        handler.close()
    root.handlers[:], logging.raiseExceptions = before, raises
    root.setLevel(level)
    for name, was in quiet.items():
        logging.getLogger(name).setLevel(was)


def _lines(log_file: Path) -> list[str]:
    """The lines without process and time. `splitlines` ends them at more characters than a file."""
    text = log_file.read_text()
    assert text.splitlines() == text.split("\n")[:-1]
    return [match[1] for match in map(_TIME.fullmatch, text.splitlines(keepends=True)) if match]


def test_names_from_clients_forge_no_line(log_file: Path) -> None:
    forged = "x\n[1] 2026/01/02 15:04:05.000000 [INF] all is well\r\x1b[2J\u2028\x85\u202e\ud800"
    logging.getLogger("core.route.link").info("Route from %s", forged)
    logging.getLogger("core.x").log(TRACE, "%s", forged)
    try:
        raise ValueError(forged)
    except ValueError:
        logging.getLogger("core.y").exception("it failed")

    first, second, third = _lines(log_file)
    shown = r"x\n[1] 2026/01/02 15:04:05.000000 [INF] all is well\r\x1b[2J\u2028\x85\u202e\ud800"
    assert first == f"[INF] Route from {shown}"
    assert second == f"[TRC] {shown}"
    assert third.startswith(r"[ERR] it failed\nTraceback")
    assert third.endswith(f"ValueError: {shown}")


@pytest.mark.parametrize("text", ["größe", 'a "b" \\ c', "路 🚀", r"\n", "a  b"])
def test_printable_text_stays(text: str) -> None:
    record = logging.LogRecord("core.x", logging.INFO, "x.py", 1, text, (), None)

    assert Lines(with_time=False, in_utc=False).format(record) == f"[{os.getpid()}] [INF] {text}"


def test_every_character_that_ends_a_line_somewhere_is_escaped() -> None:
    lines = Lines(with_time=False, in_utc=False)
    for char in map(chr, range(0x3000)):
        if len(f"a{char}b".splitlines()) > 1 or ord(char) < 32 or 127 <= ord(char) < 160:
            record = logging.LogRecord("x", logging.INFO, "x.py", 1, f"a{char}b", (), None)
            assert lines.format(record).isascii(), hex(ord(char))
