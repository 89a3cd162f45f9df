"""Events that the server itself publishes: advisories and metrics, in the reference's form."""

from typing import Annotated

import msgspec

from core.model.wire import OMIT, ZERO_TIME, Duration, Int64, OptionalTime, Time, Uint64

_ADVISORY = "io.nats.jetstream.advisory.v1."


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What every event begins with: its type, an identifier of its own, its time."""

    type: str
    id: str
    timestamp: Time


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The connection that asked. `rtt` is the last measured round trip, in nanoseconds."""

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
    """A request to the API and its answer, both as JSON texts."""

    type: str = _ADVISORY + "api_audit"
    server: str
    client: ClientInfo
    subject: str
    request: Annotated[str, OMIT] = ""
    response: str
    domain: Annotated[str, OMIT] = ""


class ApiLimitReached(Event, frozen=True, kw_only=True):
    """Requests were dropped because too many waited."""

    type: str = _ADVISORY + "api_limit_reached"
    server: str
    domain: Annotated[str, OMIT] = ""
    dropped: Int64


class StreamAction(Event, frozen=True, kw_only=True):
    """A stream was created, changed or deleted (`action`: create, modify, delete)."""

    type: str = _ADVISORY + "stream_action"
    stream: str
    action: str
    domain: Annotated[str, OMIT] = ""


class BatchAbandoned(Event, frozen=True, kw_only=True):
    """An atomic batch was dropped (`reason`: incomplete, large, timeout, unsupported)."""

    type: str = _ADVISORY + "stream_batch_abandoned"
    stream: str
    domain: Annotated[str, OMIT] = ""
    batch: str
    reason: str


class ConsumerAction(Event, frozen=True, kw_only=True):
    """A consumer was created or deleted (`action`: create, delete)."""

    type: str = _ADVISORY + "consumer_action"
    stream: str
    consumer: str
    action: str
    domain: Annotated[str, OMIT] = ""


class ConsumerPause(Event, frozen=True, kw_only=True):
    """A consumer was paused or resumed (`pause_until` is then the zero time)."""

    type: str = _ADVISORY + "consumer_pause"
    stream: str
    consumer: str
    paused: bool
    pause_until: OptionalTime = ZERO_TIME
    domain: Annotated[str, OMIT] = ""


class GroupPinned(Event, frozen=True, kw_only=True):
    """A client became the one that a group is served to."""

    type: str = _ADVISORY + "consumer_group_pinned"
    account: Annotated[str, OMIT] = ""
    stream: str
    consumer: str
    domain: Annotated[str, OMIT] = ""
    group: str
    pinned_id: str


class GroupUnpinned(Event, frozen=True, kw_only=True):
    """A group is served to nobody in particular any more (`reason`: admin, timeout)."""

    type: str = _ADVISORY + "consumer_group_unpinned"
    account: Annotated[str, OMIT] = ""
    stream: str
    consumer: str
    domain: Annotated[str, OMIT] = ""
    group: str
    reason: str


class MaxDeliver(Event, frozen=True, kw_only=True):
    """A message has been delivered as often as its consumer allows."""

    type: str = _ADVISORY + "max_deliver"
    stream: str
    consumer: str
    stream_seq: Uint64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""


class Nak(Event, frozen=True, kw_only=True):
    """A message was refused and will come again."""

    type: str = _ADVISORY + "nak"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""


class Terminated(Event, frozen=True, kw_only=True):
    """A message will not be delivered again."""

    type: str = _ADVISORY + "terminated"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    deliveries: Uint64
    reason: Annotated[str, OMIT] = ""
    domain: Annotated[str, OMIT] = ""


class AckMetric(Event, frozen=True, kw_only=True):
    """How long an acknowledgement took after the delivery, in nanoseconds."""

    type: str = "io.nats.jetstream.metric.v1.consumer_ack"
    stream: str
    consumer: str
    consumer_seq: Uint64
    stream_seq: Uint64
    ack_time: Int64
    deliveries: Uint64
    domain: Annotated[str, OMIT] = ""
