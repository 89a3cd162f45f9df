"""Connections of the official client: options, identity, reconnecting, the end."""

# Subject: protocol

import asyncio
import signal
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client, Server
from nats.errors import (
    ConnectionReconnectingError,
    NoServersError,
    OutboundBufferLimitError,
    StaleConnectionError,
)

from tests.clients.python.place import TIMEOUT, Place, on_both, through, until
from tests.clients.python.relay import Relay
from tests.support.dropin import NAMES, DropIn


@on_both
async def test_the_properties_of_a_connection(place: Place) -> Any:
    nc = await place.connect(name="known", connect_timeout=TIMEOUT)
    assert nc.is_connected
    busy = [nc.is_closed, nc.is_connecting, nc.is_reconnecting, nc.is_draining]
    assert busy == [False] * 4
    assert nc.connected_url is not None
    assert nc.connected_url.port == place.address[1]
    assert [uri.netloc for uri in nc.servers] == [nc.connected_url.netloc]
    assert nc.discovered_servers == []
    assert nc.client_id
    assert nc.pending_data_size == 0
    assert await nc.rtt(timeout=TIMEOUT) < 20
    await nc.flush(timeout=TIMEOUT)
    version = nc.connected_server_version
    assert nc.last_error is None
    await nc.close()
    assert nc.is_closed
    return nc.client_ip, nc.max_payload, (version.major, version.minor, version.patch)


@on_both
async def test_a_connection_is_a_context(place: Place) -> Any:
    async with await place.connect() as nc:
        assert (await nc.jsm(timeout=TIMEOUT).account_info()).streams == 0
    return nc.is_closed


@on_both
async def test_an_echo_may_be_switched_off(place: Place) -> Any:
    quiet, other = await place.connect(no_echo=True), await place.connect()
    own, heard = await quiet.subscribe("e"), await other.subscribe("e")
    await through(other)
    await quiet.publish("e", b"1")
    await quiet.request("$JS.API.INFO", timeout=TIMEOUT)
    await other.publish("e", b"2")
    await through(other)
    await quiet.request("$JS.API.INFO", timeout=TIMEOUT)
    return own.delivered, heard.delivered


@on_both
async def test_every_command_is_confirmed_when_wanted(place: Place) -> Any:
    nc = await place.connect(verbose=True, pedantic=True, flusher_queue_size=8, dont_randomize=True)
    sub = await nc.subscribe("v")
    for i in range(20):
        await nc.publish("v", b"%d" % i)
    await through(nc)
    return [(await sub.next_msg(TIMEOUT)).data for _ in range(20)]


@on_both
async def test_idle_connections_are_kept_alive_by_pings(place: Place) -> Any:
    nc = await place.connect(ping_interval=0.02, max_outstanding_pings=3)
    await until(lambda: nc._pongs_received >= 4)
    return nc.is_connected


@on_both
async def test_a_silent_server_is_left(place: Place) -> Any:
    """Nothing comes back through a way that is held: the client notices by its own pings."""
    steps: list[str] = []

    async def lost() -> None:
        steps.append("lost")

    async with Relay(place.address) as relay:
        nc = await place.connect(
            relay.url,
            ping_interval=0.05,
            max_outstanding_pings=1,
            disconnected_cb=lost,
            allow_reconnect=False,
        )
        relay.is_held = True
        await until(lambda: nc.is_closed and steps)
        assert isinstance(nc.last_error, StaleConnectionError)
    return steps


@on_both
async def test_a_lost_connection_comes_back_with_its_subscriptions(place: Place) -> Any:
    steps: list[str] = []

    async def lost() -> None:
        steps.append("lost")

    async def back() -> None:
        steps.append("back")

    async with Relay(place.address) as relay:
        nc = await place.connect(
            relay.url,
            reconnect_time_wait=0.02,
            max_reconnect_attempts=-1,
            disconnected_cb=lost,
            reconnected_cb=back,
            pending_size=1024,
            flush_timeout=1,
        )
        other = await place.connect()
        sub, limited = await nc.subscribe("on.>"), await nc.subscribe("on.limited")
        await limited.unsubscribe(limit=2)
        await nc.publish("on.limited", b"before")
        await through(nc)
        await relay.shut()
        await relay.disconnect_all()
        await until(lambda: nc.is_reconnecting)
        with pytest.raises(ConnectionReconnectingError):
            await nc.drain()
        with pytest.raises(OutboundBufferLimitError):
            await nc.publish("on.too.much", bytes(2000))
        await nc.publish("on.meanwhile", b"kept")
        assert nc.pending_data_size > 0
        await relay.open()
        await until(lambda: "back" in steps)
        await through(nc)
        for i in range(3):
            await other.publish("on.limited", b"%d" % i)
        await through(other)
        await through(nc)
        found = [await sub.next_msg(TIMEOUT) for _ in range(sub.pending_msgs)]
        assert nc.stats["reconnects"] == 1
        await nc.close()
        return steps, sorted((m.subject, m.data) for m in found), limited.delivered


