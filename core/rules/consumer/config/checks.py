"""The checks of a consumer's configuration, in the order of nats-server."""

import re

from core.goinput import parse_int
from core.model import names
from core.model.account import ServerLimits
from core.model.api_errors import api_error
from core.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy
from core.model.gojson import quote
from core.model.gotime import format_duration
from core.model.stream import Retention, StreamConfig
from core.model.subjects import any_within_another, is_literal, is_subset, is_valid_subject
from core.rules.consumer import dead_letter
from core.units import NANOS_PER_SECOND

FLOW_CONTROL_HEARTBEAT = NANOS_PER_SECOND
_HEARTBEAT_MIN = 100_000_000
_EXPIRES_MIN = 1_000_000
_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_SAMPLE = re.compile(r"[+-]?[0-9]+")


def check_rules(config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits) -> None:
    """Raise ApiError for the first rule that a configuration, with its defaults, breaks."""
    _check_names(config)
    _check_replicas(config, stream)
    _check_acks(config)
    if len(config.description.encode()) > names.DESCRIPTION_MAX:
        raise api_error("JSConsumerDescriptionTooLong", max=names.DESCRIPTION_MAX)
    if config.is_push:
        _check_push(config, stream)
    else:
        _check_pull(config, stream, limits)
    _check_limits(config, stream, limits)
    if config.direct and not config.is_push:
        raise api_error("JSConsumerDirectRequiresPush")
    if config.direct and config.durable_name:
        raise api_error("JSConsumerDirectRequiresEphemeral")
    _check_filters(config)
    _check_start(config)
    _check_sampling(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise api_error("JSConsumerWithFlowControlNeedsHeartbeats")
    if config.durable_name and config.name and config.name != config.durable_name:
        raise api_error("JSConsumerCreateDurableAndNameMismatch")
    if names.metadata_size(config.metadata) > names.METADATA_MAX:
        raise api_error("JSConsumerMetadataLength", limit=f"{names.METADATA_MAX // 1024}KB")
    _check_groups(config)
    dead_letter.check(config, stream.name)


def _check_names(config: ConsumerConfig) -> None:
    for kind, name in (("", config.name), ("durable ", config.durable_name)):
        if name and not names.is_valid_name(name):
            reason = f"consumer {kind}name can not contain '.', '*', '>', '\\', '/'"
            raise api_error("JSStreamInvalidConfig", err=reason)


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > max(stream.num_replicas, 0):
        raise api_error("JSConsumerReplicasExceedsStream")
    if config.num_replicas < 0:
        raise api_error("JSReplicasCountCannotBeNegative")
    is_shared = stream.retention is not Retention.LIMITS
    if is_shared and config.num_replicas not in (0, stream.num_replicas):
        raise api_error("JSConsumerReplicasShouldMatchStream")


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise api_error("JSConsumerBackOffNegative")
    if config.ack_wait < 0:
        raise api_error("JSConsumerAckWaitNegative")
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        _check_flow_control_acks(config)
    if config.backoff and -1 != config.max_deliver < len(config.backoff):
        raise api_error("JSConsumerMaxDeliverBackoff")


def _check_flow_control_acks(config: ConsumerConfig) -> None:
    if not config.is_push:
        raise api_error("JSConsumerAckFCRequiresPush")
    if not config.flow_control:
        raise api_error("JSConsumerAckFCRequiresFC")
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT:
        reason = "flow control ack policy heartbeat needs to be 1s"
        raise api_error("JSStreamInvalidConfig", err=reason)
    if config.max_ack_pending <= 0:
        raise api_error("JSConsumerAckFCRequiresMaxAckPending")
    if config.ack_wait != 0 or config.backoff:
        raise api_error("JSConsumerAckFCRequiresNoAckWait")
    if config.max_deliver > 0:
        raise api_error("JSConsumerAckFCRequiresNoMaxDeliver")


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    if not is_literal(config.deliver_subject):
        raise api_error("JSConsumerDeliverToWildcards")
    if not is_valid_subject(config.deliver_subject):
        raise api_error("JSConsumerInvalidDeliverSubject")
    if any(is_subset(config.deliver_subject, subject) for subject in stream.subjects):
        raise api_error("JSConsumerDeliverCycle")
    if config.max_waiting != 0:
        raise api_error("JSConsumerPushMaxWaiting")
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise api_error("JSConsumerMaxPendingAckPolicyRequired")
    if 0 < config.idle_heartbeat < _HEARTBEAT_MIN:
        raise api_error("JSConsumerSmallHeartbeat")


def _check_pull(config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits) -> None:
    if config.ack_policy is AckPolicy.NONE and stream.retention is Retention.WORKQUEUE:
        raise api_error("JSConsumerPullRequiresAck")
    if config.rate_limit_bps > 0:
        raise api_error("JSConsumerPullWithRateLimit")
    if config.idle_heartbeat > 0:
        raise api_error("JSConsumerHBRequiresPush")
    if config.flow_control:
        raise api_error("JSConsumerFCRequiresPush")
    if 0 < config.max_expires < _EXPIRES_MIN:
        raise api_error("JSConsumerMaxRequestExpiresTooSmall")
    if 0 < limits.max_request_batch < config.max_batch:
        raise api_error("JSConsumerMaxRequestBatchExceeded", limit=limits.max_request_batch)


def _check_limits(config: ConsumerConfig, stream: StreamConfig, limits: ServerLimits) -> None:
    for limit in (limits.max_ack_pending, stream.consumer_limits.max_ack_pending):
        if 0 < limit < config.max_ack_pending:
            raise api_error("JSConsumerMaxPendingAckExcess", limit=limit)
    threshold = stream.consumer_limits.inactive_threshold
    if 0 < threshold < config.inactive_threshold:
        limit_text = format_duration(threshold)
        raise api_error("JSConsumerInactiveThresholdExcess", limit=limit_text)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise api_error("JSConsumerDuplicateFilterSubjects")
    if config.filter_subject and not is_valid_subject(config.filter_subject):
        raise api_error("JSStreamInvalidConfig", err="invalid subject")
    if "" in config.filter_subjects:
        raise api_error("JSConsumerEmptyFilter")
    if not all(is_valid_subject(subject) for subject in config.filters):
        raise api_error("JSStreamInvalidConfig", err="invalid subject")
    if any_within_another(config.filters):
        raise api_error("JSConsumerOverlappingSubjectFilters")


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy
    text = policy.value.replace("_", " ")
    prefix = f"consumer delivery policy is deliver {text}, but optional "
    has_sequence, has_time = config.opt_start_seq > 0, config.opt_start_time is not None
    reason = ""
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        if not has_sequence:
            reason = "start sequence is not set"
        elif has_time:
            reason = "start time is also set"
    elif policy is DeliverPolicy.BY_START_TIME:
        if not has_time:
            reason = "start time is not set"
        elif has_sequence:
            reason = "start start sequence is also set"
    elif has_sequence:
        reason = "start sequence is also set"
    elif has_time:
        reason = "start time is also set"
    elif policy is DeliverPolicy.LAST_PER_SUBJECT and not config.filters:
        reason = "filter subject is not set"
    if reason:
        raise api_error("JSConsumerInvalidPolicy", err=prefix + reason)


def _check_sampling(sample: str) -> None:
    if not sample:
        return
    number = sample.removesuffix("%")
    problem = ""
    if not _SAMPLE.fullmatch(number):
        problem = f"strconv.Atoi: parsing {quote(number)}: invalid syntax"
    elif (percent := parse_int(number)) is None:
        problem = f"strconv.Atoi: parsing {quote(number)}: value out of range"
    elif percent < 0:
        problem = "<nil>"
    if problem:
        raise api_error("JSConsumerInvalidSampling", err=problem)


def _check_groups(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise api_error("JSConsumerPriorityGroupWithPolicyNone")
        if config.priority_timeout > 0:
            raise api_error("JSConsumerPinnedTTLWithoutPriorityPolicyNone")
        return
    if config.is_push:
        raise api_error("JSConsumerPushWithPriorityGroup")
    if not config.priority_groups:
        raise api_error("JSConsumerPriorityPolicyWithoutGroup")
    for group in config.priority_groups:
        if not group:
            raise api_error("JSConsumerEmptyGroupName")
        check_group_name(group)


def check_group_name(group: str) -> None:
    """Raise ApiError if the name of a priority group is invalid.

    Valid names have 1 to 16 characters: letters, digits, `/`, `_`, `=` and `-`.
    """
    if not _GROUP_NAME.fullmatch(group):
        raise api_error("JSConsumerInvalidGroupName")
