"""JSON schema and description of each parameter in paths, queries and headers.

All operations share them. A parameter with several descriptions has one entry per description:
`name#description`.
"""

from typing import Any

Schema = dict[str, Any]
Parameter = tuple[Schema, str]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_SEQ_MAX = 2**64 - 1
_SEQ: Schema = {"type": "integer", "minimum": 1, "maximum": _SEQ_MAX}
_OFFSET: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "default": 0}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^\x00\t\n\f\r .*>/\\]+$",
}
_BUCKET: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,200}$"}
_KEY_TOKEN = "[-/_=A-Za-z0-9]+"
_KEY: Schema = {
    "type": "string",
    "maxLength": 1024,
    "pattern": rf"^{_KEY_TOKEN}(\.{_KEY_TOKEN})*$",
}
_TOKENS = r"^[^\x00\t\n\r .]+(\.[^\x00\t\n\r .]+)*$"
_SUBJECT: Schema = {"type": "string", "maxLength": 4096, "pattern": _TOKENS}
_TIME: Schema = {"type": "string", "format": "date-time"}
_DURATION: Schema = {"$ref": "#/components/schemas/DurationText"}
_SEQUENCE_TAG: Schema = {"type": "string", "pattern": r'^"[0-9]{1,20}"$'}
_TAGS: Schema = {
    "type": "string",
    "pattern": r'^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$',
}
_ASCII: Schema = {"type": "string", "pattern": r"^[!-~]([ !-~]*[!-~])?$"}
_LINE: Schema = {"type": "string", "pattern": r"^[^\x00-\x08\x0a-\x1f\x7f]+$"}
_OPTIONAL: Schema = {"type": "string", "pattern": r"^[^\x00-\x08\x0a-\x1f\x7f]*$"}
_NUMBER: Schema = {"type": "string", "pattern": "^[0-9]{1,20}$"}

PATH: dict[str, Parameter] = {
    "bucket": (_BUCKET | {"examples": ["profiles"]}, "The name of a bucket."),
    "consumer": (_NAME | {"examples": ["billing"]}, "The name of a consumer."),
    "key": (
        _SUBJECT | {"examples": ["sue.color"]},
        "A key that any client has stored, percent-encoded: a slash is `%2F`.",
    ),
    "key#new": (
        _KEY | {"examples": ["sue.color"]},
        "A key that every client can read, percent-encoded: a slash is `%2F`.",
    ),
    "kind": (
        {"type": "string", "pattern": "^[a-z-]+$", "examples": ["stream-not-found"]},
        "The word that ends the `type` of a problem.",
    ),
    "module": (_TEXT | {"minLength": 1, "examples": ["app.js"]}, "The name of a script."),
    "name": (_TEXT | {"minLength": 1, "examples": ["plan.pdf"]}, "The name of an object."),
    "seq": (_SEQ | {"examples": [1]}, "The sequence of a message in its stream."),
    "stream": (_NAME | {"examples": ["ORDERS"]}, "The name of a stream."),
    "subject": (
        _SUBJECT | {"examples": ["orders.new"]},
        "A subject, percent-encoded: tokens separated by dots, without wildcards. Those that begin"
        " with `$` (but `$KV.` and `$O.`) and `_INBOX.` are the system's.",
    ),
}

QUERY: dict[str, Parameter] = {
    "from": (
        _TEXT | {"examples": ["all", "42"]},
        "Where to begin: `all`, `new`, `last`, `last_per_subject`, a sequence, or a time.",
    ),
    "deleted": (_FLAG, "Lists deleted objects, too."),
    "erase": (_FLAG | {"default": True}, "Whether the payload is overwritten."),
    "filter": (
        _SUBJECT | {"examples": ["orders.*"]},
        "Which subjects, with wildcards; those of advisories begin behind `$JS.EVENT.`.",
    ),
    "history": (_FLAG, "Whether older values come too."),
    "ignore_deletes": (_FLAG, "Whether the ends of keys are left out."),
    "keys": (
        {"type": "string", "minLength": 1, "examples": ["sue.*,bob.>"]},
        "Which keys: filters with wildcards, separated by commas; without it all.",
    ),
    "last_by": (
        _SUBJECT | {"examples": ["orders.new"]},
        "The subject whose last message is read. It goes with no other parameter.",
    ),
    "last_event_id": (
        _TEXT | {"pattern": "^([0-9]{1,20}:[0-9]{1,20})?$"},
        "As the header Last-Event-ID, for callers that cannot set one.",
    ),
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": 64},
        "How many of the newest.",
    ),
    "meta_only": (_FLAG, "Whether values are left out."),
    "next_by": (
        _SUBJECT | {"examples": ["orders.*"]},
        "The subject, with wildcards, whose next message from `seq` or `start_time` on is read.",
    ),
    "offset": (_OFFSET, "How many to leave out before the first."),
    "replies": (
        {"type": "integer", "minimum": 1, "maximum": 10_000},
        "Up to how many answers are wanted; with it they come as NDJSON while they arrive.",
    ),
    "revision": (_SEQ, "An older value, by its revision."),
    "seq": (_OFFSET | {"maximum": _SEQ_MAX, "default": 1}, "The sequence to begin at."),
    "stall": (_DURATION, "With `replies`: how long to wait for another answer."),
    "start_time": (
        _TIME,
        "The time to begin at (RFC 3339; in a query its `+` is written `%2B`).",
    ),
    "subject": (
        _SUBJECT | {"examples": ["orders.>"]},
        "Only streams that capture this subject, which may have wildcards.",
    ),
    "timeout": (_DURATION, "How long to wait for the answer, or for all of them: at most 60 s."),
    "until_empty": (_FLAG, "With `replies`: whether an empty answer is the end."),
    "updates_only": (_FLAG, "Whether to begin with the next change."),
}

