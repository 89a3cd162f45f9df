"""The examples of frames: `python -m tests.gateway.frame_examples` talks again and writes them.

`ASKED` is one side of a conversation with a new server, in order. After each frame the server's
are read until one of the type that is awaited has come. `TOKEN n` stands for the token of the n-th
message of the work queue.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gateway.contract.frames import Example
from tests.gateway.examples import server
from tests.gateway.frame_contract import name_of
from tests.gateway.sockets import JSON, PACK, Socket
from tests.gateway.web import Web
from tests.support.jetgate import ROOT

PLACE = ROOT / "gateway" / "contract" / "frames.json"
Members = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A frame to send, and the types of those that are awaited then, the last of them shown.

    `web`: what somebody else does before, as method, path and body. `who`: over which connection.
    """

    title: str
    frame: Members
    awaits: tuple[str, ...] = ()
    web: tuple[str, str, Members | None] | None = None
    who: str = JSON


def _line(title: str, kind: str, *awaits: str, who: str = JSON, **members: Any) -> Line:
    return Line(title, {"type": kind, **members}, awaits, who=who)


def _after(web: tuple[str, str, Members | None], line: Line) -> Line:
    return Line(line.title, line.frame, line.awaits, web, line.who)


_CHAT = "/v1/streams/CHAT"
_NEWS = "/v1/streams/NEWS"
_WORK = f"{_CHAT}/consumers/work"
_SLOW = f"{_CHAT}/consumers/slow"
_SUB_WORK: Members = {
    "stream": "CHAT",
    "consumer": "work",
    "credit": {"msgs": 4, "bytes": 1_000_000},
}
_LISTENER, _WORKER = 3, 4
_OF_FEEDS = ("msg", "dropped")
_PLACE = {"incarnation": "1795401449110121737", "seq": 3}
ASKED: tuple[Line, ...] = (
    _line("A token", "hello", "welcome", token="s3cret"),
    _line("A message for a stream", "pub", "published", id=1, subject="chat.room", text="hello"),
    _line(
        "With conditions",
        "pub",
        "published",
        id=2,
        subject="chat.room",
        data={"n": 1},
        msg_id="2",
        headers={"X-Author": "sue"},
        expect={"last_subject_seq": 1},
    ),
    _line("To a subject of nobody", "pub", "error", id=3, subject="nobody", text="x"),
    _line("To the current subscribers", "pub", subject="loud", text="hello", receipt=False),
    _line(
        "The whole stream",
        "sub",
        "subscribed",
        "msg",
        id=4,
        sid=1,
        stream="CHAT",
        **{"from": "all"},
    ),
    _line(
        "Behind a position that is gone",
        "sub",
        "subscribed",
        id=5,
        sid=2,
        stream="CHAT",
        after=_PLACE,
    ),
    _line(
        "Messages published from now on",
        "sub",
        "subscribed",
        id=6,
        sid=3,
        subject="loud",
        credit={"msgs": 1},
    ),
    _line("Heard once", "pub", "msg", subject="loud", text="1", receipt=False),
    _line(
        "And not heard, without credit", "pub", "dropped", subject="loud", text="2", receipt=False
    ),
    _line("A consumer's", "sub", "subscribed", "msg", id=7, sid=4, **_SUB_WORK),
    _line(
        "Without credit",
        "sub",
        "subscribed",
        id=8,
        sid=5,
        stream="CHAT",
        consumer="slow",
        credit={"msgs": 0},
    ),
    _after(
        ("PATCH", _SLOW, {"max_batch": 1}),
        _line("More than a consumer gives meanwhile", "credit", "interrupted", sid=5, msgs=4),
    ),
    _line("More for a feed", "credit", sid=4, msgs=8, bytes=2_000_000),
    _line("A service", "req", "reply", id=9, subject="chat.room", text="2+2", timeout="1s"),
    _line("The last of a subject", "get", "message", id=10, stream="CHAT", last_by="chat.room"),
    _line("By sequence", "get", "error", id=11, stream="CHAT", seq=99),
    _line("Done", "ack", "acked", id=12, tokens=["TOKEN 0"], sync=True),
    _line("A token of nobody", "ack", "acked", tokens=["nonsense"]),
    _line("Later", "nak", "acked", id=13, tokens=["TOKEN 1"], delay="5s"),
    _line("Still at it", "progress", "acked", id=14, tokens=["TOKEN 0"]),
    _line("Never again", "term", "acked", id=15, tokens=["TOKEN 1"], reason="no order"),
    _line("There?", "ping", "pong", id=16),
    _line(
        "Two and no more yet",
        "sub",
        "subscribed",
        "msg",
        id=17,
        sid=6,
        stream="NEWS",
        credit={"msgs": 2},
        **{"from": "all"},
    ),
    _after(
        ("POST", f"{_NEWS}:purge", None),
        _line("Continues behind removed messages", "credit", "gap", sid=6, msgs=100),
    ),
    _after(
        ("DELETE", _WORK, None), _line("A feed whose consumer was deleted", "ping", "ended", id=18)
    ),
    _line("One feed", "unsub", "done", id=19, sid=2),
    _line("All feeds", "drain", "done", id=20),
    _line("In MessagePack", "pub", "published", who=PACK, id=1, subject="chat.room", data=b"hello"),
    _line("In MessagePack", "req", "reply", who=PACK, id=2, subject="chat.room", data=b"2+2"),
    _line("In MessagePack", "get", "message", who=PACK, id=3, stream="CHAT", last_by="chat.room"),
    _line("In MessagePack", "sub", "msg", who=PACK, id=4, sid=1, stream="CHAT", **{"from": "last"}),
)


