"""Transcripts: files of sent and expected lines, one behaviour each, played against a server.

    # a comment; the first ones say what the file shows
    @a                                the lines below belong to connection a (opened at first use)
    > PUB s.a r.1 <size>              sent; <size> and <hsize> are computed from what follows
    > hello                           its payload (a header block for HPUB ends with an empty line)
    < MSG r.1 1 <int>                 expected next on this connection
    < {"stream":"S","seq":1}          its payload; JSON is compared as JSON
    @use stream S {"max_msgs":1}      creates stream S with subjects s.> and these members, if any

`@use` is for a stream whose creation the file does not show: another connection sends the request,
after the connection in use has nothing more to say.

Placeholders in expected lines and JSON strings: `<any>`, `<int>`, `<time>`, `<nuid>`, `<size>`;
`<int:x>` also remembers the value as x, `<$x>` is the remembered value, in sent lines too.
In JSON, the member `"...": "<any>"` allows members that are not listed.
In sent lines `<repeat a 10>` is ten times the letter a and `<hex 0d0a>` are these bytes.
`< <closed>` expects the end of the connection. `= eventually` plays the lines up to the next empty
line again until they match. At the end of a file each connection must have nothing more to say.

`= hurried` says that time plays a part which no machine may be late for: something must be asked
before it expires, or comes again. Such a file is played up to TRIES times, see `play_file`.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.support.eventually import eventually
from tests.support.typed import problems
from tests.support.wire import Closed, Frame, Silence, Wire

TRIES = 3
_TIME_LIMIT = 30.0  # seconds that `= eventually` may take

_PLACEHOLDER = re.compile(r"<(any|int|time|nuid|size|hsize)(?::(\w+))?>|<\$(\w+)>")
_FORMS = {
    "any": r".*?",
    "int": r"-?\d+",
    "size": r"\d+",
    "hsize": r"\d+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z",
    "nuid": r"[0-9A-Za-z]{22}",
}
_UNSEEN = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff]+")
_RUN = re.compile(r"([^<>])\1{99,}")
_PUBLISH = re.compile(r"^H?PUB\s", re.IGNORECASE)


class Mismatch(AssertionError):
    """The server said something else than the transcript."""


@dataclass(slots=True)
class Step:
    """One sent or expected frame, or a directive, with the line of the file it starts at."""

    kind: str  # "send", "expect", "use", "eventually", "hurried", "end"
    number: int
    connection: str
    lines: list[str] = field(default_factory=list)


def parse(text: str) -> list[Step]:
    """Cut a transcript into steps. Raises ValueError for a line that has no meaning."""
    steps: list[Step] = []
    connection, open_step = "a", None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            if steps and steps[-1].kind == "eventually":
                raise ValueError(f"line {number}: there is nothing to play again")
            if steps and steps[-1].kind != "end":
                steps.append(Step("end", number, connection))
            open_step = None
        elif line.startswith("#"):
            continue
        elif line.startswith("@use "):
            stream_config(line)
            steps.append(Step("use", number, connection, [line]))
            open_step = None
        elif line.startswith("@"):
            connection, open_step = line[1:].strip(), None
        elif line in ("= eventually", "= hurried"):
            steps.append(Step(line[2:], number, connection))
            open_step = None
        elif line[0] in "<>" and (len(line) == 1 or line[1] == " "):
            kind = "send" if line[0] == ">" else "expect"
            if open_step is None or open_step.kind != kind or not _wants_more(open_step):
                open_step = Step(kind, number, connection)
                steps.append(open_step)
            open_step.lines.append(line[2:])
        else:
            raise ValueError(f"line {number} is neither sent, expected, comment nor directive")
    return steps


def stream_config(line: str) -> dict[str, Any]:
    """Return the configuration in a line such as `@use stream S {"max_msgs":1}`.

    The subjects are the name in lower case followed by `.>`. Raises ValueError for any other line.
    """
    found = re.fullmatch(r"@use stream (\w+)(?: (\{.*\}))?", line)
    if found is None:
        raise ValueError(f"not a stream to use: {line}")
    name, members = found.groups()
    return {"name": name, "subjects": [f"{name.lower()}.>"], **json.loads(members or "{}")}


def _wants_more(step: Step) -> bool:
    """Whether the frame that `step` begins goes on in the next line."""
    verb = step.lines[0].split(" ")[0].upper()
    if verb in ("HPUB", "HMSG"):
        blank = next((i for i, line in enumerate(step.lines) if i and not line.strip()), 0)
        return not blank or len(step.lines) == blank + 1
    return verb in ("PUB", "MSG") and len(step.lines) == 1


def encode(lines: list[str], memory: dict[str, str]) -> bytes:
    """The bytes of a sent frame: sizes computed, macros and remembered values filled in."""
    parts = [_macros(line, memory) for line in lines]
    if not _PUBLISH.match(lines[0]):
        return b"".join(part + b"\r\n" for part in parts)
    headers = b""
    if lines[0].upper().startswith("HPUB"):
        blank = next(i for i, line in enumerate(lines) if i and not line.strip())
        headers = b"".join(part + b"\r\n" for part in parts[1:blank]) + b"\r\n"
        payload = b"\r\n".join(parts[blank + 1 :])
    else:
        payload = b"\r\n".join(parts[1:])
    total = len(headers) + len(payload)
    head = parts[0].replace(b"<hsize>", b"%d" % len(headers)).replace(b"<size>", b"%d" % total)
    return head + b"\r\n" + headers + payload + b"\r\n"


def _macros(line: str, memory: dict[str, str]) -> bytes:
    line = re.sub(r"<\$(\w+)>", lambda m: memory[m[1]], line)
    line = re.sub(r"<repeat (\S+) (\d+)>", lambda m: m[1] * int(m[2]), line)
    pieces = re.split(r"<hex ([0-9a-f]+)>", line)
    return b"".join(
        bytes.fromhex(piece) if i % 2 else piece.encode() for i, piece in enumerate(pieces)
    )


def match(expected: list[str], frame: Frame, memory: dict[str, str]) -> None:
    """Compare one frame with the lines expected. Raises Mismatch with both."""
    bound = dict(memory)
    shown = show(frame)
    if expected[0].startswith("INFO {") and frame.verb == b"INFO":
        ok = match_json(json.loads(expected[0][5:]), json.loads(frame.line[5:]), bound)
    else:
        ok = _match_text(expected[0], shown[0], bound)
    if frame.verb in (b"MSG", b"HMSG"):
        ok = ok and len(expected) > 1 and _match_body(expected, frame, bound)
    if not ok:
        raise Mismatch("expected:\n< " + "\n< ".join(expected) + "\ngot:\n< " + "\n< ".join(shown))
    memory.update(bound)


def _match_body(expected: list[str], frame: Frame, bound: dict[str, str]) -> bool:
    head = show(frame)[1:-1]
    if len(expected) < len(head) + 1:
        return False
    for wanted, got in zip(expected[1 : 1 + len(head)], head, strict=True):
        if not _match_text(wanted, got, bound):
            return False
    wanted = "\n".join(expected[1 + len(head) :])
    if wanted.startswith("{"):
        try:
            return match_json(json.loads(wanted), json.loads(frame.payload), bound)
        except ValueError:
            return False
    return _match_text(wanted, plain(frame.payload), bound)


def _match_text(wanted: str, got: str, bound: dict[str, str]) -> bool:
    pattern, names, at = "", [], 0
    for hole in _PLACEHOLDER.finditer(wanted):
        pattern += re.escape(wanted[at : hole.start()])
        at = hole.end()
        kind, name, back = hole.groups()
        if back:
            pattern += re.escape(bound.get(back, "<unbound>"))
        else:
            pattern += f"({_FORMS[kind]})"
            names.append(name)
    found = re.fullmatch(pattern + re.escape(wanted[at:]), got, re.DOTALL)
    if found is None:
        return False
    for name, value in zip(names, found.groups(), strict=True):
        if name and bound.setdefault(name, value) != value:
            return False
    return True


def match_json(wanted: Any, got: Any, bound: dict[str, str]) -> bool:
    """Whether two JSON values agree; strings of `wanted` may hold placeholders."""
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return False
        names = set(wanted) - {"..."}
        if not (names <= set(got) if "..." in wanted else names == set(got)):
            return False
        return all(match_json(wanted[name], got[name], bound) for name in wanted if name != "...")
    if isinstance(wanted, list):
        return (
            isinstance(got, list)
            and len(wanted) == len(got)
            and all(match_json(w, g, bound) for w, g in zip(wanted, got, strict=True))
        )
    if isinstance(wanted, str) and "<" in wanted:
        if wanted == "<any>":
            return True
        if re.fullmatch(r"<int(:\w+)?>", wanted):
            return type(got) is int and _match_text(wanted, str(got), bound)
        return isinstance(got, str) and _match_text(wanted, plain(got), bound)
    return type(wanted) is type(got) and wanted == got


def plain(data: bytes | str) -> str:
    """Bytes as transcripts show them: UTF-8, the rest as `<hex ..>`, long runs as `<repeat ..>`."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    text = _UNSEEN.sub(lambda m: f"<hex {m[0].encode('utf-8', 'surrogateescape').hex()}>", text)
    return _RUN.sub(lambda m: f"<repeat {m[1]} {len(m[0])}>", text)


