"""Types of the JSON bodies that only the HTTP API has, not JetStream.

JetStream's objects (`StreamConfig`, `ConsumerInfo`, ...) are passed on in the form of the JetStream
API: its names, durations in nanoseconds, times in RFC 3339.
"""

from typing import Annotated, Protocol

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from core.model.consumer import ConsumerInfo
from core.model.stream import StreamInfo

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in RFC 3339."""

Uint64 = Annotated[int, Meta(ge=0, extra_json_schema={"maximum": 2**64 - 1})]

Duration = int | str
"""A duration: nanoseconds, or text such as `500ms`, `1.5s`, `2m`."""

Tokens = Annotated[list[str], Meta(min_length=1)]
HeaderValues = dict[str, str | list[str]]


class WithPayload(Protocol):
    """An object with a payload in `data`, `text` or `data_base64`, or without a payload."""

    data: Raw | UnsetType
    text: str | UnsetType
    data_base64: str | UnsetType


class Expect(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions for storing a message; if one of them fails, the status is 412."""

    stream: str | None = None
    last_seq: Annotated[int, Meta(ge=0)] | None = None
    last_subject_seq: Annotated[int, Meta(ge=0)] | None = None
    last_msg_id: str | None = None


class PublishLine(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One message of a batch, with at most one of `data`, `text` and `data_base64`.

    With none of them the payload is empty. `data` is any JSON value; the payload is its JSON text
    exactly as sent.
    """

    subject: str
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    headers: HeaderValues | None = None
    msg_id: str | None = None
    expect: Expect | None = None


class PublishResult(Struct, omit_defaults=True):
    """The receipt of one stored message; `val` is the new total of a counter."""

    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    val: str = ""


class Message(Struct, omit_defaults=True):
    """A stored message as JSON.

    Exactly one of `data`, `text` and `data_base64` is present: `data` if the payload is a JSON
    object or array, `text` if it is other UTF-8, else `data_base64`. Fetched messages also have the
    delivery fields and the `token` that acknowledges them. `headers_base64` has all values of each
    header with a value that is not UTF-8; in `headers`, U+FFFD replaces the invalid bytes.
    """

    stream: str
    subject: str
    seq: int
    time: Time
    headers: dict[str, list[str]] = {}
    headers_base64: dict[str, list[str]] = {}
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    consumer_seq: int = 0
    delivered: int = 0
    pending: int | UnsetType = UNSET
    token: str = ""


class Reply(Struct, omit_defaults=True):
    """A reply to a request; `error` is the reason why no more replies follow.

    The payload is in one of `data`, `text` and `data_base64`, as in `Message`.
    """

    headers: dict[str, list[str]] = {}
    headers_base64: dict[str, list[str]] = {}
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    error: "ProblemBody | UnsetType" = UNSET


class Messages(Struct):
    """The response to a fetch: messages of a consumer."""

    messages: list[Message]


class ReadRequest(Struct, forbid_unknown_fields=True):
    """The messages to read: consecutive ones, or the last of each subject.

    Consecutive: those that match `next_by`, from `seq` or from `start_time` (RFC 3339) on. Last: of
    every subject that matches one of `multi_last`, as of `up_to_seq` or `up_to_time`; with `seq`,
    only those from this sequence on. At most `batch` messages and `max_bytes` bytes.
    """

    seq: Annotated[int, Meta(ge=1)] | None = None
    start_time: Time | None = None
    next_by: str | None = None
    multi_last: Annotated[list[str], Meta(min_length=1, max_length=1024)] | None = None
    up_to_seq: Annotated[int, Meta(ge=1)] | None = None
    up_to_time: Time | None = None
    batch: Annotated[int, Meta(ge=1)] | None = None
    max_bytes: Annotated[int, Meta(ge=1)] | None = None


class ReadEnd(Struct, omit_defaults=True):
    """The end of a read: `pending` messages follow `last_seq`.

    For last messages, `up_to_seq` is the sequence as of which they were read; another read with
    this value sees the same state of the stream.
    """

    count: int
    pending: int
    last_seq: int = 0
    up_to_seq: int = 0


class ReadResult(Struct):
    """Messages in order of sequence; `pending` of each is the number of messages that follow it."""

    messages: list[Message]
    end: ReadEnd


class ReadLast(Struct):
    """The last line of the NDJSON response to a read: its end."""

    end: ReadEnd


class Place(Struct):
    """Parameters of a pull request in a priority group (ADR-42).

    The consumer's `priority_policy` decides which of them it needs. `min_pending` and
    `min_ack_pending`: wait until so many messages are pending, or unacknowledged. `priority`: 0
    (first) to 9. `pin_id`: the `Nats-Pin-Id` of messages fetched before.
    """

    group: str = ""
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    min_pending: Annotated[int, Meta(ge=0)] = 0
    min_ack_pending: Annotated[int, Meta(ge=0)] = 0
    pin_id: str = ""


class Fetching(Place):
    """The messages to fetch, and the time to wait for them.

    Without `fill`, the response has the messages that are available as soon as there is one. With
    `fill`, it waits for `batch` messages or until `expires` has passed. `no_wait` never waits.
    `max_bytes` limits the size of all messages.
    """

    batch: Annotated[int, Meta(ge=1)] | None = None
    expires: Duration | None = None
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    no_wait: bool = False
    fill: bool = False


class FetchRequest(Fetching, forbid_unknown_fields=True):
    """The messages to fetch, and the form of the response.

    `heartbeat`: interval of the blank lines that keep an NDJSON response alive; 0: none. `raw`: one
    message, its payload as the body.
    """

    heartbeat: Duration = 0
    raw: bool = False


class AckNextRequest(Fetching, forbid_unknown_fields=True, kw_only=True):
    """Deliveries to acknowledge, and messages to fetch in the same request."""

    tokens: Tokens


class AckRequest(Struct, forbid_unknown_fields=True):
    """Deliveries to acknowledge. `sync`: respond after the acknowledgements are recorded."""

    tokens: Tokens
    sync: bool = False


class NakRequest(Struct, forbid_unknown_fields=True):
    """Deliveries to redeliver, at once or after `delay`."""

    tokens: Tokens
    delay: Duration = 0
    sync: bool = False


class TermRequest(Struct, forbid_unknown_fields=True):
    """Deliveries to terminate: no redelivery follows. `reason` is in the advisory."""

    tokens: Tokens
    reason: Annotated[str, Meta(max_length=1024)] = ""
    sync: bool = False


class ProblemBody(Struct, omit_defaults=True):
    """A problem (RFC 9457). `err_code` is JetStream's error code.

    `current_sequence`: the current value for a condition that failed; `line`: the number of a
    message in a batch, from 1.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    err_code: int = 0
    current_sequence: int = 0
    line: int = 0


class PublishFailure(Struct, omit_defaults=True):
    """The problem of a message of a batch that was not stored.

    `line`: its number in the batch, from 1, if the response omits successes.
    """

    error: ProblemBody
    line: int = 0


class PublishSummary(Struct):
    """The last line of a response to `Prefer: return=minimal`: the numbers of results."""

    published: int
    duplicates: int
    failed: int


class FailedToken(Struct):
    """An ack token that had no effect, and its problem."""

    token: str
    problem: ProblemBody


class AckResult(Struct):
    """The number of acknowledged tokens, and the other tokens with their problems."""

    succeeded: int
    failed: list[FailedToken]


class AckNextResult(AckResult):
    """The results of the acknowledgements, and the next messages."""

    messages: list[Message]


class PauseRequest(Struct, forbid_unknown_fields=True):
    """The end of a pause: at the time `until` (RFC 3339), or after `duration`."""

    until: str = ""
    duration: Duration | None = None


class PauseResult(Struct, omit_defaults=True):
    """The state of a pause: its end (RFC 3339), and the remaining time in nanoseconds."""

    paused: bool
    pause_until: str = ""
    pause_remaining: int = 0


class Advisory(Struct):
    """The data of one server-sent event: an advisory, and the subject that it was published to."""

    subject: str
    event: dict[str, object]


class Dropped(Struct):
    """The data of the event `dropped`: the number of events that a slow client missed."""

    count: int


class TailPosition(Struct, omit_defaults=True):
    """The data of the event `position`: the position after which the feed starts.

    If `recovered` is false, messages after the requested position may be missing; `first_seq` and
    `last_seq` are then those of the stream.
    """

    stream: str
    incarnation: str
    seq: int
    recovered: bool
    first_seq: int | UnsetType = UNSET
    last_seq: int | UnsetType = UNSET


class TailGap(Struct):
    """The data of the event `gap`: messages after `after` may be missing; the feed continues after
    `seq`.

    `first_seq` and `last_seq` are those of the stream.
    """

    after: int
    incarnation: str
    seq: int
    first_seq: int
    last_seq: int
    recovered: bool


class UnpinRequest(Struct, forbid_unknown_fields=True):
    """The priority group in which another client is to be pinned."""

    group: str


class ResetRequest(Struct, forbid_unknown_fields=True):
    """The sequence to start from again; without `seq`, the consumer's configured start."""

    seq: Uint64 = 0


class ResetResult(ConsumerInfo, frozen=True, kw_only=True):
    """The consumer after a reset, and the sequence from which it starts."""

    reset_seq: int = 0


class RedriveRequest(Struct, forbid_unknown_fields=True):
    """The dead letters to redrive: those of a `stream`, of a `consumer`, or with the sequences
    `seqs`.

    At most `limit` letters, oldest first, from the sequence `start_seq` on.
    """

    stream: str = ""
    consumer: str = ""
    seqs: list[Annotated[int, Meta(ge=1)]] = []
    start_seq: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1)] | None = None


