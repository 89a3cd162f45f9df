"""Who waits for a link to have less unsent, and a link that has too much."""

# Subject: routes

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from core.protocol.routed import interest
from core.pubsub.limits import Limits
from core.pubsub.server import Hub
from core.remote.request_side import AccountSide
from core.route.backlog import WaitingSenders
from core.route.handshake import RouteInfo, encode_info
from core.route.link import RouteLink
from core.route.mesh import Mesh
from core.route.settings import ClusterSettings
from core.runtime.loop_tick import LoopTick
from core.transport.session import ClientSession
from tests.support.sessions import ManualClock, Socket

CONNECT = b'CONNECT {"verbose":false,"headers":true}\r\n'
MOST = 64 << 20
LARGE = b"PUB flood 40000\r\n%b\r\n" % bytes(40_000)


@contextmanager
def standing_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that makes the ticks that a test asks for."""
    loop = asyncio.new_event_loop()
    asyncio.events._set_running_loop(loop)
    try:
        yield loop
    finally:
        asyncio.events._set_running_loop(None)
        loop.close()


def one_tick(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.events._set_running_loop(None)
    loop.call_soon(loop.stop)
    loop.run_forever()
    asyncio.events._set_running_loop(loop)


def test_waiting_senders_go_on_in_order_and_not_all_at_once() -> None:
    with standing_loop() as loop:
        blocked = [False]
        waiting = WaitingSenders(lambda: blocked[0])
        gone_on: list[int] = []
        for number in range(50):
            waiting.calls.append(partial(gone_on.append, number))
        waiting.go_on()
        waiting.go_on()
        one_tick(loop)
        assert gone_on == list(range(16))
        one_tick(loop)
        assert gone_on == list(range(32))
        blocked[0] = True
        one_tick(loop)
        one_tick(loop)
        assert gone_on == list(range(32))
        blocked[0] = False
        waiting.go_on()
        one_tick(loop)
        one_tick(loop)
        assert gone_on == list(range(50))
        assert not waiting.calls


class Place:
    """A server with one link, to a peer that listens to `flood`."""

    def __init__(self, limits: Limits | None = None, *, holds: bool = True) -> None:
        self.hub = Hub(LoopTick(), ManualClock(), limits=limits, jetstream=False)
        self.mesh = Mesh(self.hub, ClusterSettings(name="test"))
        self.link, self.socket = RouteLink(self.mesh), Socket()
        self.link.connection_made(self.socket)
        told = encode_info(RouteInfo(server_id="P", cluster="test", holds=holds))
        heard = b'CONNECT {"cluster":"test"}\r\n' + told + interest(b"$G", b"flood", b"", 1)
        self.link.data_received(heard)
        assert self.link.is_registered

    def client(self) -> tuple[ClientSession, Socket]:
        session, socket = ClientSession(self.hub), Socket()
        session.connection_made(socket)
        session.data_received(CONNECT)
        return session, socket


def test_only_senders_into_a_link_with_much_unsent_wait() -> None:
    with standing_loop() as loop:
        place = Place()
        feeder, fed = place.client()
        other, spared = place.client()
        place.link.pause_writing()
        feeder.data_received(LARGE)
        other.data_received(LARGE.replace(b"flood", b"where"))
        one_tick(loop)
        one_tick(loop)
        assert (fed.reading, spared.reading) == (False, True)
        place.link.resume_writing()
        one_tick(loop)
        assert fed.reading


def test_small_publishes_wait_too_and_smaller_ones_may_be_many() -> None:
    with standing_loop() as loop:
        place = Place()
        feeder, fed = place.client()
        place.link.pause_writing()
        feeder.data_received(b"PUB flood 2\r\nhi\r\n")
        one_tick(loop)
        assert fed.reading
        feeder.data_received(b"PUB flood 600\r\n%b\r\n" % bytes(600))
        one_tick(loop)
        assert not fed.reading
        place.link.resume_writing()
        one_tick(loop)
        assert fed.reading


class Remote:
    """The connection to another JetStream system, whose messages go to clients here and there."""

    is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


def test_remotes_wait_for_links_too() -> None:
    with standing_loop() as loop:
        place = Place()
        remote: Any = Remote()
        side = AccountSide(place.hub.default_account())
        side.throttle(remote)
        assert remote.is_reading
        place.link.pause_writing()
        side.throttle(remote)
        assert not remote.is_reading
        place.link.resume_writing()
        one_tick(loop)
        assert remote.is_reading


def test_senders_that_wait_for_a_link_go_on_when_it_is_lost() -> None:
    with standing_loop() as loop:
        place = Place()
        feeder, fed = place.client()
        place.link.pause_writing()
        feeder.data_received(LARGE)
        assert not fed.reading
        place.link.abort()
        one_tick(loop)
        assert fed.reading
        assert not place.hub.blocked_links
        place.link.connection_lost(None)


def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    with standing_loop() as loop:
        place = Place()
        feeder, fed = place.client()
        place.link.pause_writing()
        feeder.data_received(LARGE)
        feeder.connection_lost(None)
        place.link.resume_writing()
        one_tick(loop)
        assert not fed.reading


def test_a_peer_for_which_too_much_gathers_all_the_same_is_dropped() -> None:
    """What is not published by clients cannot wait: answers, say."""
    with standing_loop():
        place = Place()
        account = place.hub.default_account()
        place.link.pause_writing()
        place.socket.pending = MOST
        account.publish(b"flood", b"", b"", b"x")
        place.hub.loop_tick.run()
        assert not place.link.closed
        place.socket.pending += 1
        account.publish(b"flood", b"", b"", b"x")
        place.hub.loop_tick.run()
        assert place.link.closed
        assert (place.hub.slow_consumers, place.hub.slow_routes) == (1, 1)
        assert not place.hub.blocked_links
        place.link.connection_lost(None)


def test_a_peer_is_notified_of_overload_and_of_its_end_once() -> None:
    with standing_loop():
        place = Place()
        place.hub.loop_tick.run()
        place.socket.drain()
        for _ in range(3):
            place.hub.begin_backpressure()
        place.hub.end_backpressure()
        place.hub.loop_tick.run()
        assert place.socket.drain() == b"HOLD\r\nRELEASE\r\n"


def test_a_server_that_becomes_a_peer_during_overload_is_notified_too() -> None:
    with standing_loop():
        place = Place()
        place.hub.begin_backpressure()
        second, socket = RouteLink(place.mesh), Socket()
        second.connection_made(socket)
        told = encode_info(RouteInfo(server_id="Q", cluster="test", holds=True))
        second.data_received(b'CONNECT {"cluster":"test"}\r\n' + told)
        place.hub.loop_tick.run()
        assert b"\r\nHOLD\r\n" in socket.drain()


def test_senders_to_an_overloaded_peer_wait() -> None:
    with standing_loop() as loop:
        place = Place()
        feeder, fed = place.client()
        place.link.data_received(b"HOLD\r\n")
        feeder.data_received(LARGE)
        one_tick(loop)
        assert not fed.reading
        place.link.pause_writing()
        place.link.data_received(b"RELEASE\r\n")
        one_tick(loop)
        assert not fed.reading, "much is unsent, besides"
        place.link.resume_writing()
        one_tick(loop)
        assert fed.reading


def test_a_peer_that_cannot_be_notified_is_read_slowly() -> None:
    large = b"RMSG $G x 40000\r\n%b\r\n" % bytes(40_000)
    with standing_loop():
        place = Place(holds=False)
        place.hub.loop_tick.run()
        place.socket.drain()
        place.hub.begin_backpressure()
        place.link.data_received(b"RMSG $G x 2\r\nhi\r\n")
        assert place.socket.reading
        place.link.data_received(large)
        assert not place.socket.reading
        place.hub.end_backpressure()
        assert place.socket.reading
        place.hub.loop_tick.run()
        assert place.socket.drain() == b""
    with standing_loop():
        place = Place()
        place.hub.begin_backpressure()
        place.link.data_received(large)
        assert place.socket.reading


def test_a_link_is_blocked_by_what_gathers_within_a_turn() -> None:
    """So that consumers, which deliver much in one loop tick, alternate."""
    with standing_loop() as loop:
        place = Place(Limits(max_pending=8_000_000))
        called: list[bool] = []
        account = place.hub.default_account()
        account.publish(b"flood", b"", b"", bytes(900_000))
        assert not place.link.blocked
        account.publish(b"flood", b"", b"", bytes(200_000))
        assert place.link.blocked
        place.link.on_writable.append(lambda: called.append(True))
        place.hub.loop_tick.run()
        assert not place.link.blocked
        one_tick(loop)
        assert called == [True]


def test_the_interest_of_a_peer_ends_with_its_link_even_if_closing_fails() -> None:
    def fail() -> None:
        raise RuntimeError("another part of the server")

    with standing_loop():
        place = Place()
        place.mesh.changed_peers.subscribe(fail)
        assert place.hub.default_account().has_interest(b"flood")
        with pytest.raises(RuntimeError, match="another part"):
            place.link.connection_lost(None)
        assert not place.hub.default_account().has_interest(b"flood")


def test_a_link_whose_socket_is_gone_already_ends_without_a_write() -> None:
    """The loop tells the end of a socket in a later tick; a timer may come before."""
    with standing_loop():
        place = Place()
        place.socket.close()
        writes = place.socket.writes
        place.link.close("Authentication Timeout", "Authentication Timeout")
        assert place.link.closed
        assert place.socket.writes == writes


def test_bytes_behind_the_close_of_a_link_are_not_read() -> None:
    told = encode_info(RouteInfo(server_id="P", cluster="test", ldm=True))
    with standing_loop():
        place = Place()
        place.mesh.changed_peers.subscribe(lambda: place.link.close("Leads No More"))
        place.link.data_received(told + interest(b"$G", b"more", b"", 1) + told)
        assert place.link.closed
        assert not place.hub.default_account().has_interest(b"more")
