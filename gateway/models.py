"""The JSON of the façade that is not JetStream's own: bodies of requests and of answers.

JetStream's objects (`StreamConfig`, `ConsumerInfo`, ...) travel as the JetStream API shows them:
its names, durations in nanoseconds, times in RFC 3339.
"""

from typing import Annotated, Protocol

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from core.model.consumer import ConsumerInfo
from core.model.stream import StreamInfo

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""RFC 3339."""

Uint64 = Annotated[int, Meta(ge=0, extra_json_schema={"maximum": 2**64 - 1})]

Duration = int | str
"""Nanoseconds, or text such as `500ms`, `1.5s`, `2m`."""

Tokens = Annotated[list[str], Meta(min_length=1)]
HeaderValues = dict[str, str | list[str]]


class WithPayload(Protocol):
    """JSON with a payload, which is in one of three members or in none."""

    data: Raw | UnsetType
    text: str | UnsetType
    data_base64: str | UnsetType


class Expect(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What must be true for a message to be stored; anything else is a 412."""

    stream: str | None = None
    last_seq: Annotated[int, Meta(ge=0)] | None = None
    last_subject_seq: Annotated[int, Meta(ge=0)] | None = None
    last_msg_id: str | None = None


class PublishLine(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One message of a batch. At most one of `data`, `text`, `data_base64`; none: empty payload.

    `data` is any JSON value; the payload is its JSON text exactly as sent.
    """

    subject: str
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    headers: HeaderValues | None = None
    msg_id: str | None = None
    expect: Expect | None = None


class PublishResult(Struct, omit_defaults=True):
    """The receipt of one message; `val` is the total of a counter."""

    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    val: str = ""


class Message(Struct, omit_defaults=True):
    """A message as JSON.

    Of `data`, `text` and `data_base64` exactly one is there: `data` when the payload is a JSON
    object or array, `text` when it is UTF-8, else base64. Fetched messages also have the delivery
    fields and the `token` that acknowledges them. `headers_base64` has all values of each header
    of which one is not UTF-8; in `headers` the bytes that are none are U+FFFD.
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
    """An answer to a request, shown as a `Message`; `error`: why there are no more."""

    headers: dict[str, list[str]] = {}
    headers_base64: dict[str, list[str]] = {}
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    error: "ProblemBody | UnsetType" = UNSET


class Messages(Struct):
    """The answer to a fetch."""

    messages: list[Message]


class ReadRequest(Struct, forbid_unknown_fields=True):
    """Which messages to read: one after the other, or the last of each subject.

    One after the other: from `seq`, or from `start_time` (RFC 3339), those that match `next_by`.
    The last ones: of every subject that matches one of `multi_last`, as of `up_to_seq` or
    `up_to_time`; with `seq`, only those from there on. At most `batch` messages and `max_bytes`.
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
    """The end of a read: `pending` messages follow `last_seq`; `up_to_seq` is what the last
    messages were as of, for the next request about the same instant."""

    count: int
    pending: int
    last_seq: int = 0
    up_to_seq: int = 0


class ReadResult(Struct):
    """Messages, in order of sequence; `pending` of each says how many follow."""

    messages: list[Message]
    end: ReadEnd


class ReadLast(Struct):
    """The last line of a read."""

    end: ReadEnd


class Place(Struct):
    """Where in a priority group (ADR-42) a request stands: which of them a consumer needs depends
    on its `priority_policy`.

    `min_pending`, `min_ack_pending`: wait until so many messages wait, or are unacknowledged.
    `priority`: 0 (first) to 9. `pin_id`: the `Nats-Pin-Id` of messages that were fetched before.
    """

    group: str = ""
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    min_pending: Annotated[int, Meta(ge=0)] = 0
    min_ack_pending: Annotated[int, Meta(ge=0)] = 0
    pin_id: str = ""


class Fetching(Place):
    """What to fetch.

    Without `fill` the answer comes as soon as there is any message, with all that are there; with
    it, when `batch` messages came or `expires` is over. `no_wait` never waits.
    """

    batch: Annotated[int, Meta(ge=1)] | None = None
    expires: Duration | None = None
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    no_wait: bool = False
    fill: bool = False


class FetchRequest(Fetching, forbid_unknown_fields=True):
    """What to fetch, and how it is given.

    `heartbeat`: how often an NDJSON answer shows by a blank line that it is alive. `raw`: one
    message as itself.
    """

    heartbeat: Duration = 0
    raw: bool = False


class AckNextRequest(Fetching, forbid_unknown_fields=True, kw_only=True):
    """Deliveries to acknowledge, and what to fetch with the same request."""

    tokens: Tokens


class AckRequest(Struct, forbid_unknown_fields=True):
    """Deliveries to acknowledge. `sync`: answer when the server has recorded it."""

    tokens: Tokens
    sync: bool = False


class NakRequest(Struct, forbid_unknown_fields=True):
    """Deliveries to give back, at once or after `delay`."""

    tokens: Tokens
    delay: Duration = 0
    sync: bool = False


class TermRequest(Struct, forbid_unknown_fields=True):
    """Deliveries never to be made again, with a `reason` for the advisory."""

    tokens: Tokens
    reason: Annotated[str, Meta(max_length=1024)] = ""
    sync: bool = False


class ProblemBody(Struct, omit_defaults=True):
    """RFC 9457. `err_code` is JetStream's number.

    `current_sequence`: what a condition was compared with; `line`: which message of a batch.
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
    """Why a message of a batch was not stored; `line`: which one, where successes are left out."""

    error: ProblemBody
    line: int = 0


class PublishSummary(Struct):
    """The last line of an answer to `Prefer: return=minimal`."""

    published: int
    duplicates: int
    failed: int


class FailedToken(Struct):
    """A token that had no effect, and why."""

    token: str
    problem: ProblemBody


class AckResult(Struct):
    """How many tokens took effect, and those that did not."""

    succeeded: int
    failed: list[FailedToken]


class AckNextResult(AckResult):
    """What became of the tokens, and the messages that came next."""

    messages: list[Message]


class PauseRequest(Struct, forbid_unknown_fields=True):
    """How long to deliver nothing: `until` a time (RFC 3339), or for a `duration` from now on."""

    until: str = ""
    duration: Duration | None = None


class PauseResult(Struct, omit_defaults=True):
    """Whether it is paused; until when (RFC 3339), and how long from now (nanoseconds)."""

    paused: bool
    pause_until: str = ""
    pause_remaining: int = 0


class Advisory(Struct):
    """The data of one server-sent event: an advisory, and the subject it was published to."""

    subject: str
    event: dict[str, object]


class Dropped(Struct):
    """The data of the event `dropped`: how many events were left out for a slow reader."""

    count: int


class TailPosition(Struct, omit_defaults=True):
    """The data of the event `position`: where a tail begins; `recovered` false: something may be
    missing, and what of the stream is still there.
    """

    stream: str
    incarnation: str
    seq: int
    recovered: bool
    first_seq: int | UnsetType = UNSET
    last_seq: int | UnsetType = UNSET


class TailGap(Struct):
    """The data of the event `gap`: messages may be missing; it goes on behind `seq`."""

    after: int
    incarnation: str
    seq: int
    first_seq: int
    last_seq: int
    recovered: bool


class UnpinRequest(Struct, forbid_unknown_fields=True):
    """Which priority group is to choose another client."""

    group: str


class ResetRequest(Struct, forbid_unknown_fields=True):
    """Where to begin again; without `seq` where the consumer began."""

    seq: Uint64 = 0


class ResetResult(ConsumerInfo, frozen=True, kw_only=True):
    """The consumer after a reset, and the sequence it begins at."""

    reset_seq: int = 0


class RedriveRequest(Struct, forbid_unknown_fields=True):
    """Which dead letters to send back: of a `stream`, of a `consumer`, or these `seqs`.

    Oldest first, from `start_seq` on, at most `limit`.
    """

    stream: str = ""
    consumer: str = ""
    seqs: list[Annotated[int, Meta(ge=1)]] = []
    start_seq: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1)] | None = None


