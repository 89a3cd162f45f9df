"""The replicas of a stream or consumer: their number, and a name in the form of a raft group."""

from dataclasses import dataclass

from core.cluster.tags import NO_TAGS, tags_of
from core.model.consumer import ConsumerConfig
from core.model.names import short_hash
from core.model.stream import Retention, Storage, StreamConfig
from core.units import LeaseGroup


@dataclass(frozen=True, slots=True)
class Group:
    """A stream or consumer whose replicas are to be chosen, with the values that decide the choice.

    `core.cluster.view.ClusterView` chooses the nodes.

    Attributes:
        stream: Number of the stream in storage.
        replicas: Number of replicas, the leader included.
        consumer: Identity of the consumer within its stream; empty for the group of the stream.
        in_memory: True for memory storage.
        lease_group: Lease group of the stream, the set of streams with the same leader.
        tags: The placement tags that the stream requires.
        within: For a consumer: the number of replicas of its stream, from which its own are chosen.
    """

    stream: int
    replicas: int
    consumer: str = ""
    in_memory: bool = False
    lease_group: LeaseGroup = LeaseGroup(0)
    tags: frozenset[str] = NO_TAGS
    within: int = 0

    @property
    def name(self) -> str:
        """Name of the group, in the form of nats-server's raft groups, such as `S-R3F-abcdefgh`."""
        kind, storage = "C" if self.consumer else "S", "M" if self.in_memory else "F"
        named = short_hash(f"{self.stream} {self.consumer}").decode()
        return f"{kind}-R{self.replicas}{storage}-{named}"


def stream_group(stream: int, lease_group: LeaseGroup, config: StreamConfig) -> Group:
    """Return the `Group` by which the replicas of a stream are chosen, from its configuration."""
    in_memory = config.storage is Storage.MEMORY
    return Group(stream, config.num_replicas, "", in_memory, lease_group, tags_of(config.placement))


def consumer_group(
    of: Group, config: StreamConfig, name: str, created: int, consumer: ConsumerConfig
) -> Group:
    """Return the `Group` by which the replicas of a consumer are chosen; `of` is its stream's.

    Without a number in the configuration, a consumer has as many replicas as its stream; an
    ephemeral consumer of a stream with limits retention has one. It never has more than its stream.
    """
    replicas = consumer.num_replicas
    if not replicas:
        is_durable = bool(consumer.durable_name) or config.retention is not Retention.LIMITS
        replicas = config.num_replicas if is_durable else 1
    in_memory = consumer.mem_storage or config.storage is Storage.MEMORY
    replicas = min(replicas, config.num_replicas)
    named = f"{name} {created}"
    return Group(
        of.stream, replicas, named, in_memory, of.lease_group, of.tags, config.num_replicas
    )
