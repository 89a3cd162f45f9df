"""How much of what many peers send is served in one tick of the loop."""

# Subject: HTTP

import itertools
from collections.abc import Callable, Iterator

import pytest

from core.runtime import step_queue
from tests.support.websocket import frame, request
from tests.unit.gateway.test_http_protocol import HEAD, KIB, Loop, Peer, looped

PEERS = 20
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step is all that a tick may do."""
    monkeypatch.setattr(step_queue, "TICK_NS", 0)


@pytest.fixture
def loop() -> Iterator[Loop]:
    with looped() as made:
        yield made


@pytest.fixture
def peers(loop: Loop) -> Iterator[list[Peer]]:
    async def make() -> list[Peer]:
        return [Peer(loop) for _ in range(PEERS)]

    made = loop.run_until_complete(make())
    yield made
    for peer in made:
        peer.transport.close()
        peer.transport.protocol.connection_lost(None)
    loop.run_tick()


def send(loop: Loop, peers: list[Peer], data: bytes) -> None:
    """Have all of them send the same in one tick."""

    async def give() -> None:
        for peer in peers:
            peer.give(data)

    loop.run_until_complete(give())


def steps(loop: Loop, look: Callable[[], int], end: int) -> list[int]:
    """How much a number changes in each tick, until it is `end`."""
    seen = [look()]

    def watch() -> None:
        seen.append(look())
        if seen[-1] != end and len(seen) < 50_000:
            loop.call_soon(watch)
        else:
            loop.stop()

    loop.call_soon(watch)
    loop.run_forever()
    assert seen[-1] == end
    return [abs(after - before) for before, after in itertools.pairwise(seen)]


def test_one_handshake_begins_in_a_tick(loop: Loop, peers: list[Peer]) -> None:
    send(loop, peers, request({"Sec-WebSocket-Protocol": "a," * 50 + "b"}))

    begun = steps(loop, lambda: sum(peer.transport.protocol is not peer.http for peer in peers), 20)
    assert max(begun) == 1


def test_one_large_head_is_read_in_a_tick(loop: Loop, peers: list[Peer]) -> None:
    send(loop, peers, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 30_000 + b"\r\n\r\n")

    read = steps(loop, lambda: sum(peer.http.cycle is not None for peer in peers), PEERS)
    assert max(read) == 1


def test_one_piece_of_a_chunked_body_is_read_in_a_tick(loop: Loop, peers: list[Peer]) -> None:
    send(loop, peers, CHUNKED + b"1\r\na\r\n" * 5000)

    read = steps(loop, lambda: sum(peer.http._reader.held for peer in peers), 0)
    assert max(read) <= 64 * len(b"1\r\na\r\n")


def test_a_body_of_very_many_chunks_arrives_whole(loop: Loop, peers: list[Peer]) -> None:
    peer = peers[0]
    sent = CHUNKED + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n" + HEAD + b"\r\n"
    most = 0
    while sent:
        sent = sent[peer.send(sent) :]
        loop.run_tick()
        most = max(most, peer.http._reader.held)
    while len(peer.run) < 2:
        loop.run_tick()

    assert peer.run == [("POST", b"a" * 100_000), ("POST", b"")]
    assert most <= 256 * KIB


@pytest.mark.parametrize("first", [0x89, 0x8A, 0x00])
def test_one_piece_of_the_frames_of_a_known_peer_is_read_in_a_tick(
    loop: Loop, peers: list[Peer], first: int
) -> None:
    for peer in peers:
        peer.admits = True
    send(loop, peers, request())
    while not all(peer.transport.written for peer in peers):
        loop.run_tick()
    begin = frame(b"", 0x02) if first == 0x00 else b""
    send(loop, peers, begin + frame(b"", first) * 5000)

    read = steps(loop, lambda: sum(len(peer.transport.protocol._pending.data) for peer in peers), 0)
    assert max(read) <= 4096
