"""HTTP handlers of the keys in a key-value bucket: values, history, watches, deletion."""

import msgspec
from starlette.responses import Response

from core.client.subscribe import ordered
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import DeliverPolicy
from core.model.gotime import format_time, parse_time
from core.model.message import MsgGetRequest, PubAck, StoredMsg
from core.model.stream import StreamPurgeRequest
from gateway.buckets.feed import Feed, Listing
from gateway.buckets.lookup import existing, no_bucket
from gateway.buckets.models import Cleaned, KvCleaning, KvRevision
from gateway.buckets.reading import FINITE, batches, end_reading
from gateway.buckets.stream_configs import KV, bucket_name
from gateway.formats.message_headers import (
    Items,
    message_headers,
    preconditions,
    refuse_duplicates,
    response_headers,
)
from gateway.formats.raw_messages import INERT, INERT_LINES, not_modified
from gateway.formats.validation import duration, flag, sequence, struct
from gateway.http.problems import Problem, bad_request
from gateway.http.responses import JSON, PlainResponse, location_of, no_content
from gateway.kv import kv_store
from gateway.kv.watch import KvFeed
from gateway.requests import entity_tags
from gateway.requests.call import Call

_NO_MESSAGE = err_code("JSNoMessageFound")
_NO_STREAM = err_code("JSStreamNotFound")
_HISTORY_MAX = 64
_READ_S = 5.0
# The type that curl sends with any body, and the default of a body without a type.
_NO_TYPE = (b"application/x-www-form-urlencoded", b"application/octet-stream")
_WRITES = (b"nats-ttl", b"nats-msg-id")
_CONDITIONS = (b"if-match", b"if-none-match", b"idempotency-key")
_CACHING = "private, no-cache"
_SHOWN = {"Cache-Control": _CACHING} | INERT
_SHOWN_LINES = [(b"cache-control", _CACHING.encode()), *INERT_LINES]


async def read_key(call: Call) -> Response:
    """Read the value of a key: the last, or that of `revision`.

    The value is the body. With `Accept: application/json` the body is an object with the value.
    """
    bucket, key = bucket_name(call.params["bucket"]), kv_store.key_name(call)
    if "revision" in call.query:
        found = await _revision(call, bucket, key)
    else:
        found = await kv_store.value(call, bucket, key)
    etag = f'"{found.seq}"'
    if call.has(b"if-none-match") and entity_tags.is_known(call, etag):
        return not_modified({"ETag": etag} | _SHOWN)
    if call.accepts(JSON):
        body = msgspec.json.encode(kv_store.entry_of(bucket, key, found)) + b"\n"
        return Response(body, headers={"ETag": etag} | _SHOWN, media_type=JSON)
    headers = [
        (b"etag", etag.encode()),
        (b"js-created", format_time(found.time).encode()),
        (b"content-type", _media_type(found)),
        *_SHOWN_LINES,
    ]
    return PlainResponse(found.data, 200, headers)


def _media_type(found: StoredMsg) -> bytes:
    if not found.hdrs:
        return b"application/octet-stream"
    items = [(b"Content-Type", value) for value in _content_types(found.hdrs)]
    return response_headers(items)[1]


def _content_types(headers: bytes) -> list[bytes]:
    lines = (line.partition(b":") for line in headers.split(b"\r\n"))
    return [value.strip() for name, _, value in lines if name.lower() == b"content-type"]


async def _revision(call: Call, bucket: str, key: str) -> StoredMsg:
    revision = sequence(call.query["revision"], "revision")
    if not revision:
        raise bad_request("bad-parameter", "revision: 0, at least 1")
    try:
        found = await call.gateway.js.message(f"KV_{bucket}", MsgGetRequest(seq=revision))
    except ApiError as error:
        if error.err_code == _NO_STREAM:
            raise no_bucket(bucket) from None
        if error.err_code != _NO_MESSAGE:
            raise
        raise kv_store.no_key(bucket, key) from None
    if found.subject != f"$KV.{bucket}.{key}":
        place = kv_store.place_of(await existing(call, KV, bucket))
        if found.subject != place.reads + key:
            raise kv_store.no_key(bucket, key)
    if found.hdrs and kv_store.operation_of(found.hdrs) != "PUT":
        raise kv_store.no_key(bucket, key, found)
    return found


