"""Transcripts, recorded from the reference server: `python -m tests.wire.record FILE...`

Takes the sent lines, comments and directives of each file, plays them block by block against
nats-server and writes its answers as expected lines. A block ends at an empty line, a change of
connection or a `@use` line. Three dots as an expected line (`< ...`) make the recorder wait for one
frame more than what comes at once, `< ~` keeps only the type of the JSON answers of its block. What
varies from run to run is written as a placeholder; review the result.
"""

import json
import re
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Frame, Silence
from tests.wire.test_configured import start
from tests.wire.transcript import Player, clean, encode, match, parse, plain, show

SETTLE = 1.6  # seconds that `= eventually` gives the server
QUIET = 0.12  # seconds without a frame that end a block

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_GO_TEXT = re.compile(r"invalid JSON: (?!json: unknown field|unknown compression|can not unmarsh)")
_NAME = re.compile(r"[0-9A-Za-z]{8}")  # names that the server made up
_PIN = "Nats-Pin-Id: "
_IDENTITY = re.compile(r"(Nats-Stream-Identity: |Nats-Stream-Source: .* |does not match: )(\w{8})$")
_NUID = re.compile(r"[0-9A-Za-z]{22}")
_ACK = re.compile(r"(\$JS\.ACK(?:\.[^. ]+){5})\.(\d{19})\.")


class Recorder:
    """Plays one file and rewrites its expected lines."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.player = Player(address)
        self.known: dict[str, str] = {}
        self.brief = False

    def record(self, text: str) -> str:
        """Return `text` with the answers of the server in place of its expected lines."""
        out: list[str] = []
        connection, block, waits = "a", [], 0
        for line in [*text.splitlines(), ""]:
            if line.startswith("<"):
                waits += line.strip() == "< ..."
                self.brief = self.brief or line.strip() == "< ~"
                continue
            if line.startswith(">"):
                block.append(line)
                out.append(line)
                continue
            if line.startswith("#"):
                out.append(line)
                continue
            out += self._answers(connection, block, waits)
            block, waits, self.brief = [], 0, False
            if line.startswith("= eventually"):
                threading.Event().wait(SETTLE)
            if line.startswith("@use "):
                self.player.use(line, self.player.wire(connection))
            elif line.startswith("@"):
                connection = line[1:].strip()
            out.append(line)
        return "\n".join(out).rstrip("\n") + "\n"

    def _answers(self, connection: str, block: list[str], waits: int) -> list[str]:
        if not block and not waits:
            return []
        wire = self.player.wire(connection)
        for step in parse("\n".join(block)):
            wire.send(encode(step.lines, self.player.memory))
        out: list[str] = []
        seen = 0
        while True:
            try:
                frame = wire.frame(10.0 if seen < waits else QUIET)
            except Silence:
                return out
            except Closed:
                if connection not in self.player.closed:
                    self.player.closed.add(connection)
                    out.append("< <closed>")
                return out
            seen += 1
            lines = self._lines(frame)
            match(lines, frame, self.player.memory)
            out += ["< " + line if line else "<" for line in lines]

    def _lines(self, frame: Frame) -> list[str]:
        lines = show(frame)
        changed = False
        for i, line in enumerate(lines):
            lines[i] = _TIME.sub(self._time, self._pin(self._ack(self._identity(line))))
        if frame.payload.startswith(b"{"):
            body = self._vary(frame.json())
            if self.brief and "error" not in body:
                body = {"type": body["type"], "...": "<any>"}
            lines[-1] = json.dumps(body, separators=(",", ":"))
            changed = True
        if frame.verb in (b"MSG", b"HMSG") and (changed or lines != show(frame)):
            lines[0] = re.sub(r"\d+$", "<size>", lines[0])
            if frame.verb == b"HMSG":
                lines[0] = re.sub(r"\d+ <size>$", "<hsize> <size>", lines[0])
        return lines

    def _time(self, found: re.Match[str]) -> str:
        return found[0] if found[0].startswith(("0001-", "1970-", "2020-", "2099-")) else "<time>"

    def _ack(self, line: str) -> str:
        def hole(found: re.Match[str]) -> str:
            if found[2] in self.known:
                return f"{found[1]}.<${self.known[found[2]]}>."
            name = self.known[found[2]] = f"t{len(self.known) + 1}"
            return f"{found[1]}.<int:{name}>."

        return _ACK.sub(hole, line)

    def _pin(self, line: str) -> str:
        if not line.startswith(_PIN):
            return line
        pin = line.removeprefix(_PIN)
        if pin in self.known:
            return f"{_PIN}<${self.known[pin]}>"
        name = self.known[pin] = f"p{len(self.known) + 1}"
        return f"{_PIN}<nuid:{name}>"

    def _identity(self, line: str) -> str:
        def hole(found: re.Match[str]) -> str:
            if found[2] in self.known:
                return f"{found[1]}<${self.known[found[2]]}>"
            name = self.known[found[2]] = f"i{len(self.known) + 1}"
            return f"{found[1]}<any:{name}>"

        return _IDENTITY.sub(hole, line)

    def _vary(self, value: Any, name: str = "") -> Any:
        if name == "description" and _GO_TEXT.match(value):
            return "invalid JSON: <any>"
        if name == "description":
            return self._identity(value)
        if name in ("_nats.ver", "leader", "pause_remaining", "server"):
            return "<any>"
        if name in ("id", "pinned_id", "pinned_client_id") and _NUID.fullmatch(str(value)):
            return "<nuid>"
        if name in ("ack_time", "active") or (name in ("id", "rtt") and isinstance(value, int)):
            return "<int>"
        if name == "api" and isinstance(value, dict):
            return {**value, "total": "<int>", "errors": "<int>"}
        if name == "name" and _NAME.fullmatch(value):
            return "<any>"
        if isinstance(value, dict):
            return {key: self._vary(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self._vary(item) for item in value]
        return _TIME.sub(self._time, plain(value)) if isinstance(value, str) else value


def rewrite(path: Path, address: tuple[str, int]) -> None:
    """Record one file in place."""
    recorder = Recorder(address)
    try:
        path.write_text(recorder.record(path.read_text()))
    except Exception as error:
        print(f"{path}: {type(error).__name__}: {error}")
    finally:
        recorder.player.close()


def main(paths: list[str]) -> None:
    """Record each file; those beside a `server.conf` from a server of that configuration."""
    plain = [path for path in map(Path, paths) if not (path.parent / "server.conf").exists()]
    for folder in sorted({path.parent for path in map(Path, paths)} - {p.parent for p in plain}):
        with (
            TemporaryDirectory() as store,
            start("nats-server", folder, Path(store)) as configured,
        ):
            for path in sorted(folder.glob("*.txt")):
                rewrite(path, configured.address)
    with NatsServer() as server:
        for path in plain:
            rewrite(path, server.address)
            clean(server)


if __name__ == "__main__":
    main(sys.argv[1:])
