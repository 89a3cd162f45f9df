"""Subjects of any length and bytes that a control line may have, on both servers."""

# Subject: storage

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.headers import block
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Frame, Wire

Server = JetgateServer | NatsServer

_numbers = count()
LONG = b"l" * 3900
TAILS = [
    b"plain",
    b"x" * 2036,
    LONG,
    LONG + b".end",
    "\u200c\u6f22\U0001f600".encode() * 300,
    b"nul\0",
    b"\x01\x02",  # not DEL, which the reference does not find by subject
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"caf\xe9.\xc3\xa9",
    b"back\\slash%",
]


class Streams:
    """A stream of a test's own, filled with a message on each of the subjects."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.name = f"SB{next(_numbers)}"
        self.subjects = [b"%s.%b" % (self.name.lower().encode(), tail) for tail in TAILS]

    def fill(self, **config: Any) -> None:
        """Create the stream and publish."""
        config = {"subjects": [f"{self.name.lower()}.>"], "allow_direct": True, **config}
        self.create(self.name, **config)
        for place, subject in enumerate(self.subjects):
            assert self.ask(subject, b"%d" % place).json()["seq"] == place + 1

    def create(self, name: str, **config: Any) -> None:
        """Create a stream."""
        answer = self.wire.api(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer["error"]

    def ask(self, subject: bytes, payload: bytes = b"", headers: bytes = b"") -> Frame:
        """Send a request on a subject of any bytes."""
        return self.wire.request(subject.decode("utf-8", "surrogateescape"), payload, headers)

    def state(self, name: str, **body: Any) -> Any:
        """Return the state of a stream."""
        return self.wire.api(f"STREAM.INFO.{name}", body)["state"]

    def stored(self, name: str) -> list[tuple[bytes, bytes]]:
        """Return subject and payload of every message, by Direct Get."""
        state = self.state(name)
        found = []
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            frame = self.wire.request(f"$JS.API.DIRECT.GET.{name}", b'{"seq":%d}' % seq)
            if b"Nats-Subject: " in frame.headers:
                found.append((_subject(frame), frame.payload))
        return found


def _subject(frame: Frame) -> bytes:
    return frame.headers.partition(b"Nats-Subject: ")[2].partition(b"\r\n")[0]


@pytest.fixture
def streams(server: Server) -> Iterator[Streams]:
    """The stream, on each server."""
    with Wire(server.address) as wire:
        wire.hello()
        yield Streams(wire)
        for name in wire.api("STREAM.NAMES")["streams"] or ():
            wire.api(f"STREAM.DELETE.{name}")


def test_every_subject_is_stored_and_read(streams: Streams) -> None:
    streams.fill()

    filled = [(subject, b"%d" % place) for place, subject in enumerate(streams.subjects)]
    assert streams.stored(streams.name) == filled
    counts = streams.state(streams.name, subjects_filter=">")["subjects"]
    shown = {_shown(subject): 1 for subject in streams.subjects}
    assert counts == shown
    direct = f"$JS.API.DIRECT.GET.{streams.name}"
    for place, subject in enumerate(streams.subjects):
        last = streams.ask(direct.encode() + b"." + subject)
        assert (_subject(last), last.payload) == (subject, b"%d" % place)
    texts = [s for s in streams.subjects if _shown(s).encode() == s]
    for text in texts:
        following = {"seq": 2, "next_by_subj": text.decode()}
        found = streams.wire.request(direct, json.dumps(following).encode())
        assert (found.payload != b"") == (streams.subjects.index(text) > 0)
        message = streams.wire.api(
            f"STREAM.MSG.GET.{streams.name}", {"last_by_subj": text.decode()}
        )["message"]
        assert message["subject"] == text.decode()


def _shown(subject: bytes) -> str:
    """A subject in JSON, as Go shows it: each byte that is not UTF-8 is one character."""
    text = subject.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text)


@pytest.mark.parametrize("limit", [-1, 1, 2])
def test_subjects_are_distinguished_and_purged(streams: Streams, limit: int) -> None:
    streams.fill(max_msgs_per_subject=limit)
    for subject in streams.subjects * 2:
        assert "error" not in streams.ask(subject, b"again").json()
    each = {-1: 3, 1: 1, 2: 2}[limit]
    assert streams.state(streams.name)["messages"] == each * len(TAILS)

    for subject in streams.subjects[:4]:
        purge = {"filter": subject.decode()}
        answer = streams.wire.api(f"STREAM.PURGE.{streams.name}", purge)
        assert answer["purged"] == each
    state = streams.state(streams.name, subjects_filter=">")
    assert state["messages"] == each * (len(TAILS) - 4)
    assert sorted(state["subjects"]) == sorted({_shown(s) for s in streams.subjects[4:]})
    prefix = streams.name.lower()
    answer = streams.wire.api(f"STREAM.PURGE.{streams.name}", {"filter": f"{prefix}.*"})
    assert answer["purged"] == each * (len(TAILS) - 5), "one has three tokens"


def test_consumers_deliver_and_filter_them(streams: Streams) -> None:
    streams.fill()
    name = streams.name
    for place in (2, 4, 7):
        wanted = streams.subjects[place].decode("utf-8", "replace")
        config = {"durable_name": f"C{place}", "ack_policy": "explicit", "filter_subject": wanted}
        if place != 7:
            streams.wire.api(
                f"CONSUMER.DURABLE.CREATE.{name}.C{place}", {"stream_name": name, "config": config}
            )
            frame = streams.wire.request(f"$JS.API.CONSUMER.MSG.NEXT.{name}.C{place}", b"1")
            assert (frame.subject, frame.payload) == (streams.subjects[place], b"%d" % place)
    body = {"stream_name": name, "config": {"durable_name": "ALL", "ack_policy": "none"}}
    streams.wire.api(f"CONSUMER.DURABLE.CREATE.{name}.ALL", body)
    for subject in streams.subjects:
        frame = streams.wire.request(f"$JS.API.CONSUMER.MSG.NEXT.{name}.ALL", b"1")
        assert frame.subject == subject


@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_copies_under_longer_subjects_are_all_there(streams: Streams, kind: str) -> None:
    streams.fill()
    prefix = streams.name.lower()
    transform = {"src": f"{prefix}.>", "dest": f"somewhat.longer.{'z' * 200}.>"}
    source = {"name": streams.name, "subject_transforms": [transform]}
    copy = f"{streams.name}C"

    streams.create(copy, allow_direct=True, **{kind: source if kind == "mirror" else [source]})

    eventually(lambda: streams.state(copy)["messages"] == len(TAILS))
    renamed = [b"somewhat.longer.%b.%b" % (b"z" * 200, tail) for tail in TAILS]
    assert [subject for subject, _ in streams.stored(copy)] == renamed
    info = streams.wire.api(f"STREAM.INFO.{copy}")
    told = info["mirror"] if kind == "mirror" else info["sources"][0]
    assert (told["lag"], told.get("error")) == (0, None)


def test_schedules_on_every_subject_fire(streams: Streams) -> None:
    streams.create(
        streams.name,
        subjects=[f"{streams.name.lower()}.>"],
        allow_msg_schedules=True,
        allow_msg_ttl=True,
    )
    prefix = streams.name.lower().encode()
    for place, tail in enumerate((LONG[:3800], b"\xff", b"a\0b", b"plain")):
        target = prefix + b".target." + tail
        headers = b"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: %b\r\n\r\n"
        answer = streams.ask(prefix + b".when." + tail, b"due", headers % target).json()
        assert answer.get("seq") == place + 1, answer

    prefix += b".target."
    wanted = {_shown(prefix + tail) for tail in (LONG[:3800], b"\xff", b"a\0b", b"plain")}
    eventually(lambda: wanted <= set(streams.state(streams.name, subjects_filter=">")["subjects"]))


def test_a_restart_keeps_them(jetgate_server: JetgateServer) -> None:
    """In each form of the index of subjects; schedules and the positions of sources, too."""
    limits = (-1, 1, 2)
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        made = [Streams(wire) for _ in limits]
        for streams, limit in zip(made, limits, strict=True):
            streams.fill(max_msgs_per_subject=limit, allow_msg_schedules=True, allow_msg_ttl=True)
            target = f"{streams.name.lower()}.target"
            headers = block(Nats_Schedule="@every 1h", Nats_Schedule_Target=target)
            answer = streams.ask(b"%b.when.%b" % (target[:-7].encode(), LONG[:-9]), b"", headers)
            assert answer.json()["seq"] == len(TAILS) + 1
        whole = made[0].subjects[2].decode()
        source = {"name": made[0].name, "filter_subject": whole}
        made[0].create("SBCOPY", sources=[source])
        eventually(lambda: made[0].state("SBCOPY")["messages"] == 1)
        names = [*(streams.name for streams in made), "SBCOPY"]
        before = [made[0].state(name, subjects_filter=">", deleted_details=True) for name in names]
    jetgate_server.restart()

    with Wire(jetgate_server.address) as wire:
        wire.hello()
        for name, state in zip(names, before, strict=True):
            again = wire.api(f"STREAM.INFO.{name}", {"subjects_filter": ">"})["state"]
            assert again == state
        for streams in made:
            streams.wire = wire
            for place, subject in enumerate(streams.subjects):
                last = streams.ask(b"$JS.API.DIRECT.GET.%b.%b" % (streams.name.encode(), subject))
                assert (_subject(last), last.payload) == (subject, b"%d" % place)
        assert made[0].ask(made[0].subjects[2], b"more").json()["seq"] == len(TAILS) + 2
        eventually(lambda: made[0].state("SBCOPY")["messages"] == 2, within=30)
        for name in reversed(names):
            wire.api(f"STREAM.DELETE.{name}")