def show(frame: Frame) -> list[str]:
    """A frame as the lines of a transcript; where the reference writes two blanks, one."""
    line = plain(frame.line.rstrip(b" "))
    if frame.verb not in (b"MSG", b"HMSG"):
        return [line]
    line = line.replace("  ", " ")
    head = frame.headers.split(b"\r\n")[:-1] if frame.headers else []
    return [line, *map(plain, head), plain(frame.payload)]


class Player:
    """Plays steps against one server; the connections live as long as the player."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.wires: dict[str, Wire] = {}
        self.infos: dict[str, Frame] = {}
        self.closed: set[str] = set()
        self.memory: dict[str, str] = {}

    def wire(self, name: str) -> Wire:
        if name not in self.wires:
            self.wires[name] = Wire(self.address)
            self.infos[name] = self.wires[name].frame()
        return self.wires[name]

    def play(self, steps: list[Step]) -> None:
        """Play all steps, then see that no connection has more to say."""
        at = 0
        while at < len(steps):
            if steps[at].kind == "eventually":
                end = next((i for i in range(at, len(steps)) if steps[i].kind == "end"), len(steps))
                self._until_it_matches(steps[at + 1 : end])
                at = end
            else:
                self.step(steps[at])
                at += 1
        for name, wire in self.wires.items():
            if name not in self.closed and (rest := wire.flush()):
                raise Mismatch(f"@{name} had more to say: {[show(frame) for frame in rest]}")

    def _until_it_matches(self, steps: list[Step]) -> None:
        def attempt() -> bool:
            try:
                for step in steps:
                    self.step(step)
            except Mismatch:
                for wire in self.wires.values():
                    wire.flush()
                raise
            return True

        eventually(attempt, within=_TIME_LIMIT, every=0.05)

    def step(self, step: Step) -> None:
        """Play one step. Raises Mismatch with the line of the file."""
        wire = self.wire(step.connection)
        if step.kind == "send":
            self.infos.pop(step.connection, None)
        try:
            if step.kind == "send":
                wire.send(encode(step.lines, self.memory))
            elif step.kind == "expect":
                self._expect(step, wire)
            elif step.kind == "use":
                self.use(step.lines[0], wire)
        except (Closed, Silence) as end:
            raise Mismatch(f"line {step.number}: {end}") from end
        except Mismatch as mismatch:
            raise Mismatch(f"line {step.number}: {mismatch}") from None

    def use(self, line: str, wire: Wire) -> None:
        """Create the stream of a `@use` line. Raises Mismatch if `wire` has more to say."""
        if rest := wire.flush():
            raise Mismatch(f"more to say before {line}: {[show(frame) for frame in rest]}")
        config = stream_config(line)
        with Wire(self.address) as other:
            other.hello()
            answer = other.api(f"STREAM.CREATE.{config['name']}", config)
        if "error" in answer:
            raise Mismatch(f"{line}: {answer['error']}")

    def _expect(self, step: Step, wire: Wire) -> None:
        if step.lines[0].startswith("INFO") and step.connection in self.infos:
            match(step.lines, self.infos.pop(step.connection), self.memory)
            return
        if step.lines == ["<closed>"]:
            try:
                frame = wire.frame()
            except Closed:
                self.closed.add(step.connection)
                return
            raise Mismatch(f"expected the end of the connection, got {show(frame)}")
        pings = step.lines == ["PING"]
        frame = wire.frame(pings=pings)
        match(step.lines, frame, self.memory)
        if untyped := problems(frame.payload):
            raise Mismatch(f"the typed model does not know this answer: {untyped}")

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


class Server(Protocol):
    """A server that transcripts can be played against."""

    address: tuple[str, int]

    def await_removal(self) -> None:
        """Wait until deleted streams have left no trace."""
        ...


def clean(server: Server) -> None:
    """Delete every stream, so that each transcript finds an empty server."""
    with Wire(server.address) as wire:
        wire.hello()
        for name in wire.api("STREAM.NAMES")["streams"] or []:
            wire.api(f"STREAM.DELETE.{name}")
    server.await_removal()


def is_hurried(path: Path) -> bool:
    """Whether a transcript fails where the machine is late."""
    return any(step.kind == "hurried" for step in parse(path.read_text()))


def play_file(path: Path, server: Server, tries: int = 1) -> None:
    """Play one transcript against a server and leave the server empty.

    Args:
        path: Of the transcript.
        server: To play against.
        tries: How often it may fail before that counts.
    """
    for left in reversed(range(tries)):
        player = Player(server.address)
        try:
            return player.play(parse(path.read_text()))
        except Mismatch:
            if not left:
                raise
        finally:
            player.close()
            clean(server)