class FailedLetter(Struct):
    """A letter that stays, and why."""

    seq: int
    problem: ProblemBody


class RedriveResult(Struct):
    """How many messages were stored again, which letters stay, and the last one looked at (0: there
    was none)."""

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
    """A subject, and how many messages of it are stored."""

    subject: str
    messages: int


class Subjects(Struct):
    """A page of the subjects of a stream; `total`: how many there are in all."""

    subjects: list[SubjectCount]
    total: int
    offset: int
    limit: int


class PurgeRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which messages to remove: of a subject, below a sequence, or all but the newest `keep`."""

    filter: str = ""
    seq: Uint64 = 0
    keep: Uint64 = 0


class PurgeResult(Struct):
    """How many messages were removed."""

    purged: int


class Ticket(Struct):
    """What opens one WebSocket, within `expires_in` seconds."""

    ticket: str
    expires_in: int


class Session(Struct, omit_defaults=True):
    """Who asks (empty where the server knows no users), and until when his session lasts.

    `max_payload`: how many bytes a message of his may have, headers included.
    """

    name: str
    expires: str = ""
    max_payload: int = 0


class Health(Struct):
    """`ok`, or why not."""

    status: str


class Page(Struct):
    """Where a page of a list begins and how many there are in all."""

    total: int
    offset: int
    limit: int


class StreamPage(Page):
    """A page of streams."""

    streams: list[StreamInfo]


class StreamNamesPage(Page):
    """A page of the names of streams."""

    streams: list[str]


class ConsumerPage(Page):
    """A page of the consumers of a stream."""

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
