"""The required API level of streams and consumers, and its members in their metadata (ADR-44).

`_nats.req.level` is stored with the asset. `_nats.ver` and `_nats.level` are added to replies only,
and removed from requests.
"""

import msgspec

from core.goinput import parse_int
from core.model.consumer import AckPolicy, ConsumerConfig, PriorityPolicy
from core.model.release import API_LEVEL, SERVER_VERSION
from core.model.stream import PersistMode, StreamConfig
from core.model.wire import ZERO_TIME

REQUIRED = "_nats.req.level"
_VERSION = "_nats.ver"
_LEVEL = "_nats.level"


def stream_level(config: StreamConfig) -> int:
    """Return the lowest API level that supports a stream."""
    level = 0
    if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0:
        level = 1
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode is PersistMode.ASYNC
    ):
        level = 2
    return 4 if config.allow_batched else level


def consumer_level(config: ConsumerConfig) -> int:
    """Return the lowest API level that supports a consumer."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return 4
    uses_groups = (
        config.priority_policy is not PriorityPolicy.NONE
        or config.priority_timeout != 0
        or bool(config.priority_groups)
    )
    is_paused = config.pause_until is not None and config.pause_until != ZERO_TIME
    return 1 if uses_groups or is_paused else 0


def stamp_stream(config: StreamConfig) -> StreamConfig:
    """Return the configuration with the required level in its metadata, for storage."""
    metadata = _stored(config.metadata, stream_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def stamp_consumer(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration with the required level in its metadata, for storage."""
    metadata = _stored(config.metadata, consumer_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def show_stream(config: StreamConfig) -> StreamConfig:
    """Return the configuration with the metadata members that only replies contain."""
    return msgspec.structs.replace(config, metadata=_shown(config.metadata))


def show_consumer(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration with the metadata members that only replies contain."""
    return msgspec.structs.replace(config, metadata=_shown(config.metadata))


def comparable_metadata(metadata: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    """Return a request's metadata with the required level of the stored stream or consumer."""
    mine = _without_reply_members(metadata)
    mine.pop(REQUIRED, None)
    if REQUIRED in stored:
        mine[REQUIRED] = stored[REQUIRED]
    return mine


def is_level_supported(text: bytes) -> bool:
    """Decide whether this server satisfies a `Nats-Required-Api-Level` header."""
    level = parse_int(text.decode("latin-1"))
    return level is not None and level <= API_LEVEL


def _stored(metadata: dict[str, str], level: int) -> dict[str, str]:
    return {**_without_reply_members(metadata), REQUIRED: str(level)}


def _without_reply_members(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key not in (_VERSION, _LEVEL)}


def _shown(metadata: dict[str, str]) -> dict[str, str]:
    return {**metadata, _VERSION: SERVER_VERSION, _LEVEL: str(API_LEVEL)}
