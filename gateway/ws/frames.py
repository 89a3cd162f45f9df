"""Types of the WebSocket frames of `js.v1.json` and `js.v1.msgpack`: one shape, two encodings.

A client frame that requests a response has an `id`, which the response repeats; other frames of the
server have no `id`. Sequences are numbers. An incarnation (creation time of a stream, in
nanoseconds) is text, because it exceeds the safe integers of JavaScript.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gateway.formats.models import Duration, Expect, HeaderValues, Time, Tokens

Id = Annotated[int, Meta(ge=0, lt=2**53)]
Sid = Annotated[int, Meta(ge=0, lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]

ProblemMembers = Annotated[dict[str, object], Meta(title="ProblemBody")]
FailedTokens = list[Annotated[dict[str, object], Meta(title="FailedToken")]]
"""A list of failed tokens. The titles refer to structs of `gateway.formats.models`."""


class Place(Struct, forbid_unknown_fields=True):
    """A position in a stream: a sequence, and the incarnation (creation time, ns) of the stream."""

    incarnation: Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")]
    seq: Seq


class Allowance(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Credit of a feed: total messages and bytes since its start; an omitted one is unlimited."""

    msgs: Count | None = None
    bytes: Count | None = None


class Begin(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The start of a feed of a stream: a sequence, or a time (RFC 3339)."""

    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    time: Time | None = None


Named = Literal["new", "all", "last", "last_per_subject"]


# --- frames of the client ----------------------------------------------------------------------


class Hello(Struct, tag="hello", forbid_unknown_fields=True, omit_defaults=True):
    """Credentials, if the handshake had none: a token, or user and password."""

    id: Id = 0
    token: str = ""
    user: str = ""
    password: str = ""


class Subscribe(Struct, tag="sub", forbid_unknown_fields=True, omit_defaults=True):
    """Start a feed with the id `sid`.

    Durable feed: `stream` and `consumer`. Ordered feed: `stream`, or a `filter` that finds it;
    `from` or `after`. Core NATS feed: `subject`, optionally `queue`. `batch` is the maximum number
    of messages in a frame.
    """

    id: Id
    sid: Sid
    stream: str = ""
    consumer: str = ""
    filter: str = ""
    subject: str = ""
    queue: str = ""
    begin: Named | Begin | None = msgspec.field(default=None, name="from")
    after: Place | None = None
    credit: Allowance | None = None
    batch: Annotated[int, Meta(ge=1, le=1000)] = 1000


class Credit(Struct, tag="credit", forbid_unknown_fields=True, omit_defaults=True):
    """Raise the credit of a feed. Values are totals, so a lost or repeated frame does no harm."""

    sid: Sid
    msgs: Count | None = None
    bytes: Count | None = None


class Unsubscribe(Struct, tag="unsub", forbid_unknown_fields=True):
    """End a feed at once, without its buffered messages. The response is `done`."""

    id: Id
    sid: Sid


class Drain(Struct, tag="drain", forbid_unknown_fields=True, omit_defaults=True):
    """End a feed, or all feeds if `sid` is missing, after all received messages are delivered.

    The response is `done`.
    """

    id: Id
    sid: Sid | None = None


class Outgoing(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A message to send, with at most one of `data`, `text` and `data_base64`.

    With none of them the payload is empty. `data` is any JSON value; the payload is its JSON text
    exactly as sent.
    """

    subject: str
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    headers: HeaderValues | None = None


class Publish(Outgoing, tag="pub", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Publish a message to a stream; the response is its receipt.

    If `receipt` is false, publish to subscribers, without a response.
    """

    id: Id = 0
    msg_id: str | None = None
    expect: Expect | None = None
    receipt: bool = True


class Request(Outgoing, tag="req", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Send a request to a service; the response is its reply."""

    id: Id
    timeout: Duration | None = None


class PackedOutgoing(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A message to send, in MessagePack. Its payload is binary `data` or `text`, or empty."""

    subject: str
    data: bytes | UnsetType = UNSET
    text: str | UnsetType = UNSET
    headers: HeaderValues | None = None


class PackedPublish(
    PackedOutgoing, tag="pub", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """Publish a message to a stream (`Publish`), in MessagePack."""

    id: Id = 0
    msg_id: str | None = None
    expect: Expect | None = None
    receipt: bool = True


class PackedRequest(
    PackedOutgoing, tag="req", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """Send a request to a service (`Request`), in MessagePack."""

    id: Id
    timeout: Duration | None = None


class Get(Struct, tag="get", forbid_unknown_fields=True, omit_defaults=True):
    """Read one stored message: by `seq`, the last of subject `last_by`, or the next of `next_by`.

    The next one is searched from `seq` or `start_time` on.
    """

    id: Id
    stream: str
    seq: Seq | None = None
    last_by: str | None = None
    next_by: str | None = None
    start_time: Time | None = None


class Ack(Struct, tag="ack", forbid_unknown_fields=True, omit_defaults=True):
    """Acknowledge deliveries. `sync`: respond after the server has recorded the acknowledgement."""

    tokens: Tokens
    id: Id | None = None
    sync: bool = False


class Nak(Struct, tag="nak", forbid_unknown_fields=True, omit_defaults=True):
    """Request redelivery of messages, at once or after `delay`."""

    tokens: Tokens
    id: Id | None = None
    delay: Duration = 0
    sync: bool = False


class Term(Struct, tag="term", forbid_unknown_fields=True, omit_defaults=True):
    """Terminate deliveries: no redelivery follows."""

    tokens: Tokens
    id: Id | None = None
    reason: Annotated[str, Meta(max_length=1024)] = ""
    sync: bool = False


class Progress(Struct, tag="progress", forbid_unknown_fields=True, omit_defaults=True):
    """Report work in progress: the ack wait starts again."""

    tokens: Tokens
    id: Id | None = None
    sync: bool = False


class Ping(Struct, tag="ping", forbid_unknown_fields=True):
    """Request a `pong`; browsers cannot send WebSocket pings."""

    id: Id


Acks = Ack | Nak | Term | Progress
Plain = Hello | Subscribe | Credit | Unsubscribe | Drain | Get | Ack | Nak | Term | Progress | Ping
JsonFrame = Plain | Publish | Request
PackedFrame = Plain | PackedPublish | PackedRequest
Publishes = Publish | PackedPublish
Requests = Request | PackedRequest
ClientFrame = Plain | Publish | Request | PackedPublish | PackedRequest


# --- frames of the server ----------------------------------------------------------------------


class Welcome(Struct, tag="welcome", omit_defaults=True):
    """The first frame of the server: its limits and the interval of its pings.

    `max_payload` and `max_frame` are in bytes, `ping` is in seconds.
    """

    max_payload: int
    max_frame: int
    max_feeds: int
    ping: float
    id: int | UnsetType = UNSET


class Subscribed(Struct, tag="subscribed", omit_defaults=True):
    """The start of a feed. An ordered feed also reports its position, after which it starts.

    `recovered` is false if messages after the requested position may be missing; `first_seq` and
    `last_seq` are then the sequences of the stream.
    """

    id: int
    sid: int
    stream: str = ""
    incarnation: str = ""
    seq: int | UnsetType = UNSET
    recovered: bool | UnsetType = UNSET
    first_seq: int | UnsetType = UNSET
    last_seq: int | UnsetType = UNSET


class Published(Struct, tag="published", omit_defaults=True):
    """The receipt of a published message; `val` is the new total of a counter."""

    id: int
    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    val: str = ""


class Acked(Struct, tag="acked", omit_defaults=True):
    """The number of acknowledged tokens, and the other tokens with their problems."""

    succeeded: int
    failed: FailedTokens
    id: int | UnsetType = UNSET


class Done(Struct, tag="done"):
    """The end of a feed after `unsub` or `drain`."""

    id: int


class Pong(Struct, tag="pong"):
    """The response to `ping`."""

    id: int


class Error(Struct, tag="error"):
    """The problem (RFC 9457) of a frame that had no effect."""

    problem: ProblemMembers
    id: int | UnsetType = UNSET


class Gapped(Struct, tag="gap"):
    """A gap in an ordered feed: messages after the sequence `after` may be missing.

    The feed continues after `incarnation` and `seq`. `first_seq` and `last_seq` are those of the
    stream.
    """

    sid: int
    after: int
    incarnation: str
    seq: int
    first_seq: int
    last_seq: int
    recovered: bool = False


class Dropped(Struct, tag="dropped"):
    """The number of messages of a core NATS feed that were dropped since the last such frame.

    The causes are missing credit and slow reading.
    """

    sid: int
    count: int


class Interrupted(Struct, tag="interrupted"):
    """A durable feed cannot receive messages now; it retries by itself."""

    sid: int
    problem: ProblemMembers


class Ended(Struct, tag="ended"):
    """The end of a feed that the client did not request, with its cause."""

    sid: int
    problem: ProblemMembers


ServerFrame = (
    Welcome
    | Subscribed
    | Published
    | Acked
    | Done
    | Pong
    | Error
    | Gapped
    | Dropped
    | Interrupted
    | Ended
)


# --- messages, encoded once for all their readers ----------------------------------------------


class Fields(Struct, omit_defaults=True, kw_only=True):
    """The members of a message in both encodings.

    `seq`, `time` and `pending` are set for a stored message, `delivered` and `token` in a durable
    feed, `reply` for a core NATS message. The reply to a request has no subject. `headers_base64`
    has all values of each header with a value that is not UTF-8; in `headers`, U+FFFD replaces the
    invalid bytes.
    """

    subject: str | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    time: Time | UnsetType = UNSET
    pending: int | UnsetType = UNSET
    delivered: int | UnsetType = UNSET
    token: str | UnsetType = UNSET
    reply: str | UnsetType = UNSET
    headers: dict[str, list[str]] = {}
    headers_base64: dict[str, list[str]] = {}


class JsonMessage(Fields, omit_defaults=True, kw_only=True):
    """A message in JSON, with exactly one of `data`, `text` and `data_base64`.

    `data`: the payload is a JSON object or array; `text`: it is other UTF-8; else `data_base64`.
    """

    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


class PackedMessage(Fields, omit_defaults=True, kw_only=True):
    """A message in MessagePack: `data` is its binary payload."""

    data: bytes