class FailedLetter(Struct):
    """A dead letter that was not redriven, and the problem."""

    seq: int
    problem: ProblemBody


class RedriveResult(Struct):
    """The number of messages stored again, and the dead letters that were not redriven.

    `last_seq`: the sequence of the last dead letter examined; 0: there was none.
    """

    redriven: int
    failed: list[FailedLetter]
    last_seq: int


class AtomicResult(Struct, omit_defaults=True):
    """The receipt of an atomic batch: its `count` messages have the sequences up to `seq`."""

    stream: str
    seq: int
    count: int
    domain: str = ""
    val: str = ""


class SubjectCount(Struct):
    """A subject, and the number of its stored messages."""

    subject: str
    messages: int


class Subjects(Struct):
    """A page of the subjects of a stream; `total`: the number of all its subjects."""

    subjects: list[SubjectCount]
    total: int
    offset: int
    limit: int


class PurgeRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The messages to remove: of a subject, below a sequence, or all but the newest `keep`."""

    filter: str = ""
    seq: Uint64 = 0
    keep: Uint64 = 0


class PurgeResult(Struct):
    """The number of messages that a purge has removed."""

    purged: int


class Ticket(Struct):
    """A ticket that opens one WebSocket, within `expires_in` seconds."""

    ticket: str
    expires_in: int


class Session(Struct, omit_defaults=True):
    """The authenticated user, and the expiry of the browser session (RFC 3339).

    `name` is empty if the server has no users. `max_payload`: maximum size of a message from this
    user, in bytes, headers included.
    """

    name: str
    expires: str = ""
    max_payload: int = 0


class Health(Struct):
    """The result of a health check: `ok`."""

    status: str


class Page(Struct):
    """One page of a list: its offset, the maximum number of entries, and the length of the whole
    list.
    """

    total: int
    offset: int
    limit: int


class StreamPage(Page):
    """One page of the list of streams, with configuration and state."""

    streams: list[StreamInfo]


class StreamNamesPage(Page):
    """One page of the list of stream names."""

    streams: list[str]


class ConsumerPage(Page):
    """One page of the list of a stream's consumers, with configuration and state."""

    consumers: list[ConsumerInfo]


class AsyncApi(Struct):
    """An AsyncAPI 3.0 document."""

    asyncapi: str
    info: dict[str, object]
    channels: dict[str, object]
    operations: dict[str, object]
    components: dict[str, object]


class OpenApi(Struct):
    """An OpenAPI 3.1 document."""

    openapi: str
    info: dict[str, object]
    paths: dict[str, object]
    components: dict[str, object]
