"""What is answered while there is no leader: 10008 to whoever asks a stream or the API."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from core.api.leaderless import Leaderless
from core.errors import Unavailable
from core.jetstream.direct.stored_get import StoredGet
from core.storage.interface import StreamSubjects
from tests.support.eventually import observed
from tests.support.sessions import ListSession, idle_hub, listen

STREAMS = (
    StreamSubjects("$G", "S", ("s.>", "t"), False),
    StreamSubjects("$G", "Q", ("quiet",), True),
    StreamSubjects("OTHER", "O", ("other",), False),
)
ERROR = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}


class Bench:
    """An account with a client that gets the answers."""

    def __init__(self, streams: Sequence[StreamSubjects] = STREAMS) -> None:
        hub = idle_hub()
        self.account = hub.default_account()
        self.streams: Sequence[StreamSubjects] | None = streams
        self.reads = 0
        self.session = ListSession()
        listen(self.account, self.session, b"r")
        self.leaderless = Leaderless(self.account, self.read)

    async def read(self) -> Sequence[StreamSubjects]:
        self.reads += 1
        if self.streams is None:
            raise Unavailable("away")
        return self.streams

    def ask(self, subject: bytes, reply: bytes = b"r", *, from_peer: bool = False) -> Any:
        """Publish as a client, or as it comes over a link; the answer, if there is one."""
        route = self.account.route(subject)
        source = None if from_peer else ListSession()
        self.account.deliver(route, source, subject, reply, b"", b"x")
        lines = self.session.take().split(b"\r\n")
        return json.loads(lines[1]) if len(lines) > 1 else None


def test_publishes_and_requests_are_refused_and_nothing_else_is_answered() -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.leaderless.learn()
        assert not bench.account.has_interest(b"s.a")
        bench.leaderless.start()

        for subject in (b"s.a", b"t"):
            assert bench.ask(subject) == {"error": ERROR, "stream": "S", "seq": 0}
        info = bench.ask(b"$JS.API.STREAM.INFO.S")
        assert info["type"] == "io.nats.jetstream.api.v1.stream_info_response"
        assert info["error"] == ERROR
        assert bench.ask(b"$JS.API.INFO")["error"] == ERROR
        assert bench.ask(b"s.a", b"") is None
        # Whose answer would be taken for a message, and what no stream of this account has.
        for nobody in (b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"$JS.API.DIRECT.GET.S", b"other", b"u"):
            assert not bench.account.has_interest(nobody)
        bench.leaderless.stop()
        assert not bench.account.has_interest(b"s.a")
        assert not bench.account.has_interest(b"$JS.API.INFO")
        await bench.leaderless.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("has_led", [False, True])
def test_what_comes_from_peers_is_answered_by_who_has_led(has_led: bool) -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.leaderless.learn()
        bench.leaderless.has_led = has_led
        bench.leaderless.start()
        assert (bench.ask(b"t", from_peer=True) is not None) == has_led
        assert (bench.ask(b"$JS.API.INFO", from_peer=True) is not None) == has_led
        await bench.leaderless.close()

    asyncio.run(scenario())


def test_streams_are_read_at_each_loss_and_kept_where_that_fails() -> None:
    async def scenario() -> None:
        bench = Bench(())
        bench.streams = None
        bench.leaderless.start()
        await observed(lambda: bench.reads == 1)
        assert not bench.leaderless.is_known
        bench.leaderless.stop()

        bench.streams = STREAMS
        learned: list[bool] = []
        bench.leaderless.on_learned = lambda: learned.append(True)
        bench.leaderless.start()
        await observed(lambda: learned)
        assert bench.leaderless.is_known
        assert bench.ask(b"t")["error"] == ERROR
        bench.leaderless.stop()

        bench.streams = None
        bench.leaderless.start()
        await observed(lambda: bench.reads == 3)
        assert bench.ask(b"t")["error"] == ERROR
        await bench.leaderless.close()

    asyncio.run(scenario())


class _StoredGet:
    """Notes whether it answers Direct Get."""

    def __init__(self, *, has_standby: bool) -> None:
        self.has_standby = has_standby
        self.is_listening = self.is_closed = False

    def listen(self) -> None:
        self.is_listening = True

    def unlisten(self) -> None:
        self.is_listening = False

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("has_standby", [False, True])
def test_direct_get_is_answered_while_nobody_leads_or_beside_another_by_a_standby(
    has_standby: bool,
) -> None:
    async def scenario() -> None:
        bench, get = Bench(), _StoredGet(has_standby=has_standby)
        leaderless = Leaderless(bench.account, bench.read, cast(StoredGet, get))
        leaderless.stop()  # another node leads when this one starts
        assert get.is_listening == has_standby
        leaderless.start()
        assert get.is_listening
        leaderless.has_led = True
        leaderless.stop()
        assert not get.is_listening
        await leaderless.close()
        assert get.is_closed

    asyncio.run(scenario())
