"""Direct Get on a node that does not lead: what it answers, and what it passes on."""

# Subject: message get

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest

from core.errors import Unavailable
from core.jetstream.direct.stored_get import StoredGet
from core.pubsub.forwarding import Splitter
from core.pubsub.receivers import RemoteInterest
from core.storage.interface import Row
from tests.support.eventually import observed
from tests.support.sessions import ListSession, ManualClock, idle_hub, listen

SUBJECT = b"$JS.API.DIRECT.GET.S"
ROW = (7, 1_000_000_000, b"s.a", b"", b"payload")
NOBODY = b"HMSG r 1 52 52\r\nNATS/1.0 503\r\nNats-Subject: " + SUBJECT + b"\r\n\r\n\r\n"


class Storage:
    """Has message 7 of stream S; it answers once it `may_answer`."""

    def __init__(self) -> None:
        self.has_standby = True
        self.is_away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked: list[Sequence[tuple[str, int]]] = []
        self.is_closed = False

    async def read(
        self, account: str, wanted: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[list[tuple[int, Row | None]]]:
        assert account == "$G"
        self.asked.append(wanted)
        await self.may_answer.wait()
        if self.is_away:
            raise Unavailable("away")
        for place, (stream, seq) in enumerate(wanted):
            if stream == "S":
                yield [(place, ROW if seq == 7 else None)]

    def close(self) -> None:
        self.is_closed = True


class Requester(ListSession):
    """A client that wants to know that nobody answers."""

    no_responders = True


class Leader:
    """The link to another node."""

    closed = blocked = False

    def __init__(self) -> None:
        self.on_writable: list[Callable[[], None]] = []
        self.sent = 0
        self.lines: list[bytes] = []

    def send(self, lines: bytes, sent: int) -> None:
        self.lines.append(lines)


class Bench:
    """An account, a client with the subscription `r`, and storage."""

    def __init__(self) -> None:
        self.account = idle_hub().default_account()
        self.clock = ManualClock()
        self.storage = Storage()
        self.client = Requester()
        self.leader = Leader()
        listen(self.account, self.client, b"r")
        self.get = StoredGet(self.account, self.storage, self.clock)
        self.get.listen()

    def link(self) -> None:
        """Have a node that leads the stream."""
        self.account.split = Splitter(self.account).split
        self.account.add_remote(RemoteInterest(self.leader, SUBJECT, b"", 1))

    def send(self, body: bytes, subject: bytes = SUBJECT) -> None:
        receivers = self.account.receivers(subject)
        self.account.deliver(receivers, self.client, subject, b"r", b"", body)

    async def ask(self, request: object, subject: bytes = SUBJECT) -> bytes:
        """All that comes to one request."""
        self.send(request if isinstance(request, bytes) else json.dumps(request).encode(), subject)
        await observed(lambda: self.client.out)
        return self.client.drain()


def play(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        bench = Bench()
        await scenario(bench)
        await bench.get.close()
        assert bench.storage.is_closed
        bench.send(b'{"seq":7}')
        assert not bench.client.out

    asyncio.run(run())


def test_answers_are_those_of_a_leader() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.ask({"seq": 7}) == (
            b"HMSG r 1 104 111\r\nNATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.a\r\n"
            b"Nats-Sequence: 7\r\nNats-Time-Stamp: 1970-01-01T00:00:01Z\r\n\r\npayload\r\n"
        )
        assert await bench.ask({"seq": 7, "no_hdr": True}) == b"MSG r 1 7\r\npayload\r\n"
        for request, status in (
            ({"seq": 8}, b"404 Message Not Found"),
            ({"seq": 2**64 - 1}, b"404 Message Not Found"),
            (b"", b"408 Empty Request"),
            (b"{}", b"408 Empty Request"),
            (b"[", b"408 Malformed Request"),
            ({"seq": 7, "last_by_subj": "s.a"}, b"408 Bad Request"),
        ):
            assert b"NATS/1.0 " + status + b"\r\n\r\n" in await bench.ask(request)

    play(scenario)


def test_a_request_that_storage_does_not_answer_stays_unanswered() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.ask({"last_by_subj": "s.a"}) == NOBODY
        assert await bench.ask({"seq": 7, "batch": 1}) == NOBODY
        none = b"$JS.API.DIRECT.GET.N"
        assert await bench.ask({"seq": 7}, none) == NOBODY.replace(SUBJECT, none)
        assert await bench.ask(b"", none) == NOBODY.replace(SUBJECT, none)
        bench.storage.is_away = True
        assert await bench.ask({"seq": 7}) == NOBODY

    play(scenario)


def test_a_leader_gets_what_storage_does_not_answer_and_nothing_else() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link()
        assert (await bench.ask({"seq": 7})).endswith(b"payload\r\n")
        assert b"404 Message Not Found" in await bench.ask({"seq": 8})
        assert not bench.leader.lines
        bench.send(b'{"last_by_subj":"s.a"}')
        bench.storage.is_away = True
        bench.send(b'{"seq":7}')
        await observed(lambda: len(bench.leader.lines) == 2)
        assert bench.leader.lines == [
            b'RMSG $G %b r 22\r\n{"last_by_subj":"s.a"}\r\n' % SUBJECT,
            b'RMSG $G %b r 9\r\n{"seq":7}\r\n' % SUBJECT,
        ]
        assert not bench.client.out
        bench.get.unlisten()
        bench.send(b'{"seq":7}')
        assert len(bench.leader.lines) == 3

    play(scenario)


def test_requests_do_not_pile_up() -> None:
    """Two reads at a time, of many messages each; what waits too long is not read any more."""

    async def scenario(bench: Bench) -> None:
        storage, client = bench.storage, bench.client
        storage.may_answer.clear()
        bench.send(b'{"seq":7}')
        await observed(lambda: len(storage.asked) == 1)
        bench.send(b'{"seq":7}')
        await observed(lambda: len(storage.asked) == 2)
        for _ in range(1024):
            bench.send(b'{"seq":7}')
        assert not client.out
        bench.send(b'{"seq":7}')
        assert client.drain() == NOBODY
        assert len(storage.asked) == 2
        bench.clock.advance(2.5)
        bench.send(b'{"seq":7}')
        assert client.drain() == NOBODY
        storage.may_answer.set()

        def answers() -> tuple[int, int]:
            taken = b"".join(client.out)
            return taken.count(b"payload"), taken.count(b"NATS/1.0 503")

        await observed(lambda: sum(answers()) >= 1026)
        assert answers() == (2, 1024)
        client.drain()
        assert len(storage.asked) == 2
        assert (await bench.ask({"seq": 7})).endswith(b"payload\r\n")

    play(scenario)


def test_storage_that_does_not_answer_is_no_longer_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.jetstream.direct.stored_get._TIMEOUT_NS", 10_000_000)

    async def scenario(bench: Bench) -> None:
        bench.storage.may_answer.clear()
        assert await bench.ask({"seq": 7}) == NOBODY

    play(scenario)


def test_a_stream_that_is_led_here_is_left_to_its_leader() -> None:
    async def scenario(bench: Bench) -> None:
        led: list[bytes] = []

        def lead(
            session: object, subject: bytes, reply: bytes, headers: bytes, body: bytes
        ) -> None:
            led.append(body)

        subscription = bench.account.subscribe(SUBJECT, lead)
        bench.send(b'{"seq":7}')
        assert led == [b'{"seq":7}']
        bench.account.unsubscribe(subscription)
        assert (await bench.ask({"seq": 7})).endswith(b"payload\r\n")
        assert len(bench.storage.asked) == 1

    play(scenario)
