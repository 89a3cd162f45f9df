"""The rates of the leader of a stream, of another node that forwards to it, and of all nodes at
once.
"""

from collections.abc import Sequence
from statistics import median

from bench.load import Measure, stream
from bench.pull import pull_all
from bench.wire import Connection, Sender, one_by_one, percentile, publishes, pump
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes

NODES, RUNS = 3, 3
PUBLISHES, LATENCIES = 100_000, 1000
PAYLOAD = b"x" * 128


def create(nodes: Nodes, name: str, at: int = 0) -> list[JetgateServer]:
    """Create a stream at a node; return its leader, followed by the other nodes."""
    connection = Connection(nodes.all[at].address)
    stream(connection, name)
    connection.close()
    leader = nodes.leader_of(name)
    return [leader, *(node for node in nodes.all if node is not leader)]


def rates(node: JetgateServer, name: str, scale: float) -> Measure:
    """Measure publishes and pulls at one node, in messages per second, and publish latencies.

    The latencies, of single publishes, are in microseconds. The stream is deleted afterwards.
    """
    count = int(PUBLISHES * scale)
    connection = Connection(node.address)
    connection.send(b"SUB _INBOX.p.* 1\r\n")
    subject = f"{name}.a".encode()
    taken = pump([Sender(connection, publishes(subject, count, PAYLOAD, b"_INBOX.p"))], window=4000)
    alone = one_by_one(connection, publishes(subject, LATENCIES, PAYLOAD, b"_INBOX.p"))
    connection.close()
    connection = Connection(node.address)
    config = {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": 100_000}
    body = {"stream_name": name, "config": config}
    connection.api(f"CONSUMER.DURABLE.CREATE.{name}.c", body)
    pulled = pull_all(connection, name, "c", count)
    connection.api(f"STREAM.DELETE.{name}")
    connection.close()
    return {
        "publishes/s": count / taken,
        "p50 us": percentile(alone, 0.5) / 1000,
        "p99 us": percentile(alone, 0.99) / 1000,
        "pulls/s": count / pulled,
    }


def compare(nodes: Nodes, scale: float) -> None:
    """Print the rates at the leader of a stream and at another node, and their ratios."""
    places = {"leader": 0, "other": 1}
    found: dict[str, list[Measure]] = {place: [] for place in places}
    for run in range(RUNS):
        for place, number in places.items():
            name = f"R{run}{place}"
            found[place].append(rates(create(nodes, name)[number], name, scale))
    for key in found["leader"][0]:
        near, far = (median(each[key] for each in found[place]) for place in places)
        print(f"{key:12} leader {near:10.0f}  other {far:10.0f}  ratio {far / near:.2f}")


def publish(places: Sequence[tuple[JetgateServer, str]], scale: float) -> float:
    """Return acknowledged messages per second, summed over a publisher for each (node, stream)."""
    count = int(PUBLISHES * scale)
    senders, connections = [], [Connection(node.address) for node, _ in places]
    for number, (connection, (_, name)) in enumerate(zip(connections, places, strict=True)):
        connection.send(b"SUB _INBOX.p%d.* 1\r\n" % number)
        connection.flush()
        subject, inbox = f"{name}.{number}".encode(), b"_INBOX.p%d" % number
        senders.append(Sender(connection, publishes(subject, count, PAYLOAD, inbox)))
    taken = pump(senders, window=4000)
    for name in {name for _, name in places}:
        connections[0].api(f"STREAM.DELETE.{name}")
    for connection in connections:
        connection.close()
    return len(senders) * count / taken


def _at_leader(nodes: Nodes, name: str) -> list[tuple[JetgateServer, str]]:
    return [(create(nodes, name)[0], name)] * NODES


def _at_each(nodes: Nodes, name: str) -> list[tuple[JetgateServer, str]]:
    return [(node, name) for node in create(nodes, name)]


def _own_streams(nodes: Nodes, name: str) -> list[tuple[JetgateServer, str]]:
    names = [f"{name}{number}" for number in range(NODES)]
    return [(create(nodes, each, at=at)[0], each) for at, each in enumerate(names)]


def everywhere(nodes: Nodes, scale: float) -> None:
    """Print the rates of three publishers: all at one leader, one at each node, each with its own
    stream.

    In the last case each publisher uses the node that leads its stream.
    """
    cases = {"one node": _at_leader, "each node": _at_each, "own streams": _own_streams}
    found: dict[str, list[float]] = {case: [] for case in cases}
    for run in range(RUNS):
        for number, (case, places) in enumerate(cases.items()):
            found[case].append(publish(places(nodes, f"E{run}C{number}"), scale))
    one = median(found["one node"])
    for case, some in found.items():
        print(f"{NODES} publishers  {case:12} {median(some):10.0f}  ratio {median(some) / one:.2f}")
