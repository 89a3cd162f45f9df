"""Streams: configuration, state, info, and the API requests and responses about them.

Fields have the names of the JSON members. Their order, types and omission when empty are those of
nats-server.
"""

from typing import Annotated

import msgspec

from core.model.cluster import ClusterInfo, Placement, StreamAlternate
from core.model.codec import WireEnum
from core.model.gojson import JsonError, parse_all
from core.model.response import TYPE_PREFIX, ErrorBody, Paged, Response
from core.model.wire import (
    INLINE,
    OMIT,
    Duration,
    Int,
    Int32,
    Int64,
    OptionalTime,
    Time,
    Uint64,
)

NAMES_PAGE = 1024
LIST_PAGE = 256
SUBJECTS_PAGE = 100_000


class Retention(WireEnum):
    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(WireEnum):
    OLD = "old"
    NEW = "new"

    @classmethod
    def read(cls, text: str) -> WireEnum:
        """Return the member for a JSON text, regardless of case (other enumerations are exact)."""
        return super().read(text.lower() if text.lower() in ('"old"', '"new"') else text)


class Storage(WireEnum):
    FILE = "file"
    MEMORY = "memory"


class Compression(WireEnum):
    NONE = "none"
    S2 = "s2"

    @classmethod
    def read(cls, text: str) -> WireEnum:
        """Return the member for any JSON string, escapes included.

        Other enumerations accept no escapes.
        """
        node = next(parse_all(text.encode()))
        if node.kind not in ("string", "null"):
            raise JsonError(f"json: cannot unmarshal {node.kind} into Go value of type string")
        if node.text not in cls._value2member_map_:
            raise JsonError("unknown compression algorithm")
        return cls(node.text)


class PersistMode(WireEnum):
    DEFAULT = "default"
    ASYNC = "async"

    @classmethod
    def json_aliases(cls) -> dict[str, str]:
        return {'""': "default"}


class SubjectTransformConfig(msgspec.Struct, frozen=True, kw_only=True):
    src: str = ""
    dest: str = ""


class ExternalStream(msgspec.Struct, frozen=True, kw_only=True):
    api: str = ""
    deliver: str = ""


class StreamConsumerSource(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, OMIT] = ""
    deliver_subject: Annotated[str, OMIT] = ""


