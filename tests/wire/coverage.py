"""What the transcripts show: subjects, errors, statuses, headers, acknowledgements, advisories.

`coverage.toml` lists what they must show, and with a reason what no transcript can.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.model.api_errors import TABLE as API_ERRORS
from tests.wire.transcript import Step, parse

HERE = Path(__file__).parent
TABLE = HERE / "coverage.toml"
FOLDERS = (HERE / "data", HERE / "configured")

KINDS = (
    "api subjects",
    "error codes",
    "statuses",
    "protocol errors",
    "acknowledgements",
    "headers in",
    "headers out",
    "advisories",
)

_API = re.compile(r"\$JS\.(?:\w+\.)?API\.")
_STATUS = re.compile(r"NATS/1\.0 (\d{3}.*)")
_QUOTED = re.compile(r'"[^"]*"')
_ACK = re.compile(r"\$JS\.ACK\.")

Shown = dict[str, dict[str, Path]]
"""Kind, then item, then one transcript that shows it."""


def table() -> dict[str, Any]:
    """The checked-in list: for each kind `required` (a list) and `exempt` (item to reason)."""
    return tomllib.loads(TABLE.read_text())


def required(kind: str) -> set[str]:
    """What must be shown. Error codes are all there are, but for the exempt ones."""
    row = table()[kind]
    if kind == "error codes":
        return {str(row.err_code) for row in API_ERRORS.values()} - set(row["exempt"])
    return set(row["required"])


def transcripts() -> list[Path]:
    """Every transcript, of servers with and without a configuration."""
    return sorted(path for folder in FOLDERS for path in folder.rglob("*.txt"))


def shown(paths: Iterable[Path]) -> Shown:
    """Collect what these transcripts show."""
    found: Shown = defaultdict(dict)
    for path in paths:
        for step in parse(path.read_text()):
            collect = {"send": _sent, "expect": _expected}.get(step.kind)
            for kind, item in collect(step) if collect else ():
                found[kind].setdefault(item, path)
    return found


def _sent(step: Step) -> Iterable[tuple[str, str]]:
    fields = step.lines[0].split()
    if not fields or fields[0].upper() not in ("PUB", "HPUB") or len(fields) < 2:
        return
    subject = fields[1]
    headers, payload = _split(step)
    if _API.match(subject):
        yield "api subjects", _shape(_API.sub("", subject, count=1))
    if _ACK.match(subject) or subject.startswith("<$"):
        yield "acknowledgements", _ack(payload)
    for line in headers:
        yield "headers in", line.partition(":")[0]


def _expected(step: Step) -> Iterable[tuple[str, str]]:
    head = step.lines[0]
    if head.startswith("-ERR"):
        yield "protocol errors", _QUOTED.sub('"…"', head.removeprefix("-ERR ").strip("'"))
    if not head.startswith(("MSG", "HMSG")):
        return
    headers, payload = _split(step)
    for line in headers:
        if status := _STATUS.match(line):
            yield "statuses", status[1]
        elif ":" in line:
            yield "headers out", line.partition(":")[0]
    for code in re.findall(r'"err_code":\s*(\d+)', payload):
        yield "error codes", code
    if kind := re.search(r'"type":\s*"io\.nats\.jetstream\.((?:advisory|metric)[^"]+)"', payload):
        yield "advisories", kind[1]


def _split(step: Step) -> tuple[list[str], str]:
    """Header lines (status line first, if there is one) and payload of a frame."""
    if not step.lines[0].upper().startswith("H"):
        return [], "\n".join(step.lines[1:])
    blank = next((i for i, line in enumerate(step.lines) if i and not line.strip()), 1)
    lines = step.lines[1:blank]
    return [line for line in lines if line != "NATS/1.0"], "\n".join(step.lines[blank + 1 :])


def _shape(subject: str) -> str:
    """A request's subject without its names: `STREAM.INFO.*`."""
    for verb in sorted(VERBS, key=len, reverse=True):
        if subject == verb or subject.startswith(verb + "."):
            rest = subject.removeprefix(verb).count(".")
            return verb + ".*" * min(rest, 3) if verb in ("CONSUMER.CREATE", "DIRECT.GET") else verb
    return subject


def _ack(payload: str) -> str:
    """The kind of an acknowledgement: `-NAK {}`, `-NAK 1s`, `+NXT 5`, `+TERM why`."""
    word, _, rest = payload.partition(" ")
    if not rest:
        return word
    if rest.startswith("{"):
        return f"{word} {{…}}"
    return f"{word} …"


VERBS = (
    "INFO", "STREAM.CREATE", "STREAM.UPDATE", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO",
    "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT",
    "STREAM.RESTORE", "STREAM.LEADER.STEPDOWN", "STREAM.PEER.REMOVE", "STREAM.PEER.EVACUATE",
    "STREAM.CANCEL_MOVE", "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.NAMES",
    "CONSUMER.LIST", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.PAUSE", "CONSUMER.UNPIN",
    "CONSUMER.RESET", "CONSUMER.MSG.NEXT", "CONSUMER.LEADER.STEPDOWN", "CONSUMER.PEER.REMOVE",
    "CONSUMER.PEER.EVACUATE", "DIRECT.GET", "META.LEADER.STEPDOWN", "META.RESCUE",
    "SERVER.REMOVE", "SERVER.EVACUATE", "ACCOUNT.PURGE", "ACCOUNT.STREAM.MOVE",
    "ACCOUNT.STREAM.CANCEL_MOVE",
)  # fmt: skip
