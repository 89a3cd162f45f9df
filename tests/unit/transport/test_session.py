"""One session over a transport that a test controls: liveness, slow consumers, back-pressure."""

# Subject: protocol, slow consumers

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core.auth.users import User, Users
from core.pubsub.limits import Limits
from core.pubsub.server import IN_PROCESS, TRUSTED, Hub
from core.runtime.loop_tick import LoopTick
from core.runtime.tasks import counters
from core.transport import session as session_module
from core.transport.liveness import SessionLiveness
from core.transport.session import ClientSession
from core.units import Seconds
from tests.support.gathering import reads_are_worth_gathering  # noqa: F401  (a fixture)
from tests.support.sessions import ManualClock, Only, Socket

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
VERBOSE = b'CONNECT {"verbose":true,"headers":true}\r\n'


class World:
    """A hub on a manual clock, with sessions."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits | None) -> None:
        self.loop = loop
        self.clock = ManualClock()
        self.hub = Hub(LoopTick(), self.clock, limits=limits)
        self.liveness = SessionLiveness(self.hub)

    def join(self, first: bytes = CONNECT) -> tuple[ClientSession, Socket]:
        session, socket = ClientSession(self.hub), Socket()
        self.liveness.watch(session)
        session.connection_made(socket)
        assert socket.drain().startswith(b"INFO {")
        session.data_received(first)
        return session, socket

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.liveness.tick()
        self.hub.loop_tick.run()

    def one_tick(self) -> None:
        """Let the loop make one tick."""
        asyncio.events._set_running_loop(None)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        asyncio.events._set_running_loop(self.loop)


@contextmanager
def world(limits: Limits | None = None) -> Iterator[World]:
    """A world within a loop that stands still: only the test makes ticks."""
    loop = asyncio.new_event_loop()
    asyncio.events._set_running_loop(loop)
    try:
        yield World(loop, limits)
    finally:
        asyncio.events._set_running_loop(None)
        loop.close()


def test_a_silent_client_is_pinged_and_then_closed() -> None:
    with world(Limits(ping_interval=Seconds(10), ping_max=2)) as w:
        session, socket = w.join()
        w.pass_time(1)
        assert socket.drain() == b""
        w.pass_time(1)
        assert socket.drain() == b"PING\r\n"
        w.pass_time(10)
        assert socket.drain() == b"PING\r\n"
        w.pass_time(10)

        assert socket.drain() == b"-ERR 'Stale Connection'\r\n"
        assert socket.is_closed
        assert session.closed
        assert session.close_reason == "Stale Connection"
        assert w.hub.stale_connections == 1
        assert not w.hub.sessions


def test_clients_learn_addresses_that_they_can_reach() -> None:
    """Again when these change: those over WebSocket of places over WebSocket."""
    with world() as w:
        first = b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n'
        _, socket = w.join(first)
        w.hub.loop_tick.run()
        web, web_socket = w.join(b"")
        web.connection_type = "WEBSOCKET"
        web.data_received(first)
        w.hub.loop_tick.run()
        for each in (socket, web_socket):
            assert each.drain().startswith(b"PONG\r\nINFO {")

        w.hub.use_cluster("c", ("a:1",))
        w.hub.use_cluster("c", ("a:1",), ("b:2",))
        w.hub.use_cluster("c", ("a:1",), ("b:2",))
        w.hub.loop_tick.run()

        told = [line for line in socket.drain().split(b"\r\n") if line]
        assert [b'"connect_urls":["a:1"]' in line for line in told] == [True]
        told = [line for line in web_socket.drain().split(b"\r\n") if line]
        assert [b'"connect_urls":["b:2"]' in line for line in told] == [False, True]


def test_nothing_of_a_client_waits_for_its_next_look() -> None:
    with world(Limits(ping_interval=Seconds(1000))) as w:
        session, _ = w.join()
        w.pass_time(2)
        alive = weakref.ref(session)
        session.connection_lost(None)
        del session
        gc.collect()

        assert alive() is None


def test_a_client_that_has_gone_leaves_nothing_to_the_garbage_collector() -> None:
    with world() as w:
        session, _ = w.join()
        session.data_received(b"SUB a 1\r\nPUB a 1\r\nx\r\n")
        w.hub.loop_tick.run()
        alive = weakref.ref(session)
        gc.collect()
        gc.disable()
        try:
            session.connection_lost(None)
            del session
            assert alive() is None
        finally:
            gc.enable()


def test_a_client_that_answers_stays() -> None:
    with world(Limits(ping_interval=Seconds(10), ping_max=2)) as w:
        session, socket = w.join()
        for _ in range(20):
            w.pass_time(10)
            if socket.drain():
                w.clock.advance(0.001)
                session.data_received(b"PONG\r\n")

        assert not session.closed
        assert session.rtt == 1_000_000


def test_a_client_that_talks_is_not_pinged_again() -> None:
    with world(Limits(ping_interval=Seconds(10))) as w:
        session, socket = w.join()
        w.pass_time(2)
        session.data_received(b"PONG\r\n")
        socket.drain()
        for _ in range(5):
            session.data_received(b"PUB a 1\r\nx\r\n")
            w.pass_time(10)

        assert socket.drain() == b""


def test_everything_of_a_turn_is_one_write() -> None:
    with world() as w:
        session, socket = w.join()
        session.data_received(b"SUB a 1\r\n" + b"PUB a 1\r\nx\r\n" * 500 + b"PING\r\n")
        socket.writes = 0

        w.hub.loop_tick.run()

        assert socket.writes == 1
        assert socket.drain() == b"MSG a 1 1\r\nx\r\n" * 500 + b"PONG\r\n"


def test_a_large_read_is_served_at_once_and_yields() -> None:
    with world() as w:
        session, socket = w.join(CONNECT + b"SUB a 1\r\n")

        session.data_received(b"PUB a 100\r\n%b\r\n" % (b"x" * 100) * 400)

        assert socket.drain().count(b"MSG a 1 100") == 400
        assert not socket.reading
        session.resume()
        assert socket.reading


def test_a_consumer_that_takes_nothing_is_cut_at_max_pending() -> None:
    with world(Limits(max_pending=10_000)) as w:
        slow, slow_socket = w.join(CONNECT + b"SUB a 1\r\n")
        good, good_socket = w.join(CONNECT + b"SUB a 1\r\n")
        publisher, _ = w.join()
        slow_socket.is_stuck = True
        slow.pause_writing()
        for _ in range(12):
            publisher.data_received(b"PUB a 900\r\n%b\r\n" % (b"x" * 900))
            w.hub.loop_tick.run()

        assert slow.closed
        assert slow.close_reason == "Slow Consumer (Pending Bytes)"
        assert b"-ERR" not in slow_socket.drain()
        assert not good.closed
        assert good_socket.drain().count(b"MSG") == 12
        assert w.hub.slow_consumers == 1


def test_the_producer_that_fills_a_slow_consumer_is_held_back() -> None:
    with world(Limits(max_pending=100_000)) as w:
        slow, socket = w.join(CONNECT + b"SUB a 1\r\n")
        socket.is_stuck = True
        slow.pause_writing()
        publisher, publisher_socket = w.join()

        publisher.data_received(b"PUB a 80000\r\n%b\r\n" % (b"x" * 80_000))

        assert not slow.closed
        assert not publisher_socket.reading
        assert not w.hub.output_nearly_full, "the publisher took note"


def test_a_socket_without_progress_is_cut_after_the_write_deadline() -> None:
    with world(
        Limits(write_deadline=Seconds(5), ping_interval=Seconds(1000), first_ping=Seconds(1000))
    ) as w:
        session, socket = w.join(CONNECT + b"SUB a 1\r\n")
        socket.is_stuck = True
        session.data_received(b"PUB a 1\r\nx\r\n")
        w.hub.loop_tick.run()
        session.pause_writing()
        w.pass_time(4)
        socket.pending -= 3
        w.pass_time(4)
        w.pass_time(4)
        assert not session.closed, "it took three bytes meanwhile"

        w.pass_time(2)

        assert session.close_reason == "Slow Consumer (Write Deadline)"


def test_a_blocked_session_wakes_its_waiters() -> None:
    with world() as w:
        session, _ = w.join()
        woken: list[int] = []
        session.pause_writing()
        assert session.blocked
        session.on_writable.append(lambda: woken.append(1))

        session.resume_writing()
        session.resume_writing()

        assert woken == [1]
        assert not session.blocked
        assert not w.hub.blocked


def test_a_closing_session_wakes_its_waiters() -> None:
    with world() as w:
        session, _ = w.join()
        woken: list[int] = []
        session.on_writable.append(lambda: woken.append(1))

        session.connection_lost(None)

        assert woken == [1]


def test_an_overloaded_hub_lets_only_small_reads_through() -> None:
    with world() as w:
        talker, talker_socket = w.join()
        flood, flood_socket = w.join()
        w.hub.begin_backpressure()

        talker.data_received(b"PING\r\n")
        flood.data_received(b"PUB a 1000\r\n%b\r\n" % (b"x" * 1000))
        w.hub.loop_tick.run()

        assert talker_socket.reading
        assert talker_socket.drain() == b"PONG\r\n"
        assert not flood_socket.reading
        flood.resume()
        assert not flood_socket.reading, "the hub is still overloaded"
        w.hub.end_backpressure()
        assert flood_socket.reading


def test_many_small_reads_do_not_get_round_the_overload() -> None:
    with world() as w:
        session, socket = w.join()
        w.hub.begin_backpressure()
        for _ in range(400):
            session.data_received(b"PUB a 180\r\n%b\r\n" % (b"x" * 180))
            if not socket.reading:
                break

        assert not socket.reading


def test_a_timer_that_ends_a_session_whose_socket_has_closed_writes_nothing() -> None:
    """The loop calls connection_lost in a later tick than the socket closes."""
    with world() as w:
        session, socket = w.join()
        socket.close()
        writes = socket.writes
        session.close("Authentication Timeout", "Authentication Timeout")
        assert session.closed
        assert socket.writes == writes


def test_a_session_that_is_gone_leaves_nothing_behind() -> None:
    with world() as w:
        session, _ = w.join(CONNECT + b"SUB a 1\r\nSUB b q 2\r\nSUB c.* 3\r\n")
        session.data_received(b"PUB a 3\r\nxyz\r\nPUB c.d 1\r\nx\r\n")
        w.hub.loop_tick.run()

        session.connection_lost(ConnectionResetError())
        session.data_received(b"PUB a 3\r\nxyz\r\n")

        account = w.hub.default_account()
        assert account.client_subscriptions == 0
        assert not account.has_interest(b"c.d")
        assert not w.hub.sessions
        total = w.hub.totals()
        assert (total.in_msgs, total.in_bytes, total.out_msgs) == (2, 4, 2)
        assert total.out_bytes > 0


def test_counters_add_up_over_living_and_dead_sessions() -> None:
    with world() as w:
        one, _ = w.join(CONNECT + b"SUB a 1\r\n")
        two, _ = w.join(CONNECT + b"SUB a 1\r\n")
        one.data_received(b"PUB a 2\r\nxy\r\n" * 10)
        two.connection_lost(None)
        one.data_received(b"PUB a 2\r\nxy\r\n" * 10 + b"UNSUB 1\r\n")

        total = w.hub.totals()

        assert (total.in_msgs, total.in_bytes, total.out_msgs) == (20, 40, 30)
        assert w.hub.connections_total == 2


def test_one_subscription_limit_across_unsub_and_deliveries() -> None:
    with world() as w:
        session, socket = w.join(CONNECT + b"SUB a 1\r\n")
        session.data_received(
            b"PUB a 1\r\n1\r\n" * 20 + b"UNSUB 1 22\r\n" + b"PUB a 1\r\n2\r\n" * 9
        )
        w.hub.loop_tick.run()

        assert socket.drain().count(b"MSG") == 22
        assert not session.subscriptions


def test_a_subject_that_ends_in_a_dot_goes_nowhere_in_a_batch_either() -> None:
    with world() as w:
        session, _ = w.join()
        bodies: list[bytes] = []
        service = w.hub.default_account().subscribe(
            b"s.>", lambda *wording: bodies.append(wording[4])
        )
        service.batch = lambda batch: bodies.extend(batch.payloads)

        session.data_received(b"PUB s.1 1\r\na\r\nPUB s.1 1\r\nb\r\n")
        session.data_received(b"PUB s.1 1\r\nc\r\nPUB s. 1\r\nx\r\nPUB s.2 1\r\nd\r\n")

        assert session.parser.gathers is False
        assert bodies == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("first", "sent", "together", "refusals"),
    [
        (CONNECT, [b"s.1 r.1", b"s.2", b"s.1 r.2"], True, 0),
        (CONNECT, [b"s.1.a r.1", b"s.1.b", b"s.1.a r.2"], True, 0),
        (CONNECT, [b"s.1 r.1", b"t.1 r.2"], False, 0),
        (CONNECT, [b"s.1 r.1", b"plain", b"s.1"], False, 0),
        (CONNECT, [b"s.1 r.1", *[b"s.%d" % i for i in range(8)], b"nobody r.2"], False, 0),
        (CONNECT, [b"s.1 r.1", b"s.1 $JS.ACK.x", b"s.1"], False, 1),
        (CONNECT, [b"s.1 r.1", b"$NRG.x", b"s.1"], False, 1),
        (VERBOSE, [b"s.1 r.1", b"s.2", b"s.1 r.2"], False, 0),
    ],
)
def test_messages_of_one_read_go_together_to_a_stream_that_is_all_their_receiver(
    first: bytes, sent: list[bytes], together: bool, refusals: int
) -> None:
    with world() as w:
        session, socket = w.join(first)
        account = w.hub.default_account()
        batches: list[list[bytes]] = []
        bodies: list[bytes] = []

        def one(_s: object, _subject: bytes, _reply: bytes, _headers: bytes, body: bytes) -> None:
            bodies.append(body)

        account.subscribe(b"s.>", one).batch = lambda batch: batches.append(batch.payloads)
        account.subscribe(b"t.>", one).batch = lambda batch: batches.append(batch.payloads)
        account.subscribe(b"plain", one)

        session.data_received(
            b"".join(b"PUB %b 1\r\n%d\r\n" % (line, i) for i, line in enumerate(sent))
        )
        w.one_tick()

        all_of_them = [b"%d" % i for i in range(len(sent))]
        wording = socket.drain()
        assert wording.count(b"-ERR 'Permissions Violation") == refusals
        assert session.parser.gathers == together
        if together:
            assert (batches, bodies) == ([all_of_them], [])
        else:
            lost = sum(line.startswith(b"nobody") for line in sent)
            assert (batches, len(bodies)) == ([], len(sent) - refusals - lost)
            assert bodies == sorted(bodies, key=int)


def test_many_subscriptions_of_one_read_leave_room_for_others() -> None:
    with world() as w:
        session, socket = w.join()
        session.data_received(b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in range(1800)))
        assert len(session.subscriptions) == 1000
        assert not socket.reading
        session.data_received(b"UNSUB 1799\r\nPING\r\n")
        w.hub.loop_tick.run()
        assert socket.drain() == b""
        w.one_tick()

        assert len(session.subscriptions) == 1799
        assert (socket.drain(), socket.reading) == (b"", False)
        w.one_tick()
        assert (socket.drain(), socket.reading) == (b"PONG\r\n", True)


def test_ten_thousand_publishes_make_no_task_and_few_writes() -> None:
    with world() as w:
        subscriber, subscriber_socket = w.join(CONNECT + b"SUB a.* 1\r\n")
        publisher, _ = w.join()
        stream = b"".join(
            b"PUB a.%d r.%d 100\r\n%b\r\n" % (n % 7, n, b"x" * 100) for n in range(10_000)
        )
        reads = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]
        tasks, subscriber_socket.writes = counters["tasks"], 0

        for data in reads:
            publisher.data_received(data)
        w.hub.loop_tick.run()

        assert subscriber_socket.drain().count(b"MSG a.") == 10_000
        assert subscriber_socket.writes <= len(reads)
        assert counters["tasks"] == tasks
        assert subscriber.account.receivers(b"a.1").sole is not None


def test_a_held_publish_waits_with_all_that_follows_and_comes_first_then() -> None:
    with world() as w:
        w.hub.hold_publishes()
        session, socket = w.join()
        session.data_received(b"SUB a 1\r\nPING\r\nPUB a 1\r\nx\r\nPING\r\n")
        w.one_tick()
        assert socket.drain() == b"PONG\r\n"
        assert not socket.reading
        session.data_received(b"PUB a 1\r\ny\r\n")  # was on its way

        w.hub.resume_publishes()
        w.one_tick()
        w.one_tick()

        assert socket.drain() == b"MSG a 1 1\r\nx\r\nPONG\r\nMSG a 1 1\r\ny\r\n"
        assert socket.reading
        session.data_received(b"PUB a 1\r\nz\r\n")
        w.hub.loop_tick.run()
        assert socket.drain() == b"MSG a 1 1\r\nz\r\n"
        assert session.count().in_msgs == 3


def test_a_session_that_publishes_nothing_is_not_held() -> None:
    with world() as w:
        w.hub.hold_publishes()
        session, socket = w.join()
        session.data_received(b"SUB a 1\r\nPI")
        w.hub.resume_publishes()
        session.data_received(b"NG\r\nPUB a 1\r\nx\r\n")
        w.one_tick()
        w.one_tick()

        assert socket.drain() == b"PONG\r\nMSG a 1 1\r\nx\r\n"
        assert socket.reading


def test_a_publish_is_held_for_half_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_module.HOLD_SECONDS == 30
    monkeypatch.setattr(session_module, "HOLD_SECONDS", 0)
    with world() as w:
        w.hub.hold_publishes()
        session, socket = w.join()
        session.data_received(b"PUB a 1\r\nx\r\n")
        w.one_tick()
        w.one_tick()

        assert socket.drain() == b"-ERR 'JetStream system temporarily unavailable'\r\n"
        assert socket.is_closed
        w.hub.resume_publishes()  # after the end there is nothing to take


def test_a_part_of_this_server_publishes_while_clients_are_held() -> None:
    with world() as w:
        w.hub.hold_publishes()
        session, socket = ClientSession(w.hub), Socket()
        session.connection_type = TRUSTED
        session.connection_made(socket)
        socket.drain()
        session.data_received(CONNECT + b"SUB a 1\r\nPUB a 1\r\nx\r\n")
        w.hub.loop_tick.run()

        assert socket.drain() == b"MSG a 1 1\r\nx\r\n"


def test_a_connected_session_is_read_up_to_its_first_held_publish() -> None:
    """The hold may begin in the middle of anything, and what was read by then is not lost."""
    with world() as w:
        session, socket = w.join()
        session.data_received(b"SUB a 1\r\nPUB a 2\r\nx")
        w.hub.hold_publishes()
        assert not socket.reading
        session.data_received(b"y\r\nPING\r\n")  # was on its way
        w.one_tick()
        assert socket.drain() == b""

        w.hub.resume_publishes()
        w.one_tick()
        w.one_tick()

        assert socket.drain() == b"MSG a 1 2\r\nxy\r\nPONG\r\n"
        assert socket.reading
        w.hub.hold_publishes()
        w.hub.resume_publishes()
        w.one_tick()
        w.one_tick()
        assert socket.reading
        session.data_received(b"PING\r\n")
        w.hub.loop_tick.run()
        assert socket.drain() == b"PONG\r\n"


def test_only_sessions_with_held_publishes_wait() -> None:
    with world() as w:
        one, one_socket = w.join(CONNECT + b"SUB * 1\r\n")
        two, two_socket = w.join()
        one.data_received(b"PUB b 2\r\nx")
        two.data_received(b"PUB a 2\r\nx")
        w.hub.hold_publishes(Only(b"a"))
        one.data_received(b"y\r\n")
        two.data_received(b"y\r\nPING\r\n")
        w.one_tick()
        w.one_tick()
        assert one_socket.drain() == b"MSG b 1 2\r\nxy\r\n"
        assert one_socket.reading
        assert two_socket.drain() == b""
        assert not two_socket.reading

        one.data_received(b"PING\r\nPUB a 1\r\nz\r\nPING\r\n")
        w.hub.loop_tick.run()
        assert one_socket.drain() == b"PONG\r\n"
        assert not one_socket.reading

        w.hub.hold_publishes(Only(b"b"))
        w.one_tick()
        w.one_tick()
        assert sorted(one_socket.drain().split(b"MSG ")) == [
            b"",
            b"a 1 1\r\nz\r\nPONG\r\n",
            b"a 1 2\r\nxy\r\n",
        ]
        assert two_socket.drain() == b"PONG\r\n"
        assert one_socket.reading
        assert two_socket.reading


def test_a_hold_that_begins_before_the_password_is_checked_holds_what_follows_it() -> None:
    with world() as w:
        w.hub.use_users(Users(users=(User("a", "b"),)), None)
        session, socket = w.join(b"CONNECT {")
        w.hub.hold_publishes()
        session.data_received(b'"user":"a","pass":"b"}\r\nPING\r\nPUB a 1\r\nx\r\nPING\r\n')
        w.one_tick()
        w.one_tick()
        assert socket.drain() == b"+OK\r\nPONG\r\n"
        assert not socket.reading

        w.hub.resume_publishes()
        w.one_tick()
        w.one_tick()
        assert socket.drain() == b"+OK\r\nPONG\r\n"
        assert socket.reading


def test_a_client_in_this_process_may_be_held_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "HOLD_SECONDS", 0)
    with world() as w:
        session, socket = ClientSession(w.hub), Socket()
        session.connection_type = IN_PROCESS
        session.connection_made(socket)
        session.data_received(CONNECT)
        w.hub.hold_publishes()
        w.one_tick()
        w.one_tick()

        assert not socket.is_closed
