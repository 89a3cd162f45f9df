"""The nodes that stand for one stream, or for one consumer of it: how many, under which name."""

from dataclasses import dataclass

from core.cluster.tags import NO_TAGS, tags_of
from core.model.consumer import ConsumerConfig
from core.model.names import short_hash
from core.model.stream import Retention, Storage, StreamConfig


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one stream, or of one consumer of it.

    Attributes:
        stream: the stream's number in storage.
        replicas: how many nodes are wanted.
        consumer: what identifies the consumer among those of the stream; empty: it is the stream's.
        in_memory: whether its storage is.
        lease_group: that of the stream.
        tags: those that the stream asks for.
        within: of a consumer's, how many nodes the stream has: they are among these.
    """

    stream: int
    replicas: int
    consumer: str = ""
    in_memory: bool = False
    lease_group: int = 0
    tags: frozenset[str] = NO_TAGS
    within: int = 0

    @property
    def name(self) -> str:
        """Its name, in the form of nats-server's raft groups."""
        kind, storage = "C" if self.consumer else "S", "M" if self.in_memory else "F"
        named = short_hash(f"{self.stream} {self.consumer}").decode()
        return f"{kind}-R{self.replicas}{storage}-{named}"


def stream_group(stream: int, lease_group: int, config: StreamConfig) -> Group:
    """Return the group of a stream."""
    in_memory = config.storage is Storage.MEMORY
    return Group(stream, config.num_replicas, "", in_memory, lease_group, tags_of(config.placement))


def consumer_group(
    of: Group, config: StreamConfig, name: str, created: int, consumer: ConsumerConfig
) -> Group:
    """Return the group of a consumer: with as many replicas as it wants, or its stream has.

    Where it says none, an ephemeral consumer of a stream that keeps by limits has one. `of`: the
    group of its stream.
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