_STEERS = "As in JetStream (ADR-{adr})."
REQUEST_HEADERS: dict[str, Parameter] = {
    "Content-Digest": (
        _TEXT,
        "The digest of the body (RFC 9530), which is checked: `sha-256` or `sha-512`.",
    ),
    "Idempotency-Key": (
        _LINE | {"examples": ['"payment-7"']},
        "Makes a repetition within the duplicate window harmless: nothing is stored again.",
    ),
    "If-Match#sequence": (
        _SEQUENCE_TAG | {"examples": ['"7"']},
        "Only if this is the last sequence.",
    ),
    "If-Match#tags": (_TAGS, "Only if it has one of these entity tags; `*`: if there is one."),
    "If-None-Match#nothing": (
        {"type": "string", "enum": ["*"]},
        "Only if there is nothing yet.",
    ),
    "If-None-Match#tags": (
        _TAGS,
        "Only if it has none of these entity tags; `*`: if there is none.",
    ),
    "If-Range": (_TEXT, "The entity tag that the range is of; else all is answered."),
    "Js-Chunk-Size": (_COUNT, "Bytes of a chunk."),
    "Js-Description": (_TEXT, "The description of the object."),
    "Js-Expect": (
        {"type": "string", "enum": ["stream", "subject"], "default": "subject"},
        "Whose last sequence is in If-Match.",
    ),
    "Last-Event-ID": (
        _TEXT | {"pattern": "^([0-9]{1,20}:[0-9]{1,20})?$"},
        "The position of the last event that was seen: the feed goes on behind it.",
    ),
    "Nats-Expected-Last-Msg-Id": (_LINE, "Only if the last message of the stream has this id."),
    "Nats-Expected-Last-Sequence": (_NUMBER, "As If-Match with `Js-Expect: stream`."),
    "Nats-Expected-Last-Subject-Sequence": (_NUMBER, "As If-Match."),
    "Nats-Expected-Last-Subject-Sequence-Subject": (
        _LINE,
        "The subject, with wildcards, that Nats-Expected-Last-Subject-Sequence is about.",
    ),
    "Nats-Expected-Stream": (_LINE, "Only if this stream stores it."),
    "Nats-Incr": (
        {"type": "string", "pattern": "^[+-]?[0-9]+$", "examples": ["+5"]},
        "How much to add to a counter.",
    ),
    "Nats-Msg-Id": (_LINE, "As Idempotency-Key."),
    "Nats-Required-Api-Level": (_NUMBER, "Only if the server has at least this API level."),
    "Nats-Rollup": (
        {"type": "string", "enum": ["all", "sub"]},
        "Remove all messages before this one, of the stream or of its subject.",
    ),
    "Nats-Schedule": (
        _LINE | {"examples": ["@every 1h"]},
        "When to send a message to Nats-Schedule-Target (ADR-51).",
    ),
    "Nats-Schedule-Next": (_LINE, _STEERS.format(adr=51)),
    "Nats-Schedule-Rollup": (_LINE, _STEERS.format(adr=51)),
    "Nats-Schedule-Source": (_LINE, _STEERS.format(adr=51)),
    "Nats-Schedule-TTL": (_LINE, _STEERS.format(adr=51)),
    "Nats-Schedule-Target": (_LINE, _STEERS.format(adr=51)),
    "Nats-Schedule-Time-Zone": (_LINE, _STEERS.format(adr=51)),
    "Nats-Scheduler": (_LINE, _STEERS.format(adr=51)),
    "Nats-TTL": (
        _LINE | {"examples": ["1h"]},
        "How long the message is kept: a duration, or `never` (ADR-43).",
    ),
    "Prefer": (
        _OPTIONAL | {"examples": ["return=minimal"]},
        "`return=minimal`: only errors are answered, and counts at the end.",
    ),
    "ce-id": (_ASCII, "The id of an event (CloudEvents 1.0 in binary mode)."),
    "ce-source": (_ASCII, "Where an event comes from: a URI reference."),
    "ce-specversion": ({"type": "string", "enum": ["1.0"]}, "The version of CloudEvents."),
    "ce-type": (_ASCII, "The type of an event."),
    "Range": (_TEXT | {"examples": ["bytes=0-1023"]}, "The bytes that are wanted (RFC 9110)."),
    "Repr-Digest": (
        _TEXT,
        "The digest of the object (RFC 9530), which is checked: `sha-256` or `sha-512`.",
    ),
}

