"""The frames of `js.v1.json` and `js.v1.msgpack`: one shape in two encodings.

A frame of the client that wants an answer has an `id`, which the answer repeats; what the server
says by itself has none. Sequences are numbers; an incarnation is text, because it is more than
JavaScript's numbers hold.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gateway.models import Duration, Expect, HeaderValues, Time, Tokens

Id = Annotated[int, Meta(ge=0, lt=2**53)]
Sid = Annotated[int, Meta(ge=0, lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]

ProblemMembers = Annotated[dict[str, object], Meta(title="ProblemBody")]
FailedTokens = list[Annotated[dict[str, object], Meta(title="FailedToken")]]
"""What they have is in `gateway.models`, under these titles."""


class Place(Struct, forbid_unknown_fields=True):
    """How far a stream was read: `incarnation` of the stream, and sequence."""

    incarnation: Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")]
    seq: Seq


class Allowance(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a feed may send: totals since it began. What is left out has no limit."""

    msgs: Count | None = None
    bytes: Count | None = None


class Begin(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where an ordered feed begins: at a sequence, or a time (RFC 3339)."""

    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    time: Time | None = None


Named = Literal["new", "all", "last", "last_per_subject"]


# --- of the client ---------------------------------------------------------------------------


class Hello(Struct, tag="hello", forbid_unknown_fields=True, omit_defaults=True):
    """Credentials, where the handshake had none: a token, or user and password."""

    id: Id = 0
    token: str = ""
    user: str = ""
    password: str = ""


class Subscribe(Struct, tag="sub", forbid_unknown_fields=True, omit_defaults=True):
    """Begin a feed `sid`.

    Durable: `stream` and `consumer`. Ordered: `stream`, or the `filter` by which it is found;
    `from` or `after`. Core: `subject`, and maybe `queue`. `batch`: how many messages a frame has
    at most.
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
    """Raise what a feed may send; totals, so that one that is lost or repeated does no harm."""

    sid: Sid
    msgs: Count | None = None
    bytes: Count | None = None


class Unsubscribe(Struct, tag="unsub", forbid_unknown_fields=True):
    """End a feed at once."""

    id: Id
    sid: Sid


class Drain(Struct, tag="drain", forbid_unknown_fields=True, omit_defaults=True):
    """Take no more, deliver what was taken, and say `done`; without `sid` all feeds."""

    id: Id
    sid: Sid | None = None


class Outgoing(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A message to send. At most one of `data`, `text`, `data_base64`; none: empty payload.

    `data` is any JSON value; the payload is its text exactly as sent.
    """

    subject: str
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    headers: HeaderValues | None = None


class Publish(Outgoing, tag="pub", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Publish into a stream; without `receipt` to whoever listens, and nothing is answered."""

    id: Id = 0
    msg_id: str | None = None
    expect: Expect | None = None
    receipt: bool = True


class Request(Outgoing, tag="req", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Ask whoever serves a subject."""

    id: Id
    timeout: Duration | None = None


class PackedOutgoing(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A message to send, in MessagePack: its payload is binary `data`, or `text`."""

    subject: str
    data: bytes | UnsetType = UNSET
    text: str | UnsetType = UNSET
    headers: HeaderValues | None = None


class PackedPublish(
    PackedOutgoing, tag="pub", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """As `Publish`."""

    id: Id = 0
    msg_id: str | None = None
    expect: Expect | None = None
    receipt: bool = True


class PackedRequest(
    PackedOutgoing, tag="req", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """As `Request`."""

    id: Id
    timeout: Duration | None = None


class Get(Struct, tag="get", forbid_unknown_fields=True, omit_defaults=True):
    """Read one message: by `seq`; the last of `last_by`; or the next of `next_by`, from `seq` or
    `start_time` on."""

    id: Id
    stream: str
    seq: Seq | None = None
    last_by: str | None = None
    next_by: str | None = None
    start_time: Time | None = None


class Ack(Struct, tag="ack", forbid_unknown_fields=True, omit_defaults=True):
    """Deliveries are done. `sync`: answer when the server has recorded it."""

    tokens: Tokens
    id: Id | None = None
    sync: bool = False


class Nak(Struct, tag="nak", forbid_unknown_fields=True, omit_defaults=True):
    """Give deliveries back, at once or after `delay`."""

    tokens: Tokens
    id: Id | None = None
    delay: Duration = 0
    sync: bool = False


class Term(Struct, tag="term", forbid_unknown_fields=True, omit_defaults=True):
    """Deliveries are never to be made again."""

    tokens: Tokens
    id: Id | None = None
    reason: Annotated[str, Meta(max_length=1024)] = ""
    sync: bool = False


class Progress(Struct, tag="progress", forbid_unknown_fields=True, omit_defaults=True):
    """Work goes on: the ack wait begins again."""

    tokens: Tokens
    id: Id | None = None
    sync: bool = False


class Ping(Struct, tag="ping", forbid_unknown_fields=True):
    """Ask for a `pong`; browsers cannot send those of WebSocket."""

    id: Id


Acks = Ack | Nak | Term | Progress
Plain = Hello | Subscribe | Credit | Unsubscribe | Drain | Get | Ack | Nak | Term | Progress | Ping
JsonFrame = Plain | Publish | Request
PackedFrame = Plain | PackedPublish | PackedRequest
Publishes = Publish | PackedPublish
Requests = Request | PackedRequest
ClientFrame = Plain | Publish | Request | PackedPublish | PackedRequest


# --- of the server ---------------------------------------------------------------------------


class Welcome(Struct, tag="welcome", omit_defaults=True):
    """The first frame: limits. `ping`: seconds between the server's pings."""

    max_payload: int
    max_frame: int
    max_feeds: int
    ping: float
    id: int | UnsetType = UNSET


class Subscribed(Struct, tag="subscribed", omit_defaults=True):
    """A feed begins. Of an ordered one: the position behind which it does, and whether that is
    where it was asked to; `first_seq`, `last_seq` of the stream where it is not."""

    id: int
    sid: int
    stream: str = ""
    incarnation: str = ""
    seq: int | UnsetType = UNSET
    recovered: bool | UnsetType = UNSET
    first_seq: int | UnsetType = UNSET
    last_seq: int | UnsetType = UNSET


class Published(Struct, tag="published", omit_defaults=True):
    """The receipt of a publish."""

    id: int
    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    val: str = ""


class Acked(Struct, tag="acked", omit_defaults=True):
    """How many tokens took effect, and those that did not."""

    succeeded: int
    failed: FailedTokens
    id: int | UnsetType = UNSET


class Done(Struct, tag="done"):
    """A feed was ended, or everything was drained."""

    id: int


class Pong(Struct, tag="pong"):
    """The answer to `ping`."""

    id: int


class Error(Struct, tag="error"):
    """Why a frame had no effect (RFC 9457)."""

    problem: ProblemMembers
    id: int | UnsetType = UNSET


class Gapped(Struct, tag="gap"):
    """Messages of an ordered feed behind `after` may be missing: what follows is behind
    `incarnation` and `seq`. `first_seq`, `last_seq`: what the stream had."""

    sid: int
    after: int
    incarnation: str
    seq: int
    first_seq: int
    last_seq: int
    recovered: bool = False


class Dropped(Struct, tag="dropped"):
    """So many messages of a core feed were dropped since the last such frame: no credit, or they
    were read too slowly."""

    sid: int
    count: int


class Interrupted(Struct, tag="interrupted"):
    """A durable feed gets nothing at the moment; it is tried again by itself."""

    sid: int
    problem: ProblemMembers


class Ended(Struct, tag="ended"):
    """A feed has ended by itself."""

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


# --- messages, which are encoded once for all who read them -----------------------------------


class Fields(Struct, omit_defaults=True, kw_only=True):
    """What both forms of a message have.

    `seq`, `time`, `pending` of a stream; `delivered`, `token` of a durable feed; `reply` of a
    core message. The answer to a request has no subject. `headers_base64` has all values of each
    header of which one is not UTF-8; in `headers` the bytes that are none are U+FFFD.
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
    """A message in JSON: `data` when the payload is a JSON object or array, `text` when it is
    UTF-8, else base64."""

    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


class PackedMessage(Fields, omit_defaults=True, kw_only=True):
    """A message in MessagePack: `data` is its payload, binary."""

    data: bytes
