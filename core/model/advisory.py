"""JetStream advisories and metrics: the messages on `$JS.EVENT.>`, in nats-server's form."""

from typing import Annotated

import msgspec

from core.model.cluster import PeerInfo
from core.model.wire import OMIT, ZERO_TIME, Duration, Int64, OptionalTime, Time, Uint64

_ADVISORY = "io.nats.jetstream.advisory.v1."


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The members of all advisories and metrics: type, unique id, time."""

    type: str
    id: str
    timestamp: Time


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The client connection that sent a request.

    `rtt` is its last measured round-trip time, in nanoseconds.
    """

    start: Time = 0
    host: Annotated[str, OMIT] = ""
    id: Annotated[Uint64, OMIT] = 0
    acc: str = ""
    user: Annotated[str, OMIT] = ""
    name: Annotated[str, OMIT] = ""
    lang: Annotated[str, OMIT] = ""
    ver: Annotated[str, OMIT] = ""
    rtt: Annotated[Duration, OMIT] = 0
    server: Annotated[str, OMIT] = ""
    kind: Annotated[str, OMIT] = "Client"
    client_type: Annotated[str, OMIT] = "nats"


class ApiAudit(Event, frozen=True, kw_only=True):
    """The advisory on an API request and its response, both as JSON texts."""

    type: str = _ADVISORY + "api_audit"
    server: str
    client: ClientInfo
    subject: str
    request: Annotated[str, OMIT] = ""
    response: str
    domain: Annotated[str, OMIT] = ""


class ApiLimitReached(Event, frozen=True, kw_only=True):
    """The advisory on API requests that were dropped because too many were queued."""

    type: str = _ADVISORY + "api_limit_reached"
    server: str
    domain: Annotated[str, OMIT] = ""
    dropped: Int64


class StreamAction(Event, frozen=True, kw_only=True):
    """The advisory on a stream that was created, changed or deleted.

    `action` is `create`, `modify` or `delete`.
    """

    type: str = _ADVISORY + "stream_action"
    stream: str
    action: str
    domain: Annotated[str, OMIT] = ""


class BatchAbandoned(Event, frozen=True, kw_only=True):
    """The advisory on an atomic batch that was dropped.

    `reason` is `incomplete`, `large`, `timeout` or `unsupported`.
    """

    type: str = _ADVISORY + "stream_batch_abandoned"
    stream: str
    domain: Annotated[str, OMIT] = ""
    batch: str
    reason: str


class StreamLeaderElected(Event, frozen=True, kw_only=True):
    """The advisory on a new leader of a stream with several replicas; `replicas` has all nodes."""

    type: str = _ADVISORY + "stream_leader_elected"
    stream: str
    leader: str
    replicas: tuple[PeerInfo, ...]
    domain: Annotated[str, OMIT] = ""


class ConsumerLeaderElected(Event, frozen=True, kw_only=True):
    """The advisory on a new leader of a consumer with several replicas."""

    type: str = _ADVISORY + "consumer_leader_elected"
    stream: str
    consumer: str
    leader: str
    replicas: tuple[PeerInfo, ...]
    domain: Annotated[str, OMIT] = ""


class DomainLeaderElected(Event, frozen=True, kw_only=True):
    """The advisory on a new leader of the cluster; `leader` is its id, not its name."""

    type: str = _ADVISORY + "domain_leader_elected"
    leader: str
    replicas: tuple[PeerInfo, ...]
    cluster: str
    domain: Annotated[str, OMIT] = ""


class ConsumerAction(Event, frozen=True, kw_only=True):
    """The advisory on a consumer that was created or deleted (`action`: `create`, `delete`)."""

    type: str = _ADVISORY + "consumer_action"
    stream: str
    consumer: str
    action: str
    domain: Annotated[str, OMIT] = ""


class ConsumerPause(Event, frozen=True, kw_only=True):
    """The advisory on a paused or resumed consumer.

    `pause_until` is Go's zero time if the consumer was resumed.
    """

    type: str = _ADVISORY + "consumer_pause"
    stream: str
    consumer: str
    paused: bool
    pause_until: OptionalTime = ZERO_TIME
    domain: Annotated[str, OMIT] = ""


class GroupPinned(Event, frozen=True, kw_only=True):
    """The advisory on a client that was pinned in a priority group of a consumer (ADR-42).

    The pinned client receives all messages of its group.
    """

    type: str = _ADVISORY + "consumer_group_pinned"
    account: Annotated[str, OMIT] = ""
    stream: str
    consumer: str
    domain: Annotated[str, OMIT] = ""
    group: str
    pinned_id: str


class GroupUnpinned(Event, frozen=True, kw_only=True):
    """The advisory on a client that is no longer pinned in a priority group of a consumer.

    `reason` is `admin` (on request) or `timeout`.
    """

    type: str = _ADVISORY + "consumer_group_unpinned"
    account: Annotated[str, OMIT] = ""
    stream: str
    consumer: str
    domain: Annotated[str, OMIT] = ""
    group: str
    reason: str


class MaxDeliver(Event, frozen=True, kw_only=True):
    """The advisory on a message that was delivered `max_deliver` times without acknowledgement."""

    type: str = _ADVISORY + "max_deliver"
    stream: str
    consumer: str
    stream_seq: Uint64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""


class Nak(Event, frozen=True, kw_only=True):
    """The advisory on a negatively acknowledged message (-NAK), which will be redelivered."""

    type: str = _ADVISORY + "nak"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""


class Terminated(Event, frozen=True, kw_only=True):
    """The advisory on a message acknowledged with +TERM, which will not be redelivered."""

    type: str = _ADVISORY + "terminated"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    deliveries: Uint64
    reason: Annotated[str, OMIT] = ""
    domain: Annotated[str, OMIT] = ""


class AckMetric(Event, frozen=True, kw_only=True):
    """The metric of a sampled acknowledgement; `ack_time` is nanoseconds since the delivery."""

    type: str = "io.nats.jetstream.metric.v1.consumer_ack"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    ack_time: Int64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""