async def put_key(call: Call) -> Response:
    """Store the value of a key: always, only if it has none, or only if a revision is its last.

    201: the key had no value, as `If-None-Match: *` requires.
    """
    bucket, key = bucket_name(call.params["bucket"]), kv_store.new_key(call)
    items = _items(call)
    creates = bool(items) and "if-none-match" in call.headers
    if items and "nats-ttl" in call.headers and not creates:
        await _check_lifetime(call, bucket)
    body = await call.body(call.gateway.client.info.max_payload)
    if creates:
        items = [item for item in items if item[0] != kv_store.EXPECTED]
        ack = await kv_store.create(call, bucket, key, body, items)
    else:
        ack = await _store(call, bucket, key, body, items)
    return _stored(bucket, key, ack, creates=creates)


async def _store(call: Call, bucket: str, key: str, body: bytes, items: Items) -> PubAck:
    try:
        return await kv_store.store(call, bucket, key, body, items)
    except ApiError as error:
        raise kv_store.conflict(error) from None


async def _check_lifetime(call: Call, bucket: str) -> None:
    info = await existing(call, KV, bucket)
    if info["config"].get("max_msgs_per_subject", 1) != 1:
        detail = (
            "Nats-TTL: a key that exists needs a bucket of history 1, or an older value returns"
        )
        raise bad_request("ttl-not-possible", f"{detail} when this one expires")


def _items(call: Call) -> Items:
    """Return the message headers for a write. Raises Problem 400 for repeated ones."""
    known: Items = []
    is_conditional = False
    for name, value in call.scope["headers"]:
        if name == b"content-type":
            if value not in _NO_TYPE:
                known.append((name, value))
        elif name in _CONDITIONS:
            is_conditional = True
        elif name in _WRITES:
            known.append((name, value))
    items = message_headers(known, call.gateway.settings) if known else []
    if is_conditional:
        items += preconditions(call.headers)
    refuse_duplicates(items)
    return items


def _stored(bucket: str, key: str, ack: PubAck, *, creates: bool) -> Response:
    headers = [(b"etag", b'"%d"' % ack.seq), (b"content-type", JSON.encode())]
    status = 200
    if ack.duplicate:
        headers.append((b"idempotency-replayed", b"true"))
    elif creates:
        status = 201
        headers.append((b"location", location_of("kv", bucket, key).encode()))
    body = msgspec.json.encode(KvRevision(bucket, key, ack.seq)) + b"\n"
    return PlainResponse(body, status, headers)


async def delete_key(call: Call) -> Response:
    """Delete a key: its last revision becomes a marker; older values stay in the history."""
    return await _end(call, [(b"KV-Operation", b"DEL")])


async def purge_key(call: Call) -> Response:
    """Delete a key with its history; a marker remains, for the time in `Nats-TTL` if present."""
    return await _end(call, [(b"KV-Operation", b"PURGE"), (b"Nats-Rollup", b"sub")])


async def _end(call: Call, marker: Items) -> Response:
    bucket, key = bucket_name(call.params["bucket"]), kv_store.key_name(call)
    await call.no_body()
    items = [item for item in _items(call) if item[0] != b"Content-Type"]
    ack = await _store(call, bucket, key, b"", marker + items)
    return no_content({"Js-Revision": str(ack.seq)})


