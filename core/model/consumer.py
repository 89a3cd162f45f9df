"""Consumers: configuration, info, and the API requests and responses about them."""

from typing import Annotated

import msgspec

from core.model.cluster import ClusterInfo
from core.model.codec import WireEnum
from core.model.response import TYPE_PREFIX, Paged, Response
from core.model.wire import (
    HIDDEN,
    INLINE,
    OMIT,
    ZERO_TIME,
    Duration,
    Int,
    Int64,
    OptionalTime,
    Time,
    Uint64,
)


class DeliverPolicy(WireEnum):
    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"

    @classmethod
    def json_aliases(cls) -> dict[str, str]:
        return {'"undefined"': "all"}


class AckPolicy(WireEnum):
    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(WireEnum):
    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(WireEnum):
    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"

    @classmethod
    def json_error(cls) -> str:
        return "unknown priority policy: {raw}"


class Action(WireEnum):
    CREATE_OR_UPDATE = ""
    UPDATE = "update"
    CREATE = "create"

    @classmethod
    def json_error(cls) -> str:
        return "unknown consumer action: {raw}"


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a consumer. Durations are in nanoseconds."""

    durable_name: Annotated[str, OMIT] = ""
    name: Annotated[str, OMIT] = ""
    description: Annotated[str, OMIT] = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: Annotated[Uint64, OMIT] = 0
    opt_start_time: Annotated[OptionalTime, OMIT] = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait: Annotated[Duration, OMIT] = 0
    max_deliver: Annotated[Int, OMIT] = 0
    backoff: Annotated[tuple[Duration, ...], OMIT] = ()
    filter_subject: Annotated[str, OMIT] = ""
    filter_subjects: Annotated[tuple[str, ...], OMIT] = ()
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    rate_limit_bps: Annotated[Uint64, OMIT] = 0
    sample_freq: Annotated[str, OMIT] = ""
    max_waiting: Annotated[Int, OMIT] = 0
    max_ack_pending: Annotated[Int, OMIT] = 0
    flow_control: Annotated[bool, OMIT] = False
    headers_only: Annotated[bool, OMIT] = False
    max_batch: Annotated[Int, OMIT] = 0
    max_expires: Annotated[Duration, OMIT] = 0
    max_bytes: Annotated[Int, OMIT] = 0
    deliver_subject: Annotated[str, OMIT] = ""
    deliver_group: Annotated[str, OMIT] = ""
    idle_heartbeat: Annotated[Duration, OMIT] = 0
    inactive_threshold: Annotated[Duration, OMIT] = 0
    num_replicas: Int = 0
    mem_storage: Annotated[bool, OMIT] = False
    direct: Annotated[bool, OMIT] = False
    sourcing: Annotated[bool, OMIT] = False
    metadata: Annotated[dict[str, str], OMIT] = {}
    pause_until: Annotated[OptionalTime, OMIT] = None
    priority_groups: Annotated[tuple[str, ...], OMIT] = ()
    priority_policy: Annotated[PriorityPolicy, OMIT] = PriorityPolicy.NONE
    priority_timeout: Annotated[Duration, OMIT] = 0

    @property
    def is_push(self) -> bool:
        """True for a push consumer, which has a deliver subject."""
        return self.deliver_subject != ""

    @property
    def filters(self) -> tuple[str, ...]:
        """The subject filters; empty if the consumer delivers all messages of the stream."""
        return (self.filter_subject,) if self.filter_subject else self.filter_subjects


class SequenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A position of a consumer: sequence of the delivery, and of the message in the stream.

    `last_active` is the time of the last change of the position; omitted before the first change.
    """

    consumer_seq: Uint64 = 0
    stream_seq: Uint64 = 0
    last_active: Annotated[OptionalTime, OMIT] = None


class PriorityGroupState(msgspec.Struct, frozen=True, kw_only=True):
    group: str = ""
    pinned_client_id: Annotated[str, OMIT] = ""
    pinned_ts: Time = 0


