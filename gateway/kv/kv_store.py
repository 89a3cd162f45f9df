"""Reading and writing of keys in a key-value bucket (ADR-8), as messages of its stream.

Reads and writes first use the subjects of the bucket itself. Only if that fails, the code checks if
the bucket's stream is a mirror. Then keys are read under the subjects of the mirrored bucket, and
written to that bucket.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from core.client import NoResponders, header_items
from core.client.subscribe import SubscriptionTarget, target_of
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import DeliverPolicy
from core.model.gotime import format_time
from core.model.message import PubAck, StoredMsg
from gateway.buckets.lookup import existing, no_bucket
from gateway.buckets.models import KvEntry, KvKey
from gateway.buckets.stream_configs import KV
from gateway.formats.message_headers import Items, block
from gateway.formats.rendering import show_payload
from gateway.formats.validation import filter_subject, followed, stored_subject
from gateway.http.problems import Problem, bad_request, problem_of
from gateway.messages import idempotency
from gateway.messages.batch_lines import receipt_problem
from gateway.messages.idempotency import WRONG_SEQUENCE
from gateway.requests.call import Call
from gateway.settings import Settings

Operation = Literal["PUT", "DEL", "PURGE"]

EXPECTED = b"Nats-Expected-Last-Subject-Sequence"
_KEY = re.compile(r"[-/_=A-Za-z0-9]+(?:\.[-/_=A-Za-z0-9]+)*")
_RULE = "letters, digits and - _ / = in tokens separated by single dots"
_NO_MESSAGE = err_code("JSNoMessageFound")
_NO_STREAM = err_code("JSStreamNotFound")
_TRIES = 5
_MARKERS: dict[bytes, Operation] = {b"MaxAge": "PURGE", b"Purge": "PURGE", b"Remove": "DEL"}


@dataclass(frozen=True, slots=True)
class Place:
    """Subject prefixes for the keys of a bucket: one for reads, one for writes."""

    reads: str
    writes: str


def new_key(call: Call) -> str:
    """Return the key in the request path, for a write of a value.

    Raises Problem 400 if the key is not valid in ADR-8, so that official clients cannot read it, or
    is too long.
    """
    key = call.params["key"]
    if not _KEY.fullmatch(key):
        raise bad_request("bad-key", f"key: {_RULE}")
    limit = call.gateway.settings.subject_bytes_max
    if len(key) > limit:
        raise bad_request("bad-key", f"key: longer than {limit} bytes")
    return key


def key_name(call: Call) -> str:
    """Return the key in the request path, for a read or deletion of a value.

    Any client may publish to the subjects of a bucket, so keys that ADR-8 forbids may exist, and
    are accepted. Raises Problem 400 if no subject can end with the key.
    """
    key = call.params["key"]
    if _KEY.fullmatch(key):
        return key
    try:
        stored_subject(key)
    except Problem as refused:
        raise bad_request("bad-key", f"key: {refused.detail}") from None
    return key


def key_filter(text: str, settings: Settings) -> str:
    """Check a key that may contain wildcards, and return it. Raises Problem 400 if invalid."""
    try:
        return filter_subject(text, settings)
    except Problem as refused:
        rule = "* is any one token, > at the end all others"
        raise bad_request("bad-key", f"keys: {refused.detail}; {rule}") from None


def is_pattern(key: str) -> bool:
    """Return True if a stored key contains `*` or `>` as a token: routes would read it as a
    pattern.
    """
    return ("*" in key or ">" in key) and not {"*", ">"}.isdisjoint(key.split("."))


def place_of(info: dict[str, Any]) -> Place:
    """Return the subject prefixes for a bucket's keys, from the info of its stream."""
    bucket = str(info["config"]["name"]).removeprefix("KV_")
    mirror = info["config"].get("mirror")
    if not mirror:
        return Place(f"$KV.{bucket}.", f"$KV.{bucket}.")
    reads = "$KV.{}.".format(mirror["name"].removeprefix("KV_"))
    api = (mirror.get("external") or {}).get("api", "")
    return Place(reads, f"{api}.{reads}" if api else reads)


async def last_entry(call: Call, bucket: str, key: str) -> StoredMsg:
    """Return the last message of a key, which may be a deletion marker.

    Raises Problem 404 if the bucket or key does not exist.
    """
    js = call.gateway.js
    try:
        return await js.last(f"KV_{bucket}", f"$KV.{bucket}.{key}")
    except ApiError as error:
        if error.err_code == _NO_STREAM:
            raise no_bucket(bucket) from None
        if error.err_code != _NO_MESSAGE:
            raise
    place = place_of(await existing(call, KV, bucket))
    if place.reads != f"$KV.{bucket}.":
        try:
            return await js.last(f"KV_{bucket}", place.reads + key)
        except ApiError as error:
            if error.err_code != _NO_MESSAGE:
                raise
    raise no_key(bucket, key)


async def value(call: Call, bucket: str, key: str) -> StoredMsg:
    """Return the last value of a key. Raises Problem 404 if the key is missing or deleted."""
    found = await last_entry(call, bucket, key)
    if found.hdrs and operation_of(found.hdrs) != "PUT":
        raise no_key(bucket, key, found)
    return found


