"""What the leader serves, what another node does through it, and what all do at once."""

from collections.abc import Sequence
from statistics import median

from bench.load import Measure, stream
from bench.pull import pull_all
from bench.wire import Connection, Lane, one_by_one, percentile, publishes, pump
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes

NODES, RUNS = 3, 3
PUBLISHES, LATENCIES = 100_000, 1000
PAYLOAD = b"x" * 128


def rates(node: JetgateServer, name: str, scale: float) -> Measure:
    """Messages a second published, and pulled and acknowledged; microseconds of one publish."""
    count = int(PUBLISHES * scale)
    connection = Connection(node.address)
    stream(connection, name)
    connection.send(b"SUB _INBOX.p.* 1\r\n")
    subject = f"{name}.a".encode()
    taken = pump([Lane(connection, publishes(subject, count, PAYLOAD, b"_INBOX.p"))], window=4000)
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
    """Print what the leader serves, and what another node does through it."""
    places = {"leader": nodes.leader, "other": nodes.followers[0]}
    found: dict[str, list[Measure]] = {place: [] for place in places}
    for run in range(RUNS):
        for place, node in places.items():
            found[place].append(rates(node, f"R{run}{place}", scale))
    for key in found["leader"][0]:
        near, far = (median(each[key] for each in found[place]) for place in places)
        print(f"{key:12} leader {near:10.0f}  other {far:10.0f}  ratio {far / near:.2f}")


def publish_from(places: Sequence[JetgateServer], name: str, scale: float) -> float:
    """Messages a second that a publisher at each of these nodes gets acknowledged in all."""
    count = int(PUBLISHES * scale)
    connections = [Connection(node.address) for node in places]
    stream(connections[0], name)
    lanes = []
    for number, connection in enumerate(connections):
        connection.send(b"SUB _INBOX.p%d.* 1\r\n" % number)
        connection.flush()
        subject, inbox = f"{name}.{number}".encode(), b"_INBOX.p%d" % number
        lanes.append(Lane(connection, publishes(subject, count, PAYLOAD, inbox)))
    taken = pump(lanes, window=4000)
    connections[0].api(f"STREAM.DELETE.{name}")
    for connection in connections:
        connection.close()
    return len(lanes) * count / taken


def everywhere(nodes: Nodes, scale: float) -> None:
    """Print what three publishers reach at one node, the leader, and at one node each."""
    leader = nodes.leader
    places = {"one": [leader] * NODES, "all": [leader, *nodes.followers]}
    found: dict[str, list[float]] = {place: [] for place in places}
    for run in range(RUNS):
        for place, some in places.items():
            found[place].append(publish_from(some, f"E{run}{place}", scale))
    one, each = (median(found[place]) for place in places)
    print(f"{NODES} publishers   one {one:10.0f}  each node {each:6.0f}  ratio {each / one:.2f}")