class ConsumerInfo(msgspec.Struct, frozen=True, kw_only=True):
    stream_name: str = ""
    name: str = ""
    created: Time = 0
    config: ConsumerConfig = ConsumerConfig()
    delivered: SequenceInfo = SequenceInfo()
    ack_floor: SequenceInfo = SequenceInfo()
    num_ack_pending: Int = 0
    num_redelivered: Int = 0
    num_waiting: Int = 0
    num_pending: Uint64 = 0
    cluster: Annotated[ClusterInfo | None, OMIT] = None
    push_bound: Annotated[bool, OMIT] = False
    paused: Annotated[bool, OMIT] = False
    pause_remaining: Annotated[Duration, OMIT] = 0
    ts: Time = 0
    priority_groups: Annotated[tuple[PriorityGroupState, ...], OMIT] = ()


# --- requests --------------------------------------------------------------------------------


class CreateConsumerRequest(msgspec.Struct, frozen=True, kw_only=True):
    stream_name: str = ""
    config: ConsumerConfig = ConsumerConfig()
    action: Action = Action.CREATE_OR_UPDATE
    pedantic: Annotated[bool, OMIT] = False


class ConsumerPageRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiConsumersRequest"
    offset: Int = 0


class ConsumerPauseRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiConsumerPauseRequest"
    pause_until: OptionalTime = None


class ConsumerUnpinRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiConsumerUnpinRequest"
    group: str = ""


class ConsumerResetRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiConsumerResetRequest"
    seq: Annotated[Uint64, OMIT] = 0


class NextRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of CONSUMER.MSG.NEXT (pull request). Durations are in nanoseconds.

    msgspec refuses unknown members here, as `codec.older_reader` requires.
    """

    go_name = "JSApiConsumerGetNextRequest"
    expires: Annotated[Duration, OMIT] = 0
    batch: Annotated[Int, OMIT] = 0
    max_bytes: Annotated[Int, OMIT] = 0
    no_wait: Annotated[bool, OMIT] = False
    idle_heartbeat: Annotated[Duration, OMIT] = 0
    group: Annotated[str, OMIT] = ""
    min_pending: Annotated[Int64, OMIT] = 0
    min_ack_pending: Annotated[Int64, OMIT] = 0
    id: Annotated[str, OMIT] = ""
    priority: Annotated[Int, OMIT] = 0


# --- responses -------------------------------------------------------------------------------


STREAM_IDENTITY = b"Nats-Stream-Identity"
"""The header with the identity of a stream, in API messages of mirrors and sources."""


class Identified(Response, frozen=True, kw_only=True):
    """A response with a `Nats-Stream-Identity` header.

    A mirror or source compares it to detect that its origin was deleted and created again.
    """

    identity: Annotated[str, HIDDEN] = ""

    def headers(self) -> bytes:
        if not self.identity:
            return b""
        return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (STREAM_IDENTITY, self.identity.encode())


class ConsumerCreateResponse(Identified, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_create_response"
    info: Annotated[ConsumerInfo | None, INLINE] = None


class ConsumerInfoResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_info_response"
    info: Annotated[ConsumerInfo | None, INLINE] = None


class ConsumerNamesResponse(Paged, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_names_response"
    consumers: tuple[str, ...] = ()


class ConsumerListResponse(Paged, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_list_response"
    consumers: tuple[ConsumerInfo, ...] = ()


class ConsumerDeleteResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_delete_response"
    success: Annotated[bool, OMIT] = False


class ConsumerPauseResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_pause_response"
    paused: bool = False
    pause_until: OptionalTime = ZERO_TIME
    pause_remaining: Annotated[Duration, OMIT] = 0


class ConsumerUnpinResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_unpin_response"


class ConsumerResetResponse(Identified, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_reset_response"
    info: Annotated[ConsumerInfo | None, INLINE] = None
    reset_seq: Uint64 = 0


class ConsumerStepdownResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_leader_stepdown_response"
    success: Annotated[bool, OMIT] = False


class ConsumerRemovePeerResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_remove_peer_response"
    success: Annotated[bool, OMIT] = False


class ConsumerEvacuatePeerResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "consumer_evacuate_peer_response"
    success: Annotated[bool, OMIT] = False
