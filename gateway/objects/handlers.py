"""HTTP handlers of the objects in an object store."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec
from starlette.responses import Response

from core.model.consumer import DeliverPolicy
from core.model.gotime import parse_time
from core.model.message import StoredMsg
from core.runtime.nuid import nuid
from core.units import NANOS_PER_SECOND
from gateway.buckets.feed import Feed, Listing
from gateway.buckets.lookup import existing
from gateway.buckets.models import Cleaned, Link, ObjectCleaning, ObjectInfo, ObjectPatch
from gateway.buckets.stream_configs import OBJECTS, bucket_name
from gateway.formats.message_headers import Items, message_headers, response_headers
from gateway.formats.message_headers import check as check_headers
from gateway.formats.raw_messages import INERT, not_modified
from gateway.formats.validation import duration, flag, json_object, sequence, struct, utf8_header
from gateway.http.problems import Problem, bad_request
from gateway.http.responses import JSON, location_of, no_content
from gateway.objects import cleanup, object_store
from gateway.objects.download import Download, repr_digest, span_of
from gateway.objects.upload import store_object
from gateway.objects.watch import ObjectFeed
from gateway.requests import entity_tags
from gateway.requests.call import Call
from gateway.streams.handlers import patched

_NO_TYPE = (b"application/x-www-form-urlencoded", b"application/octet-stream")
_CACHED = {"Cache-Control": "private, no-cache"} | INERT


async def read_object(call: Call) -> Response:
    """Read an object, or a range of its bytes; links are followed."""
    bucket, name = _place(call)
    info = await object_store.resolved(call, bucket, name)
    headers = _headers(info)
    etag = headers["ETag"]
    if "if-none-match" in call.headers and entity_tags.is_known(call, etag):
        return not_modified(headers)
    ranged = call.headers.get("range")
    if call.scope["method"] == "HEAD" or call.headers.get("if-range", etag) != etag:
        ranged = None
    download = Download(call, info, span_of(ranged, info.size), headers)
    shown, media_type = response_headers(_items(info.headers))
    download.raw_headers += [(b"content-type", media_type), *shown]
    await download.open()
    return download


def _items(headers: dict[str, list[str]]) -> Items:
    return [
        (name.encode(errors="replace"), value.encode(errors="replace"))
        for name, values in headers.items()
        for value in values
    ]


def _headers(info: ObjectInfo) -> dict[str, str]:
    headers = {
        "ETag": f'"{info.revision}"',
        "Last-Modified": _http_date(info.mtime),
        "Accept-Ranges": "bytes",
    } | _CACHED
    if digest := repr_digest(info):
        headers["Repr-Digest"] = digest
    return headers


def _http_date(time: str) -> str:
    return format_datetime(
        datetime.fromtimestamp(parse_time(time) // NANOS_PER_SECOND, UTC), usegmt=True
    )


async def put_object(call: Call) -> Response:
    """Store the body as an object: a new one (201), or in place of an existing one (200)."""
    bucket, name = _place(call)
    object_store.checked_name(name)
    headers: dict[str, list[str]] = {}
    for key, value in message_headers(_known(call), call.gateway.settings):
        headers.setdefault(key.decode(), []).append(utf8_header(value, key.decode()))
    described: dict[str, Any] = {"headers": headers}
    if call.has(b"js-description"):
        text = utf8_header(call.header(b"js-description"), "Js-Description")
        described["description"] = text
    info, is_new = await store_object(call, bucket, name, _chunk_size(call), described)
    return await _stored(call, info, 201 if is_new else 200)


def _known(call: Call) -> Items:
    known: Items = []
    for name, value in call.scope["headers"]:
        if name.startswith(b"nats-") and not name.startswith(b"nats-h-"):
            shown = name.decode(errors="replace")
            raise bad_request("header-not-allowed", f"{shown}: objects have none of these")
        if name.startswith(b"nats-h-") or (name == b"content-type" and value not in _NO_TYPE):
            known.append((name, value))
    return known


def _chunk_size(call: Call) -> int:
    most = call.gateway.client.info.max_payload
    usual = min(call.gateway.settings.object_chunk_bytes, most)
    size = sequence(call.headers.get("js-chunk-size", str(usual)), "Js-Chunk-Size")
    if not 1024 <= size <= most:
        raise bad_request("bad-header", f"Js-Chunk-Size: {size}, expected 1024 to {most}")
    return size


async def _stored(call: Call, info: ObjectInfo, status: int) -> Response:
    headers = {"ETag": f'"{info.revision}"'}
    if digest := repr_digest(info):
        headers["Repr-Digest"] = digest
    if status == 201:
        headers["Location"] = location_of("objects", info.bucket, info.name)
    info.mtime = await object_store.stored_at(call, info)
    return _json(info, status, headers)


async def read_object_info(call: Call) -> Response:
    """Read the information about an object; for a link, the information about the link itself."""
    info = await object_store.live(call, *_place(call))
    etag = f'"{info.revision}"'
    headers = {"ETag": etag} | _CACHED
    if "if-none-match" in call.headers and entity_tags.is_known(call, etag):
        return not_modified(headers)
    return _json(info, 200, headers)


async def patch_object(call: Call) -> Response:
    """Change the information about an object (JSON merge patch); a new `name` renames it."""
    bucket, name = _place(call)
    patch = json_object(await call.json_body())
    old = await object_store.live(call, bucket, name)
    object_store.check(call, old)
    wanted = _patched(old, patch)
    if wanted.name != name:
        object_store.checked_name(wanted.name)
    check_headers(_items(wanted.headers), call.gateway.settings)
    renames = wanted.name != name
    target = old
    if renames:
        js = call.gateway.js
        js.client.check(f"{js.prefix}.STREAM.PURGE.OBJ_{bucket}".encode())
        there = await object_store.find(call, bucket, wanted.name)
        if there is not None and not there.deleted:
            raise Problem(409, "object-exists", f"there is an object {wanted.name!r} already")

    def make(current: ObjectInfo | None) -> ObjectInfo:
        if renames:
            if current is not None and not current.deleted:
                raise Problem(409, "object-exists", f"there is an object {wanted.name!r} already")
            return _described(target, wanted)
        if current is None or current.deleted:
            raise object_store.no_object(bucket, name)
        return _described(current, _patched(current, patch))

    info, _ = await object_store.change(call, bucket, wanted.name, there if renames else old, make)
    if renames:
        subject = object_store.info_subject(bucket, name)
        await object_store.purge(call, bucket, subject, old.revision + 1)
    return await _stored(call, info, 200)


def _patched(info: ObjectInfo, patch: Mapping[str, Any]) -> ObjectPatch:
    current = ObjectPatch(info.name, info.description, info.headers, info.metadata)
    return patched(ObjectPatch, msgspec.to_builtins(current), patch)


def _described(info: ObjectInfo, wanted: ObjectPatch) -> ObjectInfo:
    return msgspec.structs.replace(
        info,
        name=wanted.name,
        description=wanted.description,
        headers=wanted.headers,
        metadata=wanted.metadata,
    )


async def delete_object(call: Call) -> Response:
    """Delete an object: remove its chunks, and mark its name as deleted."""
    bucket, name = _place(call)
    await call.no_body()
    old = await object_store.live(call, bucket, name)
    object_store.check(call, old)
    object_store.check_purge(call, bucket, old)

    def make(current: ObjectInfo | None) -> ObjectInfo:
        if current is None or current.deleted:
            raise object_store.no_object(bucket, name)
        return msgspec.structs.replace(current, size=0, chunks=0, digest="", deleted=True)

    info, replaced = await object_store.change(call, bucket, name, old, make)
    await object_store.drop_chunks(call, replaced)
    return no_content({"Js-Revision": str(info.revision)})


async def link_object(call: Call) -> Response:
    """Create a link to an object, or without `name` to a store; an existing link is replaced."""
    bucket, name = _place(call)
    object_store.checked_name(name)
    link = struct(Link, await call.json_body())
    bucket_name(link.bucket)
    if link.name:
        target = await object_store.live(call, link.bucket, link.name)
        if target.link is not None:
            raise Problem(409, "object-is-link", "a link cannot lead to a link")
    else:
        await existing(call, OBJECTS, link.bucket)
    old = await object_store.find(call, bucket, name)
    object_store.check(call, old)

    def make(current: ObjectInfo | None) -> ObjectInfo:
        if current is not None and not current.deleted and current.link is None:
            raise Problem(409, "object-exists", f"there is an object {name!r}, which is no link")
        return ObjectInfo(bucket, name, 0, nuid(), 0, 0, "", link=link)

    info, replaced = await object_store.change(call, bucket, name, old, make)
    is_new = replaced is None or replaced.deleted
    return await _stored(call, info, 201 if is_new else 200)


async def clean_object_store(call: Call) -> Response:
    """Remove the chunks of interrupted uploads, which belong to no object.

    The age of the last chunk distinguishes them from uploads in progress.
    """
    bucket = bucket_name(call.params["bucket"])
    request = struct(ObjectCleaning, await call.json_body())
    age = duration(request.older_than, "older_than")
    least = call.gateway.settings.object_clean_age_min
    if age < least * NANOS_PER_SECOND:
        raise bad_request("bad-duration", f"older_than: {request.older_than}, at least {least:g}s")
    purged = await cleanup.clean(call, bucket, age)
    return Response(msgspec.json.encode(Cleaned(purged)), media_type=JSON)


async def list_objects(call: Call) -> Response:
    """List the objects of a store; with `deleted` also the deleted ones."""
    bucket = bucket_name(call.params["bucket"])
    deleted = flag(call.query.get("deleted", "false"), "deleted")
    info = await existing(call, OBJECTS, bucket)
    wanted = object_store.information(bucket, DeliverPolicy.LAST_PER_SUBJECT)

    def show(msg: StoredMsg) -> ObjectInfo | None:
        shown = object_store.info_of(msg)
        return None if shown.deleted and not deleted else shown

    listing = await Listing.begin(call, wanted, "objects", info["state"]["last_seq"])
    listing.show = show
    return listing


async def watch_objects(call: Call) -> Response:
    """Follow the changes of objects, after the current ones, as lines or server-sent events."""
    bucket = bucket_name(call.params["bucket"])
    wanted = ObjectFeed(
        bucket=bucket,
        updates_only=flag(call.query.get("updates_only", "false"), "updates_only"),
        ignore_deletes=flag(call.query.get("ignore_deletes", "false"), "ignore_deletes"),
    )
    return await Feed.begin(call, await existing(call, OBJECTS, bucket), wanted)


def _place(call: Call) -> tuple[str, str]:
    return bucket_name(call.params["bucket"]), object_store.object_name(call)


def _json(value: object, status: int, headers: dict[str, str]) -> Response:
    body = msgspec.json.encode(value) + b"\n"
    return Response(body, status, headers=INERT | headers, media_type=JSON)