def answered(web: Web) -> Iterator[Example]:
    """Talk, and return what was sent and what came."""
    made = [
        web.json("PUT", _CHAT, {"subjects": ["chat.>"], "allow_direct": True}),
        web.json("PUT", _NEWS, {"subjects": ["news"]}),
        *(web.json("PUT", path, {"ack_policy": "explicit"}) for path in (_WORK, _SLOW)),
        *(web.publish("news", b"%d" % number) for number in range(5)),
    ]
    assert {each.status for each in made} == {201}
    tokens: list[str] = []
    with ExitStack() as open_ones:
        sockets = {
            who: open_ones.enter_context(Socket(web.address, who, welcomed=False))
            for who in (JSON, PACK)
        }
        sockets[PACK].next("welcome")
        for line in ASKED:
            if line.web is not None:
                method, path, body = line.web
                answer = web.json(method, path, body) if body else web.send(method, path)
                assert answer.status < 300, answer
            yield from _talked(line, sockets[line.who], tokens)


def _talked(line: Line, socket: Socket, tokens: list[str]) -> Iterator[Example]:
    frame = dict(line.frame)
    for each in frame.get("tokens", ()):
        while " " in each and int(each.split()[1]) >= len(tokens):
            tokens += _tokens(socket.next("msg", sid=_WORKER))
    if "tokens" in frame:
        frame["tokens"] = [
            tokens[int(each.split()[1])] if " " in each else each for each in frame["tokens"]
        ]
    socket.send(frame)
    yield _example("receive", line.title, frame, socket)
    for kind in line.awaits:
        feed = {"sid": frame.get("sid", _LISTENER)} if kind in _OF_FEEDS else {}
        come = socket.next(kind, **feed)
        tokens += _tokens(come)
    if line.awaits:
        yield _example("send", line.title, come, socket)


def _tokens(frame: Members) -> list[str]:
    return [each["token"] for each in frame.get("messages", ()) if "token" in each]


def _example(way: str, title: str, frame: Members, socket: Socket) -> Example:
    name = name_of(way, frame, packed=socket.packed)
    return Example(name=name, title=title, frame=_shown(frame))


def _shown(value: Any) -> Any:
    """Binary as base64: the file is JSON."""
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return b64encode(value).decode() if isinstance(value, bytes) else value


def main() -> None:
    """Talk, and write the file."""
    with server() as web:
        examples = list(answered(web))
    written = msgspec.json.format(msgspec.json.encode(examples), indent=1)
    Path(PLACE).write_bytes(written + b"\n")
    print(f"wrote {len(examples)} examples to {PLACE}; now python -m gateway.contract")


if __name__ == "__main__":
    main()