RESPONSE_HEADERS: dict[str, Parameter] = {
    "Allow": (_TEXT | {"examples": ["GET, HEAD, OPTIONS"]}, "The methods that the path takes."),
    "Accept-Ranges": (_TEXT, "`bytes`: ranges are served."),
    "Cache-Control": (_TEXT, "Whether the answer may be kept."),
    "Content-Range": (_TEXT, "Which bytes these are."),
    "Content-Range#none": (_TEXT | {"examples": ["bytes */4"]}, "How many bytes there are."),
    "ETag": (_TEXT, "The tag for If-Match and If-None-Match: of messages and keys the sequence."),
    "ETag#now": (_TEXT, "The current tag: of streams, consumers, buckets, objects."),
    "Idempotency-Replayed": ({"type": "string", "enum": ["true"]}, "It was stored before."),
    "Js-Created": (_TIME, "When it was stored."),
    "Js-Delivered": (_COUNT, "How often it was delivered, this time included."),
    "Js-Headers-Omitted": (_COUNT, "How many headers of the message HTTP cannot carry."),
    "Js-Last-Event-ID": (_TEXT, "The position behind which the feed begins."),
    "Js-Pending": (_COUNT, "How many messages follow."),
    "Js-Reason": (_TEXT, "Why there is nothing."),
    "Js-Revision": (_SEQ, "The revision."),
    "Js-Token": (_TEXT, "The token that acknowledges the message."),
    "Last-Modified": (_TEXT, "When it was stored."),
    "Location": (_TEXT | {"format": "uri-reference"}, "Where it can be read."),
    "Nats-Sequence": (_SEQ, "The sequence of the message."),
    "Nats-Stream": (_TEXT, "The stream of the message."),
    "Nats-Subject": (_TEXT, "The subject of the message."),
    "Nats-Time-Stamp": (_TIME, "When the message was stored."),
    "RateLimit": (
        _TEXT | {"examples": ['"requests";r=599;t=1']},
        "Where there is a rate limit: how many requests (`r`) are left in how many seconds (`t`).",
    ),
    "RateLimit-Policy": (
        _TEXT | {"examples": ['"requests";q=600;w=60']},
        "Where there is a rate limit: so many requests (`q`) in so many seconds (`w`).",
    ),
    "Repr-Digest": (_TEXT, "The digest of the whole object (RFC 9530); links have none."),
    "Retry-After": (_COUNT, "Seconds after which it may be tried again."),
    "Sec-WebSocket-Version": ({"type": "string", "enum": ["13"]}, "The version that is spoken."),
    "Set-Cookie": (_TEXT, "The cookie of the session."),
    "Upgrade": ({"type": "string", "enum": ["websocket"]}, "The protocol that the path takes."),
    "WWW-Authenticate": (_TEXT, "How to name oneself."),
}
SOMETIMES = frozenset(
    name for name in RESPONSE_HEADERS if name.startswith(("Js-", "Nats-")) and name != "Js-Reason"
) | {
    "ETag#now",
    "Idempotency-Replayed",
    "RateLimit",
    "RateLimit-Policy",
    "Repr-Digest",
    "Retry-After",
}
"""Response headers that only some responses of an operation have."""
EXPOSED = tuple(sorted({name.partition("#")[0] for name in RESPONSE_HEADERS} - {"Set-Cookie"}))
"""Response headers that pages of other origins may read (CORS). No page may read `Set-Cookie`."""
