"""The block `remotes` of `jetgate-nats-server`, read at the start and again on a signal."""

# Subject: remotes

import asyncio
import signal
from pathlib import Path

import nats
from nats.errors import NoRespondersError

from tests.support.dropin import DropIn, config
from tests.support.natsserver import NatsServer


def answers(server: DropIn, name: str) -> bool:
    """Whether the JetStream of a remote answers here."""

    async def ask() -> bool:
        nc = await nats.connect(server.url)
        try:
            answer = await nc.request(f"$JS.{name}.API.INFO", b"", timeout=20)
            return b'"streams":' in answer.data
        except NoRespondersError:
            return False
        finally:
            await nc.close()

    return asyncio.run(ask())


def test_remotes_are_read_at_the_start_and_on_a_signal(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    url = f'"nats://{nats_server.address[0]}:{nats_server.address[1]}"'
    path = config(tmp_path, f"remotes {{ name: one, url: {url} }}")
    with DropIn("jetgate-nats-server", "-c", path) as server:
        server.until("[INF] remote one: connected to ")
        first = answers(server, "one"), answers(server, "two")
        config(tmp_path, f"remotes: [ {{ name: two, url: {url} }} ]")
        server.send(signal.SIGHUP)
        server.until("[INF] remote two: connected to ")
        second = answers(server, "one"), answers(server, "two")

        assert "[INF] Reloaded: remotes" in server.texts()
    assert first == (True, False)
    assert second == (False, True)


def test_a_remote_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with DropIn("jetgate-nats-server", "-c", config(tmp_path, "remotes { hub: 3 }")) as server:
        assert server.end() == 1
        said = "remotes: expected {name, url, creds}, got 3"
        assert f"server.conf:3:1: {said}" in server.log()
