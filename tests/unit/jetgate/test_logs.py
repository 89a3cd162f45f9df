"""Lines of the log: one for each event, whatever is in it."""

# Subject: configuration, operations

import json
import logging
import sys

from jetgate.logs import JsonLines, TextLines


def record(text: str, *arguments: object, **more: object) -> logging.LogRecord:
    found = logging.LogRecord("core.x", logging.WARNING, "x.py", 1, text, arguments, None)
    found.created = 1_700_000_000.25
    found.__dict__.update(more)
    return found


def failed() -> logging.LogRecord:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        return record("it failed", exc_info=sys.exc_info())


def test_a_text_has_time_and_level() -> None:
    line = TextLines().format(record("%s is %d", "größe", 7))

    assert line == "2023-11-14T22:13:20.250Z WARNING größe is 7"


def test_a_text_is_one_line_that_no_terminal_obeys() -> None:
    assert TextLines().format(record("a\nb\x1b[2J")).endswith("a\\nb\\x1b[2J")
    line = TextLines().format(failed())
    assert "\n" not in line
    assert "it failed\\nTraceback" in line
    assert line.endswith("ValueError: first\\nsecond")


def test_an_event_in_json_has_its_fields() -> None:
    line = JsonLines().format(record('user "%s"', "x\ny", fields={"user": "x\ny", "cid": 3}))

    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "core.x",
        "message": 'user "x\ny"',
        "user": "x\ny",
        "cid": 3,
    }


def test_a_failure_in_json_has_its_traceback() -> None:
    line = JsonLines().format(failed())

    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: first\nsecond")
