"""The errors and the alarms of subscriptions.

ClientError
├── SubscribeError          refused; `reason` names the rule of ADR-15
├── NotJetStream            a message that no consumer delivered (its reply is no ack subject)
└── Alarm                   an event of a subscription that continues
    ├── HeartbeatsMissed      neither message nor status for three intervals
    ├── MessagesMissed        a gap in the consumer's sequences
    ├── StatusRaised          409, 503, or an unknown status
    ├── SlowConsumer          messages were dropped: the buffer was full
    ├── PositionLost          an ordered subscription could not continue at its position
    ├── Interrupted           an ordered subscription could not recreate its consumer, and retries
    ├── HandlerFailed         the handler raised
    └── NotDeleted            the consumer could not be deleted after a drain
"""

from enum import StrEnum

from core.client.errors import ClientError


class Reason(StrEnum):
    """The reasons for which a subscription is refused; the value is the error text."""

    NO_SUBJECT = "a subject is required where no stream is named"
    BAD_SUBJECT = "this is no valid subject"
    BAD_NAME = "this is no valid name"
    NO_STREAM = "no stream matches the subject"
    SEVERAL_STREAMS = "several streams match the subject"
    TWO_NAMES = "a consumer to bind to and a durable to create exclude each other"
    RESERVED = "this is set by an argument, not by the configuration"
    UNKNOWN_SETTING = "consumers have no such setting"
    QUEUE_HEARTBEAT = "heartbeats are not supported over queues"
    QUEUE_FLOW_CONTROL = "flow control is not supported over queues"
    PULL_ACK_POLICY = "a pull subscription needs explicit acknowledgements"
    PULL_QUEUE = "a pull subscription has no queue"
    PULL_DELIVERS = "a pull subscription has no deliver subject"
    DUPLICATE = "duplicate subscription: the consumer is bound already"
    NEEDS_QUEUE = "a non-queue subscription for a consumer that was created for a queue group"
    OTHER_QUEUE = "a queue subscription for a consumer that was created for another queue group"
    NO_QUEUE = "a queue subscription for a consumer that was created without a deliver group"
    OTHER_SUBJECT = "the subject does not match the consumer's filter subject"
    IS_PUSH = "a pull subscription for a push consumer"
    IS_PULL = "the consumer has no deliver subject: a pull subscription is required"
    OTHER_CONFIG = "the configuration differs from that of the existing consumer"
    ALREADY_EXISTS = "the consumer already exists: it was created meanwhile"


class SubscribeError(ClientError):
    """A subscription is refused by a rule of ADR-15. No consumer was created for it."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


class NotJetStream(ClientError):
    """A received message whose reply subject is not that of a JetStream delivery."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(reply)
        self.reply = reply

    def __str__(self) -> str:
        return f"no message of JetStream: its reply is {self.reply[:200]!r}"


class Alarm(ClientError):
    """The base of events of a subscription that the user should know; the subscription goes on."""


class HeartbeatsMissed(Alarm):
    """Neither a message nor a status arrived for `seconds`, although heartbeats are enabled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"no message and no heartbeat for {self.seconds:g} s"


class MessagesMissed(Alarm):
    """The deliveries from `expected` to `received` - 1 (consumer sequences) did not arrive."""

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(expected, received)
        self.expected = expected
        self.received = received

    def __str__(self) -> str:
        return f"deliveries {self.expected} to {self.received - 1} did not arrive"


class StatusRaised(Alarm):
    """The server sent an error status, such as 409 or 503, in place of messages."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


class SlowConsumer(Alarm):
    """`dropped` messages were dropped since the subscription began, because the buffer was full."""

    def __init__(self, dropped: int) -> None:
        super().__init__(dropped)
        self.dropped = dropped

    def __str__(self) -> str:
        return f"{self.dropped} messages dropped: they are read too slowly"


class PositionLost(Alarm):
    """An ordered subscription could not continue after the stream sequence `wanted`.

    Messages between it and the next one read may be missing. `first_seq`, `last_seq` and
    `incarnation` (creation time, in nanoseconds since the Unix epoch) are those of the stream now.
    """

    def __init__(self, wanted: int, incarnation: int, first_seq: int, last_seq: int) -> None:
        super().__init__(wanted, incarnation, first_seq, last_seq)
        self.wanted = wanted
        self.incarnation = incarnation
        self.first_seq = first_seq
        self.last_seq = last_seq

    def __str__(self) -> str:
        return (
            f"not recovered after {self.wanted}: the stream has {self.first_seq} to {self.last_seq}"
        )


class Interrupted(Alarm):
    """An ordered subscription failed to recreate its consumer with `error`, and retries."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return f"the consumer could not be created again: {self.error}"


class HandlerFailed(Alarm):
    """The handler of a push subscription raised `error`; the messages passed to it are lost."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return f"the handler failed: {self.error!r}"


class NotDeleted(Alarm):
    """The consumer of a drained subscription could not be deleted."""

    def __init__(self, consumer: str, error: Exception) -> None:
        super().__init__(consumer, error)
        self.consumer = consumer
        self.error = error

    def __str__(self) -> str:
        return f"consumer {self.consumer} was not deleted: {self.error}"
