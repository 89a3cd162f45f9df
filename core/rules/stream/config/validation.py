"""The rules for the configuration of a stream: defaults, validation, creation, updates.

Pure functions: they take a configuration and return the one to store, or raise ApiError. The order
of the checks is that of nats-server, because the client sees the error of the first check that
fails. Features that this server does not support are validated here too; `core.model.unsupported`
refuses them afterwards.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from core.errors import ApiError
from core.model import names
from core.model.account import ServerLimits
from core.model.api_errors import api_error
from core.model.cluster import Placement
from core.model.consumer import ConsumerConfig
from core.model.gotime import format_duration
from core.model.mapping import MappingError, check_mapping, check_transform
from core.model.stream import (
    Discard,
    PersistMode,
    Retention,
    Storage,
    StreamConfig,
)
from core.model.subjects import (
    any_collision,
    collide,
    first_collision,
    is_subset,
    is_valid_subject,
)
from core.model.versions import comparable_metadata, stamp_stream
from core.rules.stream.config.sourcing import check_sourcing
from core.rules.stream.ttl import MARKER_METADATA, marker_reasons_of
from core.units import NANOS_PER_SECOND

MILLISECOND = 1_000_000
DUPLICATE_WINDOW = 120 * NANOS_PER_SECOND
SHORTEST_AGE = 100 * MILLISECOND
REPLICAS_MAX = 5
_LAST_SEQ = (1 << 63) - 1  # sequences are signed 64-bit numbers in storage

NO_LIMITS = ServerLimits()
_RESERVED_SPACES = ("$JS.>", "$JSC.>", "$NRG.>", "$JG.API.>")
_UNLIMITED = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


def invalid(reason: str) -> ApiError:
    """Return ApiError JSStreamInvalidConfig with the reason as its whole description."""
    return api_error("JSStreamInvalidConfig", err=reason)


def pedantic_error(reason: str) -> ApiError:
    """Return ApiError JSPedantic, for a value that is corrected if the request is not pedantic."""
    return api_error("JSPedantic", err=reason)


# --- creation, updates, limits of the account ------------------------------------------------


def check_create(
    requested: StreamConfig,
    streams: Mapping[str, StreamConfig],
    *,
    name: str,
    limits: ServerLimits = NO_LIMITS,
    pedantic: bool = False,
) -> tuple[StreamConfig, bool]:
    """Validate a request to create the stream `name` among the account's `streams`.

    Returns:
        (the configuration to store, whether the stream is new). False means that an identical
        stream exists, which counts as success.

    Raises:
        ApiError: The stream may not be created.
    """
    config = stamp_stream(requested)
    if config.name != name:
        raise api_error("JSStreamMismatch")
    if names.has_path_separator(name):
        raise api_error("JSStreamNameContainsPathSeparators")
    if config.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")
    other_configs = {key: value for key, value in streams.items() if key != name}
    check_room(config, other_configs.values(), limits)
    config = check(config, streams, limits=limits, pedantic=pedantic)
    _check_replicas(config, limits)
    existing = streams.get(name)
    if existing is not None:
        if not is_same(config, existing):
            raise api_error("JSStreamNameExist")
        return existing, False
    _check_filters(config)
    check_overlap(config, other_configs.values())
    if "\0" in name:  # nats-server cannot create a file of that name, PostgreSQL no text
        raise api_error("JSStreamCreate", err="error creating store for stream")
    if config.first_seq > _LAST_SEQ:
        raise invalid(f"first sequence can not be greater than {_LAST_SEQ}")
    return config, True


def check_update(
    requested: StreamConfig,
    streams: Mapping[str, StreamConfig],
    consumers: Mapping[str, ConsumerConfig],
    *,
    name: str,
    limits: ServerLimits = NO_LIMITS,
    pedantic: bool = False,
) -> StreamConfig:
    """Validate an update of the stream `name`; return the configuration to store.

    Args:
        requested: The configuration of the request.
        streams: The streams of the account, by name.
        consumers: The consumers of the stream, by name.
        name: The name of the stream in the request's subject.
        limits: The limits of the account.
        pedantic: Refuse values that would otherwise be corrected.

    Raises:
        ApiError: The update is refused.
    """
    config = check(requested, streams, limits=limits, pedantic=pedantic)
    if config.name != name:
        raise api_error("JSStreamMismatch")
    old = streams.get(name)
    if old is None:
        raise api_error("JSStreamNotFound")
    _check_counter(config)  # again: a default may be a value that counters do not allow
    _check_replicas(config, limits)
    config = _check_changes(old, stamp_stream(config))
    other_configs = [value for key, value in streams.items() if key != name]
    check_reservation(config, other_configs, limits)
    _check_consumer_limits(old, config, consumers)
    check_overlap(config, other_configs)
    return config


def is_same(requested: StreamConfig, stored: StreamConfig) -> bool:
    """Return whether two validated configurations are equal, apart from version metadata."""
    metadata = comparable_metadata(requested.metadata, stored.metadata)
    return replace(requested, metadata=metadata) == stored


def check_overlap(config: StreamConfig, other_configs: Iterable[StreamConfig]) -> None:
    """Raise ApiError if another stream of the account captures one of the subjects too."""
    theirs = (subject for other in other_configs for subject in other.subjects)
    if any_collision(config.subjects, theirs):
        raise api_error("JSStreamSubjectOverlap")


def check_room(
    config: StreamConfig, other_configs: Collection[StreamConfig], limits: ServerLimits
) -> None:
    """Raise ApiError if one more stream exceeds the account's `max_streams` or its storage.

    The storage limit applies to the sum of `max_bytes` of all streams.
    """
    if 0 < limits.max_streams <= len(other_configs):
        raise api_error("JSMaximumStreamsLimit")
    check_reservation(config, other_configs, limits)


def check_reservation(
    config: StreamConfig, other_configs: Iterable[StreamConfig], limits: ServerLimits
) -> None:
    """Raise ApiError if `max_bytes` exceeds the storage that the account has left.

    The limit applies to the sum of `max_bytes` of all streams with this kind of storage.
    """
    is_memory = config.storage is Storage.MEMORY
    limit = limits.max_memory if is_memory else limits.max_storage
    if limit <= 0:
        return
    reserved = sum(max(o.max_bytes, 0) for o in other_configs if o.storage is config.storage)
    if reserved + max(config.max_bytes, 0) > limit:
        raise api_error("JSMemoryResourcesExceeded" if is_memory else "JSStorageResourcesExceeded")


# --- one configuration -----------------------------------------------------------------------


def check(
    config: StreamConfig,
    streams: Mapping[str, StreamConfig],
    *,
    limits: ServerLimits = NO_LIMITS,
    pedantic: bool = False,
) -> StreamConfig:
    """Return the configuration with defaults filled in.

    `streams` are the streams that a mirror or source may refer to. Raises ApiError if the
    configuration is invalid.
    """
    _check_texts(config)
    config = _with_counts(config, pedantic)
    config = _with_window(config, limits.duplicate_window, pedantic)
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    _check_counter(config)
    _check_discard_per_subject(config)
    config = _with_markers(config, pedantic)
    config = _with_schedules(config, pedantic)
    _check_persistence(config)
    config = check_sourcing(config, streams, pedantic=pedantic)
    config = _with_subjects(config)
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise api_error("JSStreamMaxBytesRequired")
    is_memory = config.storage is Storage.MEMORY
    most = limits.memory_max_stream_bytes if is_memory else limits.storage_max_stream_bytes
    if 0 < most < config.max_bytes:
        raise api_error("JSStreamMaxStreamBytesExceeded")
    _check_transform(config)
    config = _with_republish(config, pedantic)
    return _with_placement(config)


def _check_texts(config: StreamConfig) -> None:
    if not names.is_valid_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > names.NAME_MAX:
        raise invalid(f"stream name is too long, maximum allowed is {names.NAME_MAX}")
    if len(config.description.encode()) > names.DESCRIPTION_MAX:
        raise invalid(f"stream description is too long, maximum allowed is {names.DESCRIPTION_MAX}")
    if names.metadata_size(config.metadata) > names.METADATA_MAX:
        raise invalid(f"stream metadata exceeds maximum size of {names.METADATA_MAX} bytes")


def _check_replicas(config: StreamConfig, limits: ServerLimits) -> None:
    """Raise ApiError for replicas on a server without peers. More replicas than nodes are valid."""
    if config.num_replicas > limits.replicas:
        raise api_error("JSStreamReplicasNotSupported")


def _with_counts(config: StreamConfig, pedantic: bool) -> StreamConfig:
    if config.num_replicas > REPLICAS_MAX:
        raise invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise api_error("JSReplicasCountCannotBeNegative")
    changes: dict[str, int] = {"num_replicas": config.num_replicas or 1}
    for name in _UNLIMITED:
        value = getattr(config, name)
        if value < -1 and pedantic:
            raise pedantic_error(f"{name} must be set to -1")
        if value == 0 or value < -1:
            changes[name] = -1
    return replace(config, **changes)


def _with_window(config: StreamConfig, most: int, pedantic: bool) -> StreamConfig:
    age, window = config.max_age, config.duplicate_window
    if age < 0:
        raise invalid("max age can not be negative")
    if 0 < age < SHORTEST_AGE:
        raise invalid("max age needs to be >= 100ms")
    if window == 0 and config.mirror is None and not config.sources:
        window = DUPLICATE_WINDOW
        if 0 < most < window:
            if pedantic:
                raise pedantic_error("duplicate window limits are higher than current limits")
            window = most
        if 0 < age < window:
            if pedantic:
                raise pedantic_error("duplicate window cannot be bigger than max age")
            window = age
    if window < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < age < window:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < most < window:
        limit = format_duration(most)
        raise invalid(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < window < SHORTEST_AGE:
        raise invalid("duplicates window needs to be >= 100ms")
    return replace(config, duplicate_window=window)


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard is Discard.NEW:
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention is not Retention.LIMITS:
        raise invalid("counter stream can only use limits retention")


def _check_discard_per_subject(config: StreamConfig) -> None:
    if not config.discard_new_per_subject:
        return
    if config.discard is not Discard.NEW:
        raise invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise invalid("discard new per subject requires max msgs per subject > 0")


def _with_markers(config: StreamConfig, pedantic: bool) -> StreamConfig:
    ttl = config.subject_delete_marker_ttl
    if ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    try:
        marks = marker_reasons_of(config)
    except ValueError as error:
        raise invalid(str(error)) from None
    if marks and config.allow_msg_counter:
        raise invalid(f"{MARKER_METADATA} cannot be used with message counters")
    if ttl == 0:
        if marks:
            raise invalid(f"{MARKER_METADATA} needs a subject delete marker TTL")
        return config
    if ttl < NANOS_PER_SECOND:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl and pedantic:
        raise invalid("subject delete marker cannot be set if message TTLs are disabled")
    config = replace(config, allow_msg_ttl=True)
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid("subject delete marker cannot be set if roll-ups are disabled")
        config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    return config


def _with_schedules(config: StreamConfig, pedantic: bool) -> StreamConfig:
    if not config.allow_msg_schedules:
        return config
    if config.discard is Discard.NEW:
        raise invalid("message scheduling cannot use discard new")
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid("message scheduling cannot be set if roll-ups are disabled")
        config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    return config


def _check_persistence(config: StreamConfig) -> None:
    if config.persist_mode is not PersistMode.ASYNC:
        return
    if config.storage is not Storage.FILE:
        raise invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise invalid("async persist mode is not supported with atomic batch publish")


def _with_subjects(config: StreamConfig) -> StreamConfig:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            return replace(config, subjects=(config.name,))
        return config
    if config.mirror is not None:
        raise api_error("JSMirrorWithSubjects")
    collision = first_collision(config.subjects)
    for index, subject in enumerate(config.subjects):
        _check_subject(config, subject)
        if collision is not None and collision[0] == index:
            later = config.subjects[collision[1]]
            raise invalid(f'subject "{subject}" overlaps with "{later}"')
    return config


def _check_subject(config: StreamConfig, subject: str) -> None:
    if not is_valid_subject(subject):
        raise invalid("invalid subject")
    if subject == ">" and not config.no_ack:
        raise invalid("capturing all subjects requires no-ack to be true")
    if subject == ">" and config.num_replicas != 1:
        raise invalid("capturing all subjects requires replicas of 1")
    if config.no_ack:
        return
    for space in _RESERVED_SPACES:
        if collide(subject, space) and not is_subset(subject, "$JS.EVENT.>"):
            raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if collide(subject, "$SYS.>") and not is_subset(subject, "$SYS.ACCOUNT.>"):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def _check_transform(config: StreamConfig) -> None:
    transform = config.subject_transform
    if transform is None:
        return
    if transform.src and not is_valid_subject(transform.src):
        error = f"invalid subject {transform.src}"
        raise api_error("JSStreamTransformInvalidSource", err=error)
    try:
        check_mapping(transform.src, transform.dest)
    except MappingError as error:
        raise api_error("JSStreamTransformInvalidDestination", err=error) from None


def _with_republish(config: StreamConfig, pedantic: bool) -> StreamConfig:
    republish, transform = config.republish, config.subject_transform
    if republish is None:
        return config
    if not republish.src:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish = replace(republish, src=">")
    if (
        republish.src == republish.dest == ">"
        and transform is not None
        and config.subjects == (transform.src,)
    ):
        if pedantic:
            raise pedantic_error("implicit republish based on subject transform")
        republish = replace(republish, src=transform.dest, dest=transform.dest)
    if any(collide(republish.dest, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    try:
        check_transform(republish.src, republish.dest)
    except MappingError:
        sides = f"from '{republish.src}' to '{republish.dest}'"
        raise invalid(
            f"stream configuration for republish with transform {sides} not valid"
        ) from None
    return replace(config, republish=republish)


def _with_placement(config: StreamConfig) -> StreamConfig:
    if config.placement == Placement():
        return replace(config, placement=None)
    if config.placement is not None and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config


# --- filters of mirrors and sources ----------------------------------------------------------


def _check_filters(config: StreamConfig) -> None:
    """Raise ApiError if the filter subject of mirror or source is invalid.

    Filters of transforms were checked before.
    """
    if config.mirror is not None:
        subject = config.mirror.filter_subject
        if subject and not is_valid_subject(subject):
            error = f"subject filter '{subject}' for the mirror invalid subject"
            raise api_error("JSStreamCreate", err=error)
    for source in config.sources:
        if source and source.filter_subject and not is_valid_subject(source.filter_subject):
            error = f"subject filter '{source.filter_subject}' for the source: invalid subject"
            raise api_error("JSStreamCreate", err=error)


# --- changes ---------------------------------------------------------------------------------


def _check_changes(old: StreamConfig, new: StreamConfig) -> StreamConfig:
    prefix = "stream configuration update can not "
    if new.storage is not old.storage:
        raise invalid(prefix + "change storage type")
    changes_retention = new.retention is not old.retention
    if changes_retention and Retention.WORKQUEUE in (new.retention, old.retention):
        raise invalid(prefix + "change retention policy to/from workqueue")
    if old.sealed and not new.sealed:
        raise invalid(prefix + "unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise invalid(prefix + "cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise invalid(prefix + "cancel deny purge")
    if new.mirror is not None and new.mirror != old.mirror:
        raise api_error("JSStreamMirrorNotUpdatable")
    _check_discard_per_subject(new)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise invalid(prefix + "change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if old.persist_mode is not new.persist_mode:
        raise invalid(prefix + "change persist mode")
    return _sealed(new) if new.sealed else new


def _sealed(config: StreamConfig) -> StreamConfig:
    """Return the configuration of a sealed stream, with the settings that sealing implies."""
    return replace(
        config,
        max_age=0,
        discard=Discard.NEW,
        deny_delete=True,
        deny_purge=True,
        allow_rollup_hdrs=False,
    )


def _check_consumer_limits(
    old: StreamConfig, new: StreamConfig, consumers: Mapping[str, ConsumerConfig]
) -> None:
    threshold = new.consumer_limits.inactive_threshold
    pending = new.consumer_limits.max_ack_pending
    changed = (threshold > 0 and old.consumer_limits.inactive_threshold != threshold) or (
        pending > 0 and old.consumer_limits.max_ack_pending != pending
    )
    if not changed:
        return
    violating = [
        name
        for name, consumer in consumers.items()
        if 0 < threshold < consumer.inactive_threshold or 0 < pending < consumer.max_ack_pending
    ]
    if violating:
        error = f"change to limits violates consumers: {', '.join(violating)}"
        raise api_error("JSStreamUpdate", err=error)