async def key_history(call: Call) -> Response:
    """Read the stored revisions of a key with deletion markers, oldest first.

    `limit`: only the newest ones.
    """
    bucket, key = bucket_name(call.params["bucket"]), kv_store.key_name(call)
    limit = sequence(call.query.get("limit", str(_HISTORY_MAX)), "limit")
    if not 1 <= limit <= _HISTORY_MAX:
        raise bad_request("bad-parameter", f"limit: 1 to {_HISTORY_MAX}")
    info = await existing(call, KV, bucket)
    prefix = kv_store.place_of(info).reads
    wanted = kv_store.filtered(bucket, prefix, (key,), DeliverPolicy.ALL, headers_only=False)
    listing = await Listing.begin(call, wanted, "entries", info["state"]["last_seq"])
    if not (pending := listing.pending):
        await listing.close()
        raise kv_store.no_key(bucket, key)
    listing.show = kv_store.Renderer(bucket, prefix, skip=max(0, pending - limit)).entry
    return listing


async def list_keys(call: Call) -> Response:
    """List the keys that have a value, of the whole bucket or those that match filters."""
    bucket = bucket_name(call.params["bucket"])
    info = await existing(call, KV, bucket)
    prefix = kv_store.place_of(info).reads
    wanted = kv_store.filtered(
        bucket, prefix, _filters(call), DeliverPolicy.LAST_PER_SUBJECT, headers_only=True
    )
    listing = await Listing.begin(call, wanted, "keys", info["state"]["last_seq"])
    listing.show = kv_store.Renderer(bucket, prefix).key
    return listing


async def watch_keys(call: Call) -> Response:
    """Follow the changes of keys, after their current values, as lines or server-sent events.

    The first event is `open`; `ready` follows the current values. A `position` in Last-Event-ID
    resumes the feed after it.
    """
    bucket = bucket_name(call.params["bucket"])
    query = call.query
    wanted = KvFeed(
        bucket=bucket,
        filters=_filters(call),
        history=flag(query.get("history", "false"), "history"),
        updates_only=flag(query.get("updates_only", "false"), "updates_only"),
        ignore_deletes=flag(query.get("ignore_deletes", "false"), "ignore_deletes"),
        meta_only=flag(query.get("meta_only", "false"), "meta_only"),
    )
    if wanted.history and wanted.updates_only:
        raise bad_request("bad-parameter", "history and updates_only exclude each other")
    return await Feed.begin(call, await existing(call, KV, bucket), wanted)


async def clean_bucket(call: Call) -> Response:
    """Remove old deletion markers of keys, and the older values of these keys."""
    bucket = bucket_name(call.params["bucket"])
    request = struct(KvCleaning, await call.json_body())
    age = duration(request.older_than, "older_than")
    info = await existing(call, KV, bucket)
    before = parse_time(info["ts"]) - age
    js = call.gateway.js
    wanted = kv_store.filtered(
        bucket,
        kv_store.place_of(info).reads,
        (),
        DeliverPolicy.LAST_PER_SUBJECT,
        headers_only=True,
    )
    purged = 0
    reader = await ordered(js, wanted, FINITE)
    try:
        async for messages in batches(reader):
            for msg in messages:
                if msg.time <= before and kv_store.operation_of(msg.headers) != "PUT":
                    subject = msg.subject.decode(errors="replace")
                    if kv_store.is_pattern(subject):
                        continue  # its purge would remove other keys
                    # Purge nothing above the marker: the key may have a new value.
                    request_of = StreamPurgeRequest(filter=subject, seq=msg.stream_seq + 1)
                    purged += await js.purge_stream(f"KV_{bucket}", request_of)
    finally:
        end_reading(reader)
    return Response(msgspec.json.encode(Cleaned(purged)), media_type=JSON)


def _filters(call: Call) -> tuple[str, ...]:
    """Return the key filters of a query; empty: all keys.

    Raises Problem 400 for an invalid filter or too many of them.
    """
    if "keys" not in call.query:
        return ()
    settings = call.gateway.settings
    filters = tuple(kv_store.key_filter(text, settings) for text in call.query["keys"].split(","))
    if len(filters) > (most := settings.watch_filters_max):
        raise Problem(400, "bad-parameter", f"keys: more than {most}")
    return filters