@on_both
async def test_a_client_may_change_the_server_by_itself(place: Place) -> Any:
    asked: list[tuple[list[int], bool]] = []

    def choose(pool: list[Server], info: dict[str, Any]) -> tuple[Server | None, float]:
        asked.append(([server.reconnects for server in pool], "server_id" in info))
        return next(server for server in pool if server.uri.port == relay.port), 0.0

    async with Relay(place.address) as relay:
        nc = await place.connect(reconnect_to_server_handler=choose)
        before = nc.client_id
        nc.set_server_pool([place.url, relay.url])
        assert [server.uri.port for server in nc.server_pool] == [
            place.address[1],
            relay.port,
        ]
        sub = await nc.subscribe("moved")
        await nc.force_reconnect()
        await until(lambda: nc.is_connected)
        assert nc.connected_url is not None
        assert nc.connected_url.port == relay.port
        assert nc.client_id != before
        await nc.publish("moved", b"here")
        assert (await sub.next_msg(TIMEOUT)).data == b"here"
        await nc.close()
        return asked


@on_both
async def test_a_client_without_a_server_gets_an_error(place: Place) -> Any:
    attempts = {"max_reconnect_attempts": 1, "reconnect_time_wait": 0.01}
    async with Relay(place.address) as relay:
        await relay.shut()
        with pytest.raises(NoServersError):
            await place.connect([relay.url, relay.url], **attempts)
        nc = await place.connect([relay.url, place.url], dont_randomize=True, **attempts)
        return nc.is_connected, len(place.errors) > 2


USERS = """
authorization { users: [ {user: u, password: p, permissions: {publish: "ok.>"}} ] }
port: -1
"""


@pytest.fixture(params=NAMES)
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _config(path: Path, text: str) -> str:
    file = path / "server.conf"
    file.write_text(text)
    return str(file)


def test_users_and_passwords(command: str, tmp_path: Path) -> None:
    async def main(address: tuple[str, int]) -> None:
        place = Place(at=address)
        host = "{}:{}".format(*address)
        nc = await place.connect(user="u", password="p")
        await nc.publish("forbidden", b"")
        await until(lambda: place.errors)
        assert "permissions violation" in str(place.errors[0]).lower()
        assert nc.is_connected
        for options in ({"user": "u", "password": "wrong"}, {"user": "x"}, {}):
            with pytest.raises((nats.errors.Error, NoServersError)):
                await place.connect(allow_reconnect=False, **options)
        named = await place.connect(f"nats://u:p@{host}")
        await named.publish("ok.then", b"")
        await named.flush()
        called = await place.connect(user=lambda: "u", password=lambda: "p")
        await called.flush()
        await place.close()

    path = _config(tmp_path, USERS)
    with DropIn(command, "-c", path) as server:
        asyncio.run(main(server.address))


def test_a_token(command: str) -> None:
    async def main(address: tuple[str, int]) -> None:
        place = Place(at=address)
        host = "{}:{}".format(*address)
        for options in ({"token": "s3cr3t"}, {"token": lambda: "s3cr3t"}):
            nc = await place.connect(**options)
            await through(nc)
        await (await place.connect(f"nats://s3cr3t@{host}")).flush()
        with pytest.raises(nats.errors.Error):
            await place.connect(token="wrong", allow_reconnect=False)
        await place.close()

    with DropIn(command, "-p", "-1", "--auth", "s3cr3t") as server:
        asyncio.run(main(server.address))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's own
def test_over_websocket(command: str, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        place = Place()
        nc = await place.connect(
            url, ws_connection_headers={"X-Test": ["1", "2"]}, max_reconnect_attempts=1
        )
        sub = await nc.subscribe("w")
        for size in (0, 100, 70_000, nc.max_payload):
            await nc.publish("w", bytes(size))
            assert len((await sub.next_msg(TIMEOUT)).data) == size
        js = nc.jetstream(timeout=TIMEOUT)
        await js.add_stream(name="W", subjects=["in.>"])
        for i in range(100):
            await js.publish_async("in.x", b"%d" % i)
        await js.publish_async_completed()
        pull = await js.pull_subscribe("in.>", "d")
        found = [msg.metadata.sequence.stream for msg in await pull.fetch(100, TIMEOUT)]
        assert found == list(range(1, 101))
        await place.close()

    path = _config(tmp_path, "websocket { port: -1, no_tls: true }\nport: -1\n")
    with DropIn(command, "-c", path, "-js", "-sd", str(tmp_path / "store")) as server:
        asyncio.run(main(server.ports()["websocket"][0]))


def test_a_server_in_lame_duck_mode_announces_it(command: str, tmp_path: Path) -> None:
    told: list[str] = []

    async def leaving() -> None:
        told.append("lame duck")

    async def main(server: DropIn) -> None:
        place = Place(at=server.address)
        nc: Client = await place.connect(lame_duck_mode_cb=leaving, allow_reconnect=False)
        await through(nc)
        server.send(signal.SIGUSR2)
        await until(lambda: told)
        await until(lambda: nc.is_closed)
        await place.close()

    path = _config(
        tmp_path, 'lame_duck_duration: "30s"\nlame_duck_grace_period: "0.1s"\nport: -1\n'
    )
    with DropIn(command, "-c", path) as server:
        asyncio.run(main(server))
        assert server.end() == 0
    assert told == ["lame duck"]
