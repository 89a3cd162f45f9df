"""Several nodes of `jetgate serve` over one database, as processes."""

import contextlib
import json
import signal
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from core.storage.postgres.locks import IS_HELD, LEASE_GROUPS
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.sql import on
from tests.support.wire import Closed, Silence, Wire

_NUMBERS = ("jetgate_leader", "jetgate_has_leader", "jetgate_links", "jetgate_lease_groups")
_END_SESSION = """
    select pg_terminate_backend(session_pid)
      from (select session_pid from jetgate_store.node
             where nats like $1 order by started desc limit 1) as newest
"""
_LED = f"""
    select count(*) from jetgate_store.lease_holder h, pg_locks k, pg_stat_activity a
     where {IS_HELD} group by k.pid
"""
_UNEVEN = 16
"""Greatest difference in lease groups between two balanced nodes.

(`core.node.ownership.assignment` moves no groups within this difference.)
"""


class Nodes:
    """Several `jetgate serve` processes over one database; a context manager that ends them.

    Args:
        dsn: Connection string of the database.
        count: Number of nodes.
        flags: Flags for the command of each node.
        tags: Placement tags of each node; nodes beyond the last entry have none.
    """

    def __init__(
        self, dsn: str, count: int, *flags: str, tags: Sequence[Sequence[str]] = ()
    ) -> None:
        self.dsn = dsn
        self.all = [JetgateServer(*flags, dsn=dsn) for _ in range(count)]
        for node, own in zip(self.all, tags, strict=False):
            node.flags += tuple(word for tag in own for word in ("--tag", tag))

    def __enter__(self) -> Self:
        try:
            self.all[0].start()  # it creates the schema, so the others need not wait
            _each(JetgateServer.start, self.all[1:])
            self.settled()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            if node.process is not None:
                send(node, signal.SIGCONT)
        _each(JetgateServer.stop, self.all)

    def settled(self, *, level: bool = True) -> None:
        """Wait until all nodes are linked and own about equally many lease groups.

        With `level=False` each node only has to own at least one. Use it if streams exist, because
        the nodes then balance the numbers of streams, not of groups. Raises AssertionError after
        120 seconds.
        """

        def look() -> bool:
            found = [numbers(node) for node in self.all]
            others = len(self.all) - 1
            groups = [each["jetgate_lease_groups"] for each in found]
            is_even = max(groups) - min(groups) <= _UNEVEN if level else min(groups) > 0
            is_level = sum(groups) == LEASE_GROUPS and is_even
            links = [(each["jetgate_links"], each["jetgate_has_leader"]) for each in found]
            assert is_level, groups
            assert links == [(others, 1)] * len(found), links
            return True

        eventually(look, within=120)

    @property
    def leader(self) -> JetgateServer:
        """The node that owns the stream directory; waits until all nodes are settled."""
        self.settled()

        def look() -> JetgateServer | None:
            return next((node for node in self.all if numbers(node)["jetgate_leader"]), None)

        return eventually(look, within=60)  # no node does while the directory is transferred

    def leader_of(self, stream: str) -> JetgateServer:
        """Wait up to 60 seconds until one of the nodes leads a stream; return that node."""
        return leader_of(self.all, stream)

    @property
    def roles(self) -> tuple[JetgateServer, list[JetgateServer]]:
        """The node that owns the stream directory, and the other nodes.

        Both come from one observation, because the directory may be transferred between two.
        """
        leader = self.leader
        return leader, [node for node in self.all if node is not leader]


def is_balanced(dsn: str, nodes: int) -> bool:
    """Return True if `nodes` nodes own all lease groups of a database, about equally many each.

    A new node gets its share some seconds after its start; then groups stay in place.
    """
    groups = [count for (count,) in on(dsn, _LED)]
    is_whole = len(groups) == nodes and sum(groups) == LEASE_GROUPS
    return is_whole and max(groups) - min(groups) <= _UNEVEN


def _each(call: Callable[[JetgateServer], object], nodes: Sequence[JetgateServer]) -> None:
    """Call a function for all nodes at the same time. Raises the first exception of a call."""
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(call, nodes):
            pass


def leader_of(nodes: Iterable[JetgateServer], stream: str) -> JetgateServer:
    """Wait until a node reports itself as the leader of a stream, and return that node.

    Raises AssertionError after 60 seconds.
    """

    def look() -> JetgateServer | None:
        return next((node for node in nodes if leads(node.address, stream)), None)

    return eventually(look, within=60)


def leads(address: tuple[str, int], stream: str, timeout: float = 2.0) -> bool:
    """Return True if the node at an address reports itself as the leader of a stream.

    Returns False also if it does not answer within `timeout` seconds (it may have forwarded the
    request to a suspended leader) or if its answer is empty or an error.
    """
    with (
        contextlib.suppress(OSError, Closed, Silence, AssertionError, ValueError),
        Wire(address, timeout=timeout) as wire,
    ):
        own = wire.hello()["server_name"]
        told = wire.api(f"STREAM.INFO.{stream}").get("cluster", {})
        return bool(told.get("leader") == own)
    return False


def step_down(address: tuple[str, int], stream: str, timeout: float = 5.0) -> bool:
    """Request STREAM.LEADER.STEPDOWN from the node at an address; return True on success.

    Returns False if it does not answer within `timeout` seconds or answers with an error.
    """
    with (
        contextlib.suppress(OSError, Closed, Silence, AssertionError, ValueError),
        Wire(address, timeout=timeout) as wire,
    ):
        wire.hello()
        return bool(wire.api(f"STREAM.LEADER.STEPDOWN.{stream}").get("success"))
    return False


def send(node: JetgateServer, number: signal.Signals) -> None:
    """Send a signal to a running node. Raises AssertionError if it does not run."""
    assert node.process is not None, "it does not run"
    node.process.send_signal(number)


def end_session(dsn: str, node: JetgateServer) -> None:
    """Terminate the database session that holds a node's leases.

    A peer does the same after missed heartbeats of the node. Raises AssertionError if the database
    has no such session.
    """
    ended = on(dsn, _END_SESSION, arguments=(f"%:{node.address[1]}",))
    assert len(ended) == 1, "the node is not known"


def numbers(node: JetgateServer) -> dict[str, float]:
    """Return the metrics of a node without labels, by name, from `/metrics`.

    If the node does not answer, return zeros for the names in `_NUMBERS`.
    """
    try:
        url = "http://{}:{}/metrics".format(*node.http)
        with urlopen(Request(url, headers=_credentials(node)), timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return dict.fromkeys(_NUMBERS, 0.0)
    pairs = (line.split() for line in lines if line.startswith("jetgate_") and "{" not in line)
    return {name: float(value) for name, value in pairs}


def _credentials(node: JetgateServer) -> dict[str, str]:
    """Return the HTTP headers for a node: Basic credentials if it has the flag `--user`."""
    flags = dict(zip(node.flags[::2], node.flags[1::2], strict=True))
    if "--user" not in flags:
        return {}
    known = f"{flags['--user']}:{flags['--pass']}".encode()
    return {"Authorization": f"Basic {b64encode(known).decode()}"}


def readiness(node: JetgateServer) -> tuple[int, str]:
    """Return the HTTP status of `/readyz`, and the reason in its body if it is not 200."""
    try:
        with urlopen("http://{}:{}/readyz".format(*node.http), timeout=30) as answer:
            return answer.status, ""
    except HTTPError as error:
        with error:
            return error.code, str(json.loads(error.read())["detail"])
