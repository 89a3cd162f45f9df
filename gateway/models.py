"""The JSON of the façade that is not JetStream's own: bodies of requests and of answers.

JetStream's objects (`StreamConfig`, `ConsumerInfo`, ...) travel as the JetStream API shows them:
its names, durations in nanoseconds, times in RFC 3339.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

Duration = int | str
"""Nanoseconds, or text such as `500ms`, `1.5s`, `2m`."""

Tokens = Annotated[list[str], Meta(min_length=1)]
HeaderValues = dict[str, str | list[str]]


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
    fields and the `token` that acknowledges them.
    """

    stream: str
    subject: str
    seq: int
    time: str
    headers: dict[str, list[str]] = {}
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    consumer_seq: int = 0
    delivered: int = 0
    pending: int | UnsetType = UNSET
    token: str = ""


class Messages(Struct):
    """The answer to a fetch."""

    messages: list[Message]


class FetchRequest(Struct, forbid_unknown_fields=True):
    """What to fetch.

    Without `fill` the answer comes as soon as there is any message, with all that are there; with
    it, when `batch` messages came or `expires` is over. `no_wait` never waits.
    """

    batch: Annotated[int, Meta(ge=1)] | None = None
    expires: Duration | None = None
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    no_wait: bool = False
    fill: bool = False


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
    """RFC 9457; `err_code` is JetStream's number."""

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    err_code: int = 0
    current_sequence: int = 0


class FailedToken(Struct):
    """A token that had no effect, and why."""

    token: str
    problem: dict[str, object]


class AckResult(Struct):
    """How many tokens took effect, and those that did not."""

    succeeded: int
    failed: list[FailedToken]


class PurgeRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which messages to remove: of a subject, below a sequence, or all but the newest `keep`."""

    filter: str = ""
    seq: Annotated[int, Meta(ge=0)] = 0
    keep: Annotated[int, Meta(ge=0)] = 0


class PurgeResult(Struct):
    """How many messages were removed."""

    purged: int


class Health(Struct):
    """`ok`, or why not."""

    status: str


class Page(msgspec.Struct):
    """Where a page of a list begins and how many there are in all."""

    total: int
    offset: int
    limit: int
