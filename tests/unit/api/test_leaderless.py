"""What is answered while there is no leader: 10008 to whoever asks a stream or the API."""

# Subject: API

import asyncio
import json
from typing import Any, cast

import pytest

from core.api.leaderless import Leaderless
from core.cluster.directory import StreamDirectory
from core.jetstream.direct.stored_get import StoredGet
from core.model import codec
from core.model.stream import StreamConfig
from core.storage.interface import DirectoryNews, DirectoryRow
from tests.support.lease_groups import lease_groups
from tests.support.sessions import ListSession, idle_hub, listen

ERROR = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}


def row(number: int, name: str, *subjects: str, account: str = "$G", **more: Any) -> DirectoryRow:
    config = codec.encode(StreamConfig(name=name, subjects=subjects, **more)).decode()
    return DirectoryRow(number, account, name, config=config)


STREAMS = (
    row(1, "S", "s.>", "t"),
    row(2, "Q", "quiet", no_ack=True),
    row(3, "O", "other", account="OTHER"),
)


class Bench:
    """An account with a client that gets the answers."""

    def __init__(self, *streams: DirectoryRow) -> None:
        self.account = idle_hub().default_account()
        self.session = ListSession()
        listen(self.account, self.session, b"r")
        self.directory = StreamDirectory()
        self.leaderless = Leaderless(self.account, self.directory)
        if streams:
            self.directory.apply(DirectoryNews(3, streams, is_whole=True))

    def ask(self, subject: bytes, reply: bytes = b"r", *, from_peer: bool = False) -> Any:
        """Publish as a client, or as it comes over a link; the answer, if there is one."""
        receivers = self.account.receivers(subject)
        source = None if from_peer else ListSession()
        self.account.deliver(receivers, source, subject, reply, b"", b"x")
        lines = self.session.drain().split(b"\r\n")
        return json.loads(lines[1]) if len(lines) > 1 else None


def test_publishes_and_requests_are_refused_and_nothing_else_is_answered() -> None:
    bench = Bench(*STREAMS)
    assert not bench.account.has_interest(b"s.a")
    bench.leaderless.answer(lease_groups(0), requests=True)

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
    bench.leaderless.answer(lease_groups(0), requests=False)
    assert bench.account.has_interest(b"s.a")
    assert not bench.account.has_interest(b"$JS.API.INFO")
    bench.leaderless.answer(lease_groups(1), requests=False)
    assert not bench.account.has_interest(b"s.a")
    assert not bench.account.has_interest(b"$JS.API.INFO")


def test_requests_from_peers_are_left_to_the_leader() -> None:
    bench = Bench(*STREAMS)
    bench.leaderless.answer(lease_groups(0), requests=True)
    assert bench.ask(b"t", from_peer=True) is None
    assert bench.ask(b"$JS.API.INFO", from_peer=True) is None


def test_streams_of_the_directory_are_refused_once_it_is_known() -> None:
    bench = Bench()
    learned: list[bool] = []
    bench.leaderless.learned.subscribe(lambda: learned.append(True))
    bench.leaderless.answer(lease_groups(0), requests=True)
    assert not bench.leaderless.is_known

    bench.directory.apply(DirectoryNews(3, STREAMS, is_whole=True))
    assert (bench.leaderless.is_known, learned) == (True, [True])
    assert bench.ask(b"t")["error"] == ERROR

    changed = DirectoryRow(1, is_deleted=True), row(4, "NEW", "new")
    bench.directory.apply(DirectoryNews(5, changed, is_whole=False))
    assert bench.ask(b"new")["stream"] == "NEW"
    assert not bench.account.has_interest(b"t")
    bench.leaderless.answer((), requests=False)
    assert not bench.account.has_interest(b"new")


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
def test_direct_get_is_answered_without_a_leader_or_beside_another_by_a_standby(
    has_standby: bool,
) -> None:
    async def scenario() -> None:
        bench, get = Bench(), _StoredGet(has_standby=has_standby)
        leaderless = Leaderless(bench.account, bench.directory, cast(StoredGet, get))
        leaderless.answer((), requests=False)
        assert get.is_listening == has_standby
        leaderless.answer(lease_groups(3), requests=False)
        assert get.is_listening
        await leaderless.close()
        assert get.is_closed

    asyncio.run(scenario())
