"""The rules for the configuration of a consumer: defaults, validation, creation and update.

Pure functions: they return the configuration to store or raise ApiError. The checks are made in the
order of nats-server, so that the first error is the same.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from core.errors import ApiError
from core.model import names
from core.model.account import ServerLimits
from core.model.api_errors import api_error
from core.model.consumer import (
    AckPolicy,
    Action,
    ConsumerConfig,
    CreateConsumerRequest,
    DeliverPolicy,
    PriorityPolicy,
)
from core.model.stream import Retention, StreamConfig
from core.model.subjects import collide
from core.model.versions import comparable_metadata, stamp_consumer
from core.rules.consumer.config.checks import FLOW_CONTROL_HEARTBEAT, check_rules
from core.units import NANOS_PER_SECOND

ACK_WAIT = 30 * NANOS_PER_SECOND
MAX_ACK_PENDING = 1000
MAX_WAITING = 512
EPHEMERAL_THRESHOLD = 5 * NANOS_PER_SECOND
PINNED_TIMEOUT = 120 * NANOS_PER_SECOND
CONSUMERS_PER_STREAM = 1000

NO_LIMITS = ServerLimits()


# --- the request -----------------------------------------------------------------------------


def named_request(
    request: CreateConsumerRequest,
    stream: str,
    name: str,
    filter_subject: str,
    durable: bool,
    limits: ServerLimits = NO_LIMITS,
) -> ConsumerConfig:
    """Check that a create request agrees with its API subject; return its configuration.

    The returned configuration has the consumer name of the subject.

    Args:
        request: The request.
        stream: The stream in the subject.
        name: The consumer in the subject ("": the legacy ephemeral form).
        filter_subject: The part of the subject after the name ("": none).
        durable: Whether the subject has the legacy form `CONSUMER.DURABLE.CREATE`.
        limits: The limits of the server; more than one replica means a cluster.

    Raises:
        ApiError: Request and subject do not agree.
    """
    config = request.config
    if stream != request.stream_name:
        raise api_error("JSStreamMismatch")
    if names.has_path_separator(name or config.name):
        raise api_error("JSConsumerNameContainsPathSeparators")
    if durable and not config.durable_name:
        raise api_error("JSConsumerDurableNameNotSet")
    if name:
        if config.durable_name and config.durable_name != name:
            raise api_error("JSConsumerDurableNameNotMatchSubject")
        config = replace(config, name=name)
    elif config.durable_name:
        raise api_error("JSConsumerEphemeralWithDurableName")
    if filter_subject and config.filter_subjects:
        raise api_error("JSConsumerMultipleFiltersNotAllowed")
    if filter_subject and config.filter_subject != filter_subject:
        raise api_error("JSConsumerCreateFilterSubjectMismatch")
    if limits.replicas == 1 and config.num_replicas > 1:
        raise api_error("JSStreamReplicasNotSupported")
    return config


# --- create and update -----------------------------------------------------------------------


def check_create_or_update(
    requested: ConsumerConfig,
    stream: StreamConfig,
    consumers: Mapping[str, ConsumerConfig],
    *,
    action: Action = Action.CREATE_OR_UPDATE,
    has_interest: bool = False,
    limits: ServerLimits = NO_LIMITS,
    pedantic: bool = False,
) -> tuple[ConsumerConfig, str]:
    """Validate a request to create or update a consumer; return the configuration to store.

    Args:
        requested: The configuration, with the name from the subject (`named_request`).
        stream: The configuration of the stream.
        consumers: All consumers of the stream, by name.
        action: Whether the request may create, update, or do both.
        has_interest: Whether the present deliver subject of the existing consumer has a subscriber.
        limits: The limits of the account.
        pedantic: Refuse values that would otherwise be corrected.

    Returns:
        (the configuration to store, the name of the existing consumer that it updates or "" for a
        new one). A new consumer without a name gets a generated one, which is not stored in its
        configuration.

    Raises:
        ApiError: The request is refused.
    """
    name = requested.durable_name or requested.name
    existing = consumers.get(name) if name else None
    if existing is not None:
        requested = replace(requested, pause_until=existing.pause_until)
    config = stamp_consumer(requested)
    config = _with_defaults(config, stream, limits, pedantic)
    check_rules(config, stream, limits)
    if existing is not None:
        if action is Action.CREATE and not is_same(config, existing):
            raise api_error("JSConsumerAlreadyExists")
        if stream.retention is Retention.WORKQUEUE and not config.sourcing:
            _check_disjoint(config, {k: v for k, v in consumers.items() if k != name})
        check_changes(existing, config, has_interest=has_interest)
        if config.inactive_threshold != existing.inactive_threshold:
            # The configuration before the update decides whether the consumer is ephemeral.
            config = _with_threshold(config, existing.durable_name)
        return config, name
    if action is Action.UPDATE:
        raise api_error("JSConsumerDoesNotExist")
    return _check_new(config, name, stream, consumers, limits), ""


def _check_new(
    config: ConsumerConfig,
    name: str,
    stream: StreamConfig,
    consumers: Mapping[str, ConsumerConfig],
    limits: ServerLimits,
) -> ConsumerConfig:
    """Validate the configuration of a new consumer; return the one to store.

    Raises ApiError if the consumer is refused.
    """
    _check_count(config, stream, consumers, limits)
    if stream.retention is Retention.WORKQUEUE and not (config.direct or config.sourcing):
        _check_workqueue(config, consumers)
    if len(config.durable_name.encode()) > names.NAME_MAX:
        raise api_error("JSConsumerNameTooLong", max=names.NAME_MAX)
    if "\0" in name or len(name.encode()) > names.NAME_MAX:  # nats-server: no such directory
        raise _refused("error creating store for consumer")
    return _with_threshold(config, config.durable_name)


def _with_threshold(config: ConsumerConfig, durable: str) -> ConsumerConfig:
    """Set the default inactive threshold (five seconds) of a consumer without durable name."""
    if durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=EPHEMERAL_THRESHOLD)


def is_same(requested: ConsumerConfig, stored: ConsumerConfig) -> bool:
    """Return whether two validated configurations are equal, apart from version metadata."""
    metadata = comparable_metadata(requested.metadata, stored.metadata)
    return replace(requested, metadata=metadata) == stored


def check_changes(old: ConsumerConfig, new: ConsumerConfig, *, has_interest: bool) -> None:
    """Raise ApiError if an update changes a field that may not change, such as the ack policy."""
    fixed = (
        ("deliver_policy", "deliver policy"),
        ("mem_storage", "storage type"),
        ("direct", "direct"),
        ("sourcing", "sourcing"),
        ("opt_start_seq", "start sequence"),
        ("opt_start_time", "start time"),
        ("ack_policy", "ack policy"),
        ("replay_policy", "replay policy"),
        ("idle_heartbeat", "heart beats"),
        ("flow_control", "flow control"),
    )
    for field, text in fixed:
        if getattr(old, field) != getattr(new, field):
            raise _refused(f"{text} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise _refused("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _refused("can not update push consumer to pull based")
        if has_interest:
            raise api_error("JSConsumerNameExist")
    if old.max_waiting != new.max_waiting:
        raise _refused("max waiting can not be updated")


def _refused(reason: str) -> ApiError:
    return api_error("JSConsumerCreate", err=reason)


# --- defaults --------------------------------------------------------------------------------

_ADJUSTED: tuple[tuple[str, int, int, str], ...] = (
    ("max_waiting", 0, 0, "must not be negative"),
    ("max_ack_pending", -1, -1, "must be set to -1"),
    ("max_batch", 0, 0, "must not be negative"),
    ("max_expires", 0, 0, "must not be negative"),
    ("max_bytes", 0, 0, "must not be negative"),
    ("idle_heartbeat", 0, 0, "must not be negative"),
    ("inactive_threshold", 0, 0, "must not be negative"),
    ("priority_timeout", 0, 0, "must not be negative"),
)
"""Tuples (field, lowest value, replacement for lower values, error text in pedantic mode)."""


def _with_defaults(
    config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits, pedantic: bool
) -> ConsumerConfig:
    changes: dict[str, object] = {}
    if config.max_deliver < -1 and pedantic:
        raise _pedantic("max_deliver must be set to -1")
    if config.max_deliver == 0 or config.max_deliver < -1:
        changes["max_deliver"] = -1
    for field, low, value, reason in _ADJUSTED:
        if getattr(config, field) < low:
            if pedantic:
                raise _pedantic(f"{field} {reason}")
            changes[field] = value
    config = replace(config, **changes)
    if not config.is_push and config.max_waiting == 0:
        config = replace(config, max_waiting=MAX_WAITING)
    config = _with_ack_wait(config, pedantic)
    config = _with_stream_limits(config, stream, limits, pedantic)
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        config = replace(config, priority_timeout=PINNED_TIMEOUT)
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        config = replace(config, flow_control=True, idle_heartbeat=FLOW_CONTROL_HEARTBEAT)
    return config


def _with_ack_wait(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    if config.ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        config = replace(config, ack_wait=ACK_WAIT)
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise _pedantic("first backoff value has to equal batch AckWait")
        config = replace(config, ack_wait=config.backoff[0])
    return config


def _with_stream_limits(
    config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits, pedantic: bool
) -> ConsumerConfig:
    for field in ("max_ack_pending", "inactive_threshold"):
        limit = getattr(stream.consumer_limits, field)
        if getattr(config, field) == 0 and limit != 0:
            if pedantic and limit > 0:
                raise _pedantic(f"{field} must be set if it's configured in stream limits")
            config = replace(config, **{field: limit})
    if config.max_ack_pending == 0 and config.ack_policy is not AckPolicy.NONE:
        most = limits.max_ack_pending
        pending = min(most, MAX_ACK_PENDING) if most > 0 else MAX_ACK_PENDING
        config = replace(config, max_ack_pending=pending)
    if not config.is_push and config.max_batch == 0 and limits.max_request_batch > 0:
        if pedantic:
            raise _pedantic("max_request_batch must be set if it's JetStream limits are set")
        config = replace(config, max_batch=limits.max_request_batch)
    return config


def _pedantic(reason: str) -> ApiError:
    return api_error("JSPedantic", err=reason)


# --- the other consumers of the stream -------------------------------------------------------


def _check_count(
    config: ConsumerConfig,
    stream: StreamConfig,
    consumers: Mapping[str, ConsumerConfig],
    limits: ServerLimits,
) -> None:
    most = stream.max_consumers
    if most <= 0 or 0 < limits.max_consumers < most:
        most = limits.max_consumers
    if most <= 0:
        most = CONSUMERS_PER_STREAM
    counted = [c for c in consumers.values() if not (c.direct or c.sourcing)]
    if len(counted) >= most and not (config.direct or config.sourcing):
        raise api_error("JSMaximumConsumersLimit")


def _check_workqueue(config: ConsumerConfig, consumers: Mapping[str, ConsumerConfig]) -> None:
    if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
        raise api_error("JSConsumerWQRequiresExplicitAck")
    if config.deliver_policy is not DeliverPolicy.ALL:
        raise api_error("JSConsumerWQConsumerNotDeliverAll")
    if not config.filters and any(not (c.direct or c.sourcing) for c in consumers.values()):
        raise api_error("JSConsumerWQMultipleUnfiltered")
    _check_disjoint(config, consumers)


def _check_disjoint(config: ConsumerConfig, other_configs: Mapping[str, ConsumerConfig]) -> None:
    """Raise ApiError if a filter overlaps that of another consumer of the work queue."""
    for other in other_configs.values():
        if other.direct or other.sourcing:
            continue
        for mine in config.filters:
            if not other.filters or any(collide(mine, theirs) for theirs in other.filters):
                raise api_error("JSConsumerWQConsumerNotUnique")
