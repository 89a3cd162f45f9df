"""Deliveries on their way: under which subjects, and as long as somebody listens."""

# Subject: remotes

from collections.abc import Callable
from typing import Any, cast

from core.client.client import Client
from core.client.msg import Msg
from core.remote.relay import PULLS_MAX, PUSHES_MAX, Relay, Relays
from core.remote.request_side import Call, Row
from core.remote.subject_map import SubjectMap

BASE = b"_INBOX.x.D."


class FakeHere:
    """A side where a test says who listens."""

    def __init__(self) -> None:
        self.on_interest: list[Callable[[bytes], None]] = []
        self.listening: set[bytes] = set()
        self.got: list[tuple[bytes, Row]] = []

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        raise AssertionError("relays serve nothing")

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        raise AssertionError("relays only deliver")

    def has_interest(self, subject: bytes) -> bool:
        return subject in self.listening

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        self.got += [(to, row) for row in rows]
        return to in self.listening

    def throttle(self, client: Client) -> None:
        """Never too much."""


class FakeClient:
    """The subscriptions there, by inbox."""

    def __init__(self) -> None:
        self.connected = True
        self.subscribed: dict[bytes, bytes] = {}

    def subscribe(self, subject: bytes, on_batch: Any, *, queue: bytes = b"") -> Any:
        self.subscribed[subject] = queue
        client = self

        class Sub:
            def unsubscribe(self) -> None:
                del client.subscribed[subject]

        return Sub()


class Bench:
    def __init__(self) -> None:
        self.here, self.client, self.now = FakeHere(), FakeClient(), 0
        self.relays = Relays(
            self.here, cast(Client, self.client), SubjectMap("hub"), BASE, lambda: self.now
        )

    def delivered(self, relay: Relay, *messages: Msg) -> list[Row]:
        relay.on_batch(list(messages))
        rows = [row for _, row in self.here.got]
        self.here.got.clear()
        return rows


def test_a_push_is_carried_while_there_is_a_subscription() -> None:
    bench = Bench()
    relay = bench.relays.push(b"to", b"crew", without_acks=True)
    before = dict(bench.client.subscribed)

    bench.here.listening.add(b"to")
    bench.relays.on_interest(b"to")
    during = dict(bench.client.subscribed)
    bench.here.listening.clear()
    bench.relays.on_interest(b"to")
    after = dict(bench.client.subscribed)

    assert (before, during, after) == ({}, {relay.inbox: b"crew"}, {})


def test_a_listener_that_vanished_is_noticed() -> None:
    bench = Bench()
    bench.here.listening.add(b"to")
    relay = bench.relays.push(b"to", b"", without_acks=True)

    bench.here.listening.clear()
    bench.delivered(relay, Msg(b"s", b"", b"", b"1"))

    assert bench.client.subscribed == {}
    assert len(bench.relays) == 0


def test_messages_keep_their_subject_and_acknowledgements_find_back() -> None:
    bench = Bench()
    ack = b"$JS.ACK.S.C.1.7.3.17.0"
    plain = bench.relays.push(b"to", b"", without_acks=True)
    acked = bench.relays.push(b"to", b"", without_acks=False)

    assert bench.delivered(plain, Msg(b"s.x", ack, b"", b"1")) == [(b"s.x", ack, b"", b"1")]
    assert bench.delivered(acked, Msg(b"s.x", ack, b"", b"1")) == [
        (b"s.x", b"$JS.ACK.hub._.S.C.1.7.3.17.0", b"", b"1")
    ]


def test_control_messages_are_renamed() -> None:
    bench = Bench()
    relay = bench.relays.push(b"to", b"", without_acks=True)
    flow = b"NATS/1.0 100 FlowControl Request\r\n\r\n"

    rows = bench.delivered(relay, Msg(relay.inbox, b"$JS.FC.S.C.ab", flow, b""))

    assert rows == [(b"to", b"$JS.hub.FC.S.C.ab", flow, b"")]


def test_a_pull_ends_with_its_time_or_its_asker() -> None:
    bench = Bench()
    bench.here.listening |= {b"one", b"two"}
    bench.relays.pull(b"one", 10)
    bench.relays.pull(b"two", 1000)

    bench.now = 11
    bench.relays.sweep()
    left = len(bench.relays)
    bench.here.listening.clear()
    bench.relays.on_interest(b"two")

    assert (left, len(bench.relays)) == (1, 0)


def test_pulls_of_one_asker_share_an_inbox() -> None:
    bench = Bench()
    bench.here.listening.add(b"me")

    first, second = bench.relays.pull(b"me", 10), bench.relays.pull(b"me", 10)

    assert first is second


def test_there_are_never_more_than_so_many() -> None:
    bench = Bench()

    for number in range(PULLS_MAX + 10):
        bench.relays.pull(b"%d" % number, 10)

    assert len(bench.client.subscribed) == PULLS_MAX


def test_of_too_many_pushes_one_without_a_listener_goes() -> None:
    bench = Bench()
    bench.here.listening |= {b"first", b"last"}
    first = bench.relays.push(b"first", b"", without_acks=True)
    idle = bench.relays.push(b"idle", b"", without_acks=True)

    for number in range(PUSHES_MAX - 1):
        bench.relays.push(b"%d" % number, b"", without_acks=True)

    assert len(bench.relays.pushes) == PUSHES_MAX
    assert first.inbox in bench.relays.pushes
    assert idle.inbox not in bench.relays.pushes
