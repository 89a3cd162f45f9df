"""The API level that a stream or consumer requires, and the metadata members about it (ADR-44).

`_nats.req.level` is stored with the configuration. `_nats.ver` and `_nats.level` are added to
replies only, and removed from requests.
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
    """Return the lowest API level that supports the features of a stream configuration."""
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
    """Return the lowest API level that supports the features of a consumer configuration."""
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
    """Return the configuration for storage, with the required API level in its metadata."""
    metadata = _stored(config.metadata, stream_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def stamp_consumer(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration for storage, with the required API level in its metadata."""
    metadata = _stored(config.metadata, consumer_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def show_stream(config: StreamConfig) -> StreamConfig:
    """Return the configuration for a reply, with server version and API level in its metadata."""
    return msgspec.structs.replace(config, metadata=_shown(config.metadata))


def show_consumer(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration for a reply, with server version and API level in its metadata."""
    return msgspec.structs.replace(config, metadata=_shown(config.metadata))


def comparable_metadata(metadata: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    """Return a request's metadata in the form of stored metadata, to compare both.

    The required API level is taken from the stored metadata.
    """
    mine = _without_reply_members(metadata)
    mine.pop(REQUIRED, None)
    if REQUIRED in stored:
        mine[REQUIRED] = stored[REQUIRED]
    return mine


def is_level_supported(text: bytes) -> bool:
    """Return whether this server has the API level of a `Nats-Required-Api-Level` header.

    False if the header is no integer.
    """
    level = parse_int(text.decode("latin-1"))
    return level is not None and level <= API_LEVEL


def _stored(metadata: dict[str, str], level: int) -> dict[str, str]:
    return {**_without_reply_members(metadata), REQUIRED: str(level)}


def _without_reply_members(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key not in (_VERSION, _LEVEL)}


def _shown(metadata: dict[str, str]) -> dict[str, str]:
    return {**metadata, _VERSION: SERVER_VERSION, _LEVEL: str(API_LEVEL)}
