"""The rules for mirrors and sources in a stream's configuration, in the order of nats-server."""

from collections.abc import Mapping

from msgspec.structs import replace

from core.errors import ApiError
from core.model import names
from core.model.api_errors import api_error
from core.model.mapping import MappingError, check_mapping
from core.model.stream import StreamConfig, StreamSource, SubjectTransformConfig
from core.model.subjects import (
    any_within_another,
    collide,
    first_collision,
    is_valid_publish_subject,
    is_valid_subject,
)

_API_PREFIX = "$JS.API"


def check_sourcing(
    config: StreamConfig, streams: Mapping[str, StreamConfig], *, pedantic: bool
) -> StreamConfig:
    """Validate mirror and sources against the other streams of the account.

    Returns the configuration; a mirror gets the setting of `mirror_direct` from its origin, if the
    origin is in `streams`. Raises ApiError if mirror or sources are invalid.
    """
    if config.mirror is not None:
        _check_mirror(config, config.mirror)
        config = _with_origin(config, config.mirror, streams, pedantic)
    if config.sources and config.allow_msg_schedules:
        raise api_error("JSSourceWithMsgSchedules")
    _check_sources(config, streams)
    _check_prefixes(config, streams)
    _check_cycles(config, streams)
    return config


def _check_mirror(config: StreamConfig, mirror: StreamSource) -> None:
    conflicts = (
        (config.first_seq > 0, "JSMirrorWithFirstSeq"),
        (bool(config.subjects), "JSMirrorWithSubjects"),
        (bool(config.sources), "JSMirrorWithSources"),
        (config.allow_msg_counter, "JSMirrorWithCounters"),
        (config.allow_atomic, "JSMirrorWithAtomicPublish"),
        (config.allow_batched, "JSMirrorWithBatchPublish"),
        (config.allow_msg_schedules, "JSMirrorWithMsgSchedules"),
        (not _is_valid_reference(mirror), "JSMirrorDurableConsumerCfgInvalid"),
        (
            bool(mirror.filter_subject and mirror.subject_transforms),
            "JSMirrorMultipleFiltersNotAllowed",
        ),
    )
    for is_broken, name in conflicts:
        if is_broken:
            raise api_error(name)
    if config.subject_delete_marker_ttl > 0:
        reason = "subject delete markers forbidden on mirrors"
        raise api_error("JSStreamInvalidConfig", err=reason)
    transforms = mirror.subject_transforms
    collision = first_collision([transform.src for transform in transforms])
    for index, transform in enumerate(transforms):
        _check_transform(transform, "Mirror")
        if collision is not None and collision[0] == index:
            raise api_error("JSMirrorOverlappingSubjectFilters")


def _is_valid_reference(source: StreamSource) -> bool:
    """Return whether the durable consumer that a source names, if any, is valid.

    No other setting of the source may narrow its messages.
    """
    consumer = source.consumer
    if consumer is None:
        return True
    return (
        names.is_valid_name(consumer.name)
        and is_valid_publish_subject(consumer.deliver_subject)
        and source.opt_start_seq == 0
        and source.opt_start_time is None
        and source.filter_subject == ""
    )


def _check_transform(transform: SubjectTransformConfig, kind: str) -> None:
    if transform.src and not is_valid_subject(transform.src):
        error = f"invalid subject {transform.src}"
        raise api_error(f"JS{kind}InvalidSubjectFilter", err=error)
    try:
        check_mapping(transform.src, transform.dest)
    except MappingError as error:
        raise api_error(f"JS{kind}InvalidTransformDestination", err=error) from None


def _with_origin(
    config: StreamConfig,
    mirror: StreamSource,
    streams: Mapping[str, StreamConfig],
    pedantic: bool,
) -> StreamConfig:
    if mirror.external is not None:
        return config
    if not names.is_valid_name(mirror.name):
        raise api_error("JSMirrorInvalidStreamName")
    origin = streams.get(mirror.name)
    if origin is None:
        return config
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise api_error("JSMirrorMaxMessageSizeTooBig")
    if pedantic and config.mirror_direct != origin.allow_direct:
        reason = "origin stream has direct get set, mirror has it disabled"
        raise api_error("JSPedantic", err=reason)
    return replace(config, mirror_direct=origin.allow_direct)