class StreamSource(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    opt_start_seq: Annotated[Uint64, OMIT] = 0
    opt_start_time: Annotated[OptionalTime, OMIT] = None
    filter_subject: Annotated[str, OMIT] = ""
    subject_transforms: Annotated[tuple[SubjectTransformConfig, ...], OMIT] = ()
    external: Annotated[ExternalStream | None, OMIT] = None
    consumer: Annotated[StreamConsumerSource | None, OMIT] = None


class RePublish(msgspec.Struct, frozen=True, kw_only=True):
    src: Annotated[str, OMIT] = ""
    dest: str = ""
    headers_only: Annotated[bool, OMIT] = False


class StreamConsumerLimits(msgspec.Struct, frozen=True, kw_only=True):
    inactive_threshold: Annotated[Duration, OMIT] = 0
    max_ack_pending: Annotated[Int, OMIT] = 0


class StreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a stream.

    Durations are in nanoseconds, sizes in bytes. A limit of -1 means no limit; requests may use 0.
    """

    name: str = ""
    description: Annotated[str, OMIT] = ""
    subjects: Annotated[tuple[str, ...], OMIT] = ()
    retention: Retention = Retention.LIMITS
    max_consumers: Int = 0
    max_msgs: Int64 = 0
    max_bytes: Int64 = 0
    max_age: Duration = 0
    max_msgs_per_subject: Int64 = 0
    max_msg_size: Annotated[Int32, OMIT] = 0
    discard: Discard = Discard.OLD
    storage: Storage = Storage.FILE
    num_replicas: Int = 0
    no_ack: Annotated[bool, OMIT] = False
    duplicate_window: Annotated[Duration, OMIT] = 0
    placement: Annotated[Placement | None, OMIT] = None
    mirror: Annotated[StreamSource | None, OMIT] = None
    sources: Annotated[tuple[StreamSource | None, ...], OMIT] = ()
    compression: Compression = Compression.NONE
    first_seq: Annotated[Uint64, OMIT] = 0
    subject_transform: Annotated[SubjectTransformConfig | None, OMIT] = None
    republish: Annotated[RePublish | None, OMIT] = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: Annotated[bool, OMIT] = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: StreamConsumerLimits = StreamConsumerLimits()
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: Annotated[Duration, OMIT] = 0
    allow_msg_counter: Annotated[bool, OMIT] = False
    allow_atomic: Annotated[bool, OMIT] = False
    allow_msg_schedules: Annotated[bool, OMIT] = False
    persist_mode: Annotated[PersistMode, OMIT] = PersistMode.DEFAULT
    allow_batched: Annotated[bool, OMIT] = False
    metadata: Annotated[dict[str, str], OMIT] = {}


class StreamConfigRequest(StreamConfig, frozen=True, kw_only=True):
    """The body of STREAM.CREATE and STREAM.UPDATE.

    `pedantic` True refuses values that the server would otherwise change.
    """

    pedantic: Annotated[bool, OMIT] = False

    def config(self) -> StreamConfig:
        """Return the configuration without the member `pedantic`."""
        values = {name: getattr(self, name) for name in StreamConfig.__struct_fields__}
        return StreamConfig(**values)


class LostStreamData(msgspec.Struct, frozen=True, kw_only=True):
    msgs: tuple[Uint64, ...] = ()
    bytes: Uint64 = 0


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a stream: messages, bytes, sequences, subjects.

    `num_deleted` and `deleted` count only gaps between the first and the last sequence.
    """

    messages: Uint64 = 0
    bytes: Uint64 = 0
    first_seq: Uint64 = 0
    first_ts: Time = 0
    last_seq: Uint64 = 0
    last_ts: Time = 0
    num_subjects: Annotated[Int, OMIT] = 0
    subjects: Annotated[dict[str, Uint64], OMIT] = {}
    num_deleted: Annotated[Int, OMIT] = 0
    deleted: Annotated[tuple[Uint64, ...], OMIT] = ()
    lost: Annotated[LostStreamData | None, OMIT] = None
    consumer_count: Int = 0


class StreamSourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a mirror or source: its lag behind the origin stream, in messages.

    `active` is nanoseconds since the last message from the origin; -1: none so far.
    """

    name: str = ""
    external: Annotated[ExternalStream | None, OMIT] = None
    lag: Uint64 = 0
    seq: Annotated[Uint64, OMIT] = 0
    active: Duration = 0
    error: Annotated[ErrorBody | None, OMIT] = None
    filter_subject: Annotated[str, OMIT] = ""
    subject_transforms: Annotated[tuple[SubjectTransformConfig, ...], OMIT] = ()


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    config: StreamConfig = StreamConfig()
    created: Time = 0
    state: StreamState = StreamState()
    domain: Annotated[str, OMIT] = ""
    cluster: Annotated[ClusterInfo | None, OMIT] = None
    mirror: Annotated[StreamSourceInfo | None, OMIT] = None
    sources: Annotated[tuple[StreamSourceInfo, ...], OMIT] = ()
    alternates: Annotated[tuple[StreamAlternate, ...], OMIT] = ()
    ts: Time = 0


# --- requests --------------------------------------------------------------------------------


class StreamPageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of STREAM.NAMES; `subject` selects streams whose subjects overlap it."""

    go_name = "JSApiStreamNamesRequest"
    offset: Int = 0
    subject: Annotated[str, OMIT] = ""


class StreamListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of STREAM.LIST; `subject` selects streams whose subjects overlap it.

    Same members as `StreamPageRequest`; error texts have another type name.
    """

    go_name = "JSApiStreamListRequest"
    offset: Int = 0
    subject: Annotated[str, OMIT] = ""


class StreamInfoRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiStreamInfoRequest"
    offset: Int = 0
    deleted_details: Annotated[bool, OMIT] = False
    subjects_filter: Annotated[str, OMIT] = ""


class StreamPurgeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of STREAM.PURGE.

    Attributes:
        seq: Purge only messages below this sequence (0: not set).
        filter: Purge only messages on these subjects ("": all).
        keep: Number of newest messages to keep (0: not set).
    """

    go_name = "JSApiStreamPurgeRequest"
    seq: Annotated[Uint64, OMIT] = 0
    filter: Annotated[str, OMIT] = ""
    keep: Annotated[Uint64, OMIT] = 0


class MsgDeleteRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiMsgDeleteRequest"
    seq: Uint64 = 0
    no_erase: Annotated[bool, OMIT] = False


class SnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiStreamSnapshotRequest"
    deliver_subject: str = ""
    no_consumers: Annotated[bool, OMIT] = False
    chunk_size: Annotated[Int, OMIT] = 0
    window_size: Annotated[Int, OMIT] = 0
    jsck: Annotated[bool, OMIT] = False


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    go_name = "JSApiStreamRestoreRequest"
    config: StreamConfig = StreamConfig()
    state: StreamState = StreamState()


# --- responses -------------------------------------------------------------------------------


class StreamCreateResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_create_response"
    info: Annotated[StreamInfo | None, INLINE] = None
    did_create: Annotated[bool, OMIT] = False


class StreamUpdateResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_update_response"
    info: Annotated[StreamInfo | None, INLINE] = None


class StreamInfoResponse(Paged, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_info_response"
    info: Annotated[StreamInfo | None, INLINE] = None


class StreamNamesResponse(Paged, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_names_response"
    streams: tuple[str, ...] | None = None


class StreamListResponse(Paged, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_list_response"
    streams: tuple[StreamInfo, ...] = ()
    missing: Annotated[tuple[str, ...], OMIT] = ()


class StreamDeleteResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_delete_response"
    success: Annotated[bool, OMIT] = False


class StreamPurgeResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_purge_response"
    success: Annotated[bool, OMIT] = False
    purged: Uint64 = 0


class MsgDeleteResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_msg_delete_response"
    success: Annotated[bool, OMIT] = False


class StreamStepdownResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_leader_stepdown_response"
    success: Annotated[bool, OMIT] = False


class StreamRemovePeerResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_remove_peer_response"
    success: Annotated[bool, OMIT] = False


class StreamEvacuatePeerResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_evacuate_peer_response"
    success: Annotated[bool, OMIT] = False


class StreamCancelMoveResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_cancel_move_response"


class StreamSnapshotResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_snapshot_response"


class StreamRestoreResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "stream_restore_response"
    deliver_subject: str = ""