def no_key(bucket: str, key: str, marker: StoredMsg | None = None) -> Problem:
    """Return the Problem 404 for a key without a value; `marker` is the message that deleted it."""
    if marker is None:
        return Problem(404, "key-not-found", f"no key {key!r} in bucket {bucket!r}")
    detail = f"key {key!r} in bucket {bucket!r} was deleted"
    return Problem(404, "key-not-found", detail, current_sequence=marker.seq)


def operation_of(headers: bytes) -> Operation:
    """Return the operation that a message did on its key, from its headers: PUT, DEL or PURGE."""
    if b"KV-Operation:" not in headers and b"Nats-Marker-Reason:" not in headers:
        return "PUT"
    items = dict(reversed(header_items(headers)))
    operation = items.get(b"KV-Operation")
    if operation is not None:
        return "PURGE" if operation == b"PURGE" else "DEL" if operation == b"DEL" else "PUT"
    return _MARKERS.get(items.get(b"Nats-Marker-Reason", b""), "PUT")


async def store(call: Call, bucket: str, key: str, payload: bytes, items: Items) -> PubAck:
    """Publish a value or deletion marker of a key.

    Raises Problem 413 if it is too large, ApiError if the stream refuses it, ClientError if the
    server does not respond.
    """
    limit = call.gateway.client.info.max_payload
    headers = block(items)
    if len(payload) + len(headers) > limit:
        raise Problem(413, "body-too-large", f"headers and body: larger than {limit} bytes")
    try:
        return await _publish(call, f"$KV.{bucket}.{key}", payload, headers)
    except NoResponders:
        place = place_of(await existing(call, KV, bucket))
    if place.writes == f"$KV.{bucket}.":
        raise receipt_problem(b"", 503)
    try:
        return await _publish(call, place.writes + key, payload, headers)
    except NoResponders:
        raise receipt_problem(b"", 503) from None


async def _publish(call: Call, subject: str, payload: bytes, headers: bytes) -> PubAck:
    try:
        return await idempotency.publish(call, subject.encode(), payload, headers)
    except ValueError:
        raise receipt_problem(b"", 0) from None


async def create(call: Call, bucket: str, key: str, payload: bytes, items: Items) -> PubAck:
    """Store the value of a key that is new or deleted.

    Raises Problem 412 if the key has a value, or changes several times meanwhile.
    """
    expected = 0
    for _ in range(_TRIES):
        try:
            return await store(call, bucket, key, payload, [*items, (EXPECTED, b"%d" % expected)])
        except ApiError as error:
            if error.err_code not in WRONG_SEQUENCE:
                raise
            refused = error
        try:
            found = await last_entry(call, bucket, key)
        except Problem as gone:
            if gone.kind != "key-not-found":
                raise
            expected = 0
            continue
        if operation_of(found.hdrs) == "PUT":
            raise conflict(refused, found.seq)
        expected = found.seq
    raise conflict(refused, 0)


def conflict(error: ApiError, revision: int = 0) -> Exception:
    """Return the Problem 412, with the current revision, for an error about a wrong sequence.

    Any other error is returned unchanged. `revision`: the current one if known, else 0.
    """
    if error.err_code not in WRONG_SEQUENCE:
        return error
    problem = problem_of(error)
    if revision:
        problem.extra["current_sequence"] = revision
    current = problem.extra.get("current_sequence")
    if current:
        problem.detail = f"the current revision is {current}"
        problem.headers["ETag"] = f'"{current}"'
    elif current == 0:
        problem.detail = "the key has no revision"
    return problem


def entry_of(bucket: str, key: str, msg: StoredMsg) -> KvEntry:
    """Convert the message of a key to the JSON form of an entry."""
    operation = operation_of(msg.hdrs)
    entry = KvEntry(bucket, key, msg.seq, format_time(msg.time), operation)
    if operation == "PUT":
        show_payload(entry, msg.data)
    return entry


def filtered(
    bucket: str, prefix: str, keys: tuple[str, ...], begin: DeliverPolicy, *, headers_only: bool
) -> SubscriptionTarget:
    """Return the stream and subjects of a bucket's keys, for a subscription; empty `keys`: all
    keys.
    """
    followed(keys, "bad-key")
    subjects = tuple(prefix + key for key in keys) or (prefix + ">",)
    return target_of(f"KV_{bucket}", subjects, deliver_policy=begin, headers_only=headers_only)


class Renderer:
    """Converts the messages of a bucket to list entries, without the first `skip` messages."""

    def __init__(self, bucket: str, prefix: str, *, skip: int = 0) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._skip = skip

    def entry(self, msg: StoredMsg) -> KvEntry | None:
        """Return a message as the revision of a key; None if it is one of the first `skip`
        messages.
        """
        if self._skip:
            self._skip -= 1
            return None
        return entry_of(self._bucket, msg.subject.removeprefix(self._prefix), msg)

    def key(self, msg: StoredMsg) -> KvKey | None:
        """Return the key of a message; None if the key has no value."""
        key = msg.subject.removeprefix(self._prefix)
        if operation_of(msg.hdrs) != "PUT" or is_pattern(key):
            return None
        return KvKey(key, msg.seq, format_time(msg.time))
