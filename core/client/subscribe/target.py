"""The stream, consumer and subject that a subscription reads, and the checks of this selection.

Source: ADR-15, "Configuration", "Queue name" and "Push Consumer active information and queue group
binding": checks that need no server, and checks against an existing consumer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec.structs import replace

from core.client.subscribe.errors import Reason, SubscribeError
from core.model.consumer import AckPolicy, ConsumerConfig, ConsumerInfo
from core.model.names import is_valid_name
from core.model.subjects import is_valid_subject

_RESERVED = ("durable_name", "name", "deliver_group")
_FILTERS = ("filter_subject", "filter_subjects")
_PUSH_ONLY = ("deliver_subject", "flow_control", "idle_heartbeat")
_ANY = ("deliver_subject",)
"""The settings in which an existing consumer may differ from the requested ones."""


class DeliveryKind(Enum):
    """The way a consumer delivers: the server pushes messages, or the client pulls them."""

    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True)
class SubscriptionTarget:
    """The stream, consumer and subject that a subscription reads.

    Attributes:
        subject: The subject filter, also of a consumer that is created. Required if `stream` is
            empty, and then used to find the stream.
        stream: Name of the stream; empty: found by the subject.
        consumer: Name of an existing consumer to read from; empty: none.
        durable: Name of a durable consumer to read from, created if it does not exist; empty: none.
        queue: Queue group of a push subscription; empty: none. If `consumer` and `durable` are
            empty, it is also the durable name, so that all members share one consumer.
        config: Required fields of `core.model.consumer.ConsumerConfig`, with typed values. Other
            fields get defaults (explicit acknowledgements), and are not compared with an existing
            consumer.
    """

    subject: str = ""
    stream: str = ""
    consumer: str = ""
    durable: str = ""
    queue: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def durable_name(self) -> str:
        """Name of the durable consumer to read from or create.

        Empty for an ephemeral consumer, and if `consumer` is set.
        """
        return "" if self.consumer else self.durable or self.queue

    @property
    def consumer_name(self) -> str:
        """Name by which an existing consumer is looked up; empty for an ephemeral consumer."""
        return self.consumer or self.durable_name

    def check(self, kind: DeliveryKind) -> None:
        """Check that names, subject and settings are valid and fit together for this kind.

        Raises SubscribeError if not.
        """
        self._check_names()
        unknown = [name for name in self.config if name not in ConsumerConfig.__struct_fields__]
        if unknown:
            raise SubscribeError(Reason.UNKNOWN_SETTING, unknown[0])
        own = (*_RESERVED, *_FILTERS) if self.subject else _RESERVED
        reserved = [name for name in own if name in self.config]
        if reserved:
            raise SubscribeError(Reason.RESERVED, reserved[0])
        if kind is DeliveryKind.PULL:
            self._check_pull()
        elif self.queue:
            _check_queue(self.config.get("idle_heartbeat"), self.config.get("flow_control"))

    def _check_names(self) -> None:
        if not self.subject and not self.stream:
            raise SubscribeError(Reason.NO_SUBJECT)
        if self.consumer and self.durable and self.consumer != self.durable:
            raise SubscribeError(Reason.TWO_NAMES)
        if self.subject and not is_valid_subject(self.subject):
            raise SubscribeError(Reason.BAD_SUBJECT, repr(self.subject))
        for name in (self.stream, self.consumer, self.durable, self.queue):
            if name and not is_valid_name(name):
                raise SubscribeError(Reason.BAD_NAME, repr(name))

    def _check_pull(self) -> None:
        if self.queue:
            raise SubscribeError(Reason.PULL_QUEUE)
        policy = self.config.get("ack_policy", AckPolicy.EXPLICIT)
        if policy is not AckPolicy.EXPLICIT:
            raise SubscribeError(Reason.PULL_ACK_POLICY, str(policy))
        for name in _PUSH_ONLY:
            if self.config.get(name):
                raise SubscribeError(Reason.PULL_DELIVERS, name)

    def new_config(self, deliver_subject: str) -> ConsumerConfig:
        """Return the configuration of the consumer to create.

        `deliver_subject` is empty for a pull consumer.
        """
        wanted = {"ack_policy": AckPolicy.EXPLICIT, **self.config}
        wanted |= {"durable_name": self.durable_name, "deliver_group": self.queue}
        if self.subject:
            wanted["filter_subject"] = self.subject
        wanted["deliver_subject"] = deliver_subject
        return replace(ConsumerConfig(), **wanted)

    def check_existing(self, info: ConsumerInfo, kind: DeliveryKind) -> None:
        """Check that an existing consumer has the kind, queue group, filter and settings required.

        Raises SubscribeError if not.
        """
        config = info.config
        if kind is DeliveryKind.PULL:
            if config.deliver_subject:
                raise SubscribeError(Reason.IS_PUSH, info.name)
        elif not config.deliver_subject:
            raise SubscribeError(Reason.IS_PULL, info.name)
        else:
            self._check_group(info)
        if self.subject and config.filters and config.filters != (self.subject,):
            raise SubscribeError(Reason.OTHER_SUBJECT, ", ".join(config.filters))
        for name, wanted in self.config.items():
            if name not in _ANY and wanted and not _holds(wanted, getattr(config, name)):
                raise SubscribeError(Reason.OTHER_CONFIG, name)

    def _check_group(self, info: ConsumerInfo) -> None:
        group = info.config.deliver_group
        if not self.queue:
            if group:
                raise SubscribeError(Reason.NEEDS_QUEUE, group)
            if info.push_bound:
                raise SubscribeError(Reason.DUPLICATE, info.name)
            return
        if not group:
            raise SubscribeError(Reason.NO_QUEUE, info.name)
        if group != self.queue:
            raise SubscribeError(Reason.OTHER_QUEUE, group)
        _check_queue(info.config.idle_heartbeat, info.config.flow_control)


def target_of(stream: str, filters: tuple[str, ...], **config: object) -> SubscriptionTarget:
    """Return the target for some subjects of a stream; without filters, for all subjects.

    `config` has required fields of the consumer's configuration.
    """
    if len(filters) == 1:
        return SubscriptionTarget(stream=stream, subject=filters[0], config=config)
    return SubscriptionTarget(stream=stream, config=config | {"filter_subjects": filters})


def _check_queue(idle_heartbeat: object, flow_control: object) -> None:
    if idle_heartbeat:
        raise SubscribeError(Reason.QUEUE_HEARTBEAT)
    if flow_control:
        raise SubscribeError(Reason.QUEUE_FLOW_CONTROL)


def _holds(wanted: object, there: object) -> bool:
    """Return whether a setting has the required value; the server may have added metadata."""
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        return all(there.get(name) == value for name, value in wanted.items())
    if isinstance(wanted, list | tuple) and isinstance(there, list | tuple):
        return list(wanted) == list(there)
    return wanted == there
