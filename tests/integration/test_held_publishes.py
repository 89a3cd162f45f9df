"""Once 16 MiB of publishes wait for the leader of a stream, who publishes more is told 10008."""

# Subject: leadership

import asyncio
import json
from typing import cast

import pytest

from core.api import held
from core.api.leaderless import Leaderless
from core.cluster.directory import StreamDirectory
from core.model import codec
from core.model.stream import StreamConfig
from core.node.owner_links import OwnerLinks
from core.node.publish_gate import PublishGate
from core.node.server import Server, ServerOptions
from core.pubsub.receivers import Session as Publisher
from core.route.database_mesh import DatabaseMesh
from core.storage.interface import DirectoryNews, DirectoryRow
from core.transport.session import ClientSession
from core.units import LeaseGroup
from tests.support.eventually import observed
from tests.support.lease_groups import lease_groups
from tests.support.mesh import Mesh
from tests.support.node_clients import UNAVAILABLE
from tests.support.sessions import ManualClock

GROUP = LeaseGroup(7)
CLIENTS, EACH, SIZE = 100, 100, 1000
MAX = 512 * 1024
READ = 256 * 1024


def stream() -> DirectoryNews:
    config = codec.encode(StreamConfig(name="GONE", subjects=("gone.>",))).decode()
    rows = (DirectoryRow(1, "$G", "GONE", config=config, lease_group=GROUP),)
    return DirectoryNews(1, rows, is_whole=True)


class Client:
    """Publishes with a reply, and notes which publishes were refused."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.refused: list[int] = []
        self._reading: asyncio.Task[None] | None = None

    async def open(self, server: Server) -> None:
        host, _, port = server.nats_address.removeprefix("nats://").partition(":")
        self._input, self._output = await asyncio.open_connection(host, int(port))
        self._output.write(b'CONNECT {"verbose":false}\r\nSUB r.%d.* 1\r\n' % self.number)
        self._reading = asyncio.create_task(self._read())

    def publish(self, first: int, after: int) -> None:
        for n in range(first, after):
            place = b"%d.%d" % (self.number, n)
            self._output.write(b"PUB gone.%b r.%b %d\r\n%b\r\n" % (place, place, SIZE, bytes(SIZE)))

    async def _read(self) -> None:
        while line := await self._input.readline():
            if line.startswith(b"MSG "):
                _, subject, _, _size = line.split()
                answer = json.loads(await self._input.readline())
                assert answer["error"]["err_code"] == UNAVAILABLE
                self.refused.append(int(subject.rpartition(b".")[2]))

    async def close(self) -> None:
        self._output.close()
        assert self._reading is not None
        await self._reading


class Node:
    """A node that leads nothing, over no storage."""

    def __init__(self) -> None:
        self.server = Server(ServerOptions(port=0), ManualClock())  # no hold time ends
        self.mesh = Mesh(self.server.ownership)
        self.server.links = cast(DatabaseMesh, self.mesh)
        self.server.owner_links = OwnerLinks(self.server.ownership, self.server.links)
        self.stored: dict[int, list[int]] = {number: [] for number in range(CLIENTS)}
        self.gate = PublishGate(self.server)
        self.server.links = None  # the gate has it
        directory = StreamDirectory()
        directory.apply(stream())
        self.gate.hold()
        self.gate.refuse_by(Leaderless(self.server.hub.default_account(), directory))

    def lead(self) -> None:
        """Another node leads, and stores what is published from now on."""
        self.server.hub.default_account().subscribe(b"gone.>", self._store)
        self.mesh.led(other=lease_groups(0, GROUP))

    def _store(
        self, _by: Publisher | None, subject: bytes, _reply: bytes, _head: bytes, _data: bytes
    ) -> None:
        _, number, n = subject.split(b".")
        self.stored[int(number)].append(int(n))

    def holds(self) -> int:
        """How many clients wait."""
        sessions = cast(list[ClientSession], list(self.server.hub.sessions.values()))
        return sum(session._hold is not None and session._hold.is_holding for session in sessions)


def test_publishes_beyond_the_limit_of_a_stream_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert held.STREAM_MAX == 16 * 2**20
    monkeypatch.setattr(held, "STREAM_MAX", MAX)  # how much of it one read brings varies

    async def play() -> None:
        node = Node()
        await node.server.listen()
        clients = [Client(number) for number in range(CLIENTS)]
        for client in clients:
            await client.open(node.server)
            client.publish(0, EACH)

        def refused() -> list[Client]:
            return [client for client in clients if len(client.refused) == EACH]

        await observed(lambda: len(refused()) + node.holds() == CLIENTS)
        assert MAX <= node.server.hub.held_bytes < MAX + READ
        told = refused()
        assert told
        assert all(client.refused == list(range(EACH)) for client in told)

        # A leader begins to say what it leads: nothing is refused that it may get as well.
        node.mesh.is_beginning = True
        node.mesh.reached()
        told[0].publish(EACH, EACH + 1)
        await observed(lambda: node.holds() == CLIENTS - len(told) + 1)
        node.mesh.is_beginning = False
        node.lead()

        def stored() -> int:
            return sum(map(len, node.stored.values()))

        await observed(lambda: stored() == (CLIENTS - len(told)) * EACH + 1)
        assert node.stored.pop(told[0].number) == [EACH]
        for client in told[1:]:
            assert node.stored.pop(client.number) == []
        assert all(found == list(range(EACH)) for found in node.stored.values())
        for client in clients:
            await client.close()
        await node.gate.close()
        await node.server.close()

    asyncio.run(play())