def _check_sources(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    seen: set[tuple[object, ...]] = set()
    consumers: set[tuple[object, ...]] = set()
    for source in config.sources:
        if source is None or not names.is_valid_name(source.name):
            raise api_error("JSSourceInvalidStreamName")
        if (identity := _identity(source)) in seen:
            raise api_error("JSSourceDuplicateDetected")
        seen.add(identity)
        if source.filter_subject and source.subject_transforms:
            raise api_error("JSSourceMultipleFiltersNotAllowed")
        _check_source_transforms(source.subject_transforms)
        if not _is_valid_reference(source):
            raise api_error("JSSourceDurableConsumerCfgInvalid")
        if source.consumer is not None:
            reference = (source.name, _api_prefix(source), source.consumer.name)
            if reference in consumers:
                raise api_error("JSSourceDurableConsumerDuplicateDetected")
            consumers.add(reference)
        origin = streams.get(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise api_error("JSSourceMaxMessageSizeTooBig")


def _check_source_transforms(transforms: tuple[SubjectTransformConfig, ...]) -> None:
    for transform in transforms:
        _check_transform(transform, "Source")
    if any_within_another([transform.src for transform in transforms]):
        raise api_error("JSSourceOverlappingSubjectFilters")


def _identity(source: StreamSource) -> tuple[object, ...]:
    """Return the values in which two sources must differ."""
    if source.subject_transforms:
        subjects = tuple((t.src or ">", t.dest or ">") for t in source.subject_transforms)
    else:
        subjects = ((source.filter_subject or ">", ">"),)
    consumer = source.consumer.name if source.consumer is not None else None
    return source.name, _api_prefix(source), consumer, subjects


def _api_prefix(source: StreamSource) -> str | None:
    return source.external.api if source.external is not None else None


def _check_prefixes(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    """Raise ApiError if prefixes of external origins overlap subjects that are used here.

    These are the prefixes for deliveries and for the API.
    """
    sources = [source for source in (config.mirror, *config.sources) if source is not None]
    captured = [
        subject
        for source in sources
        if source.external is None and source.name in streams
        for subject in streams[source.name].subjects
    ]
    externals = [source.external for source in sources if source.external is not None]
    for deliver in (external.deliver for external in externals if external.deliver):
        if not is_valid_publish_subject(deliver):
            raise api_error("JSStreamInvalidExternalDeliverySubj", prefix=deliver)
        for subject in captured:
            if collide(subject, f"{deliver}.{subject}"):
                raise api_error(
                    "JSStreamExternalDelPrefixOverlaps", prefix=deliver, subject=subject
                )
    for api in (external.api for external in externals if external.api):
        if not is_valid_publish_subject(api):
            reason = f'stream external api prefix "{api}" must be a valid subject without wildcards'
            raise api_error("JSStreamInvalidConfig", err=reason)
        if collide(api, _API_PREFIX):
            raise api_error("JSStreamExternalApiOverlap", prefix=api, subject=_API_PREFIX)


def _check_cycles(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    waiting, visited = [config], set[str]()
    while waiting:
        current = waiting.pop(0)
        visited.add(current.name)
        for source in current.sources:
            if source is None or source.external is not None:
                continue
            if source.name not in visited:
                waiting.extend(streams[name] for name in (source.name,) if name in streams)
            elif not source.filter_subject or any(
                collide(subject, source.filter_subject) for subject in current.subjects
            ):
                raise _cycle()
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise _cycle()
            waiting.extend(streams[name] for name in (mirror.name,) if name in streams)


def _cycle() -> ApiError:
    return api_error("JSStreamInvalidConfig", err="detected cycle")
