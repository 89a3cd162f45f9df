"""HTTP handlers of streams: list, create, read, update, delete, purge."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from gateway.formats.models import PurgeRequest
from gateway.formats.raw_messages import INERT
from gateway.formats.validation import (
    filter_subject,
    flag,
    json_bytes,
    json_object,
    name,
    page_offset,
    struct,
)
from gateway.http.problems import bad_request
from gateway.http.responses import created, json_response, location_of, no_content
from gateway.requests import entity_tags
from gateway.requests.call import Call

T = TypeVar("T", bound=msgspec.Struct)


async def list_streams(call: Call) -> Response:
    """List streams with configuration and state, one page per request."""
    return await _page(call, "STREAM.LIST")


async def list_stream_names(call: Call) -> Response:
    """List the names of streams, one page per request."""
    return await _page(call, "STREAM.NAMES")


async def _page(call: Call, verb: str) -> Response:
    query = call.query
    body: dict[str, Any] = {"offset": page_offset(query.get("offset", "0"))}
    if "subject" in query:
        body["subject"] = filter_subject(query["subject"], call.gateway.settings)
    reply = await call.gateway.js.call(verb, body)
    reply["streams"] = reply.get("streams") or []
    return json_response(reply)


async def create_stream(call: Call) -> Response:
    """Create a stream; succeeds too if a stream with the same configuration exists."""
    config = json_object(await call.json_body())
    stream = config.get("name")
    if not isinstance(stream, str):
        raise bad_request("bad-name", "body: name is missing")
    name(stream, "stream")
    reply = await call.gateway.js.call(f"STREAM.CREATE.{stream}", json_bytes(config))
    reply.pop("did_create", None)
    return created(reply, location_of("streams", stream), entity_tags.tagged(reply))


async def read_stream(call: Call) -> Response:
    """Read the configuration and state of a stream."""
    query = call.query
    body: dict[str, Any] = {}
    if flag(query.get("deleted", "false"), "deleted"):
        body["deleted_details"] = True
    stream = name(call.params["stream"], "stream")
    reply = await call.gateway.js.call(f"STREAM.INFO.{stream}", body or None)
    for member in ("total", "offset", "limit"):
        reply.pop(member, None)
    headers = entity_tags.tagged(reply)
    if entity_tags.is_known(call, headers["ETag"]):
        return Response(None, 304, headers=headers)
    return json_response(reply, headers=headers)


async def list_subjects(call: Call) -> Response:
    """List the subjects of a stream with their numbers of messages, one page per request."""
    stream = name(call.params["stream"], "stream")
    offset = page_offset(call.query.get("offset", "0"))
    wanted = filter_subject(call.query.get("filter", ">"), call.gateway.settings)
    body = {"subjects_filter": wanted, "offset": offset}
    reply = await call.gateway.js.call(f"STREAM.INFO.{stream}", body)
    counts = reply["state"].get("subjects") or {}
    page = {
        "subjects": [{"subject": key, "messages": counts[key]} for key in sorted(counts)],
        "total": reply.get("total", len(counts)),
        "offset": reply.get("offset", offset),
        "limit": reply.get("limit", 0),
    }
    return json_response(page, headers={"Cache-Control": "no-store"} | INERT)


async def put_stream(call: Call) -> Response:
    """Create a stream (201) or replace the configuration of an existing one (200)."""
    config = json_object(await call.json_body())
    stream = named(call, config, "name", "stream")
    js = call.gateway.js
    async with entity_tags.lock_of(call, stream):
        info = await entity_tags.read(call, f"STREAM.INFO.{stream}")
        entity_tags.check(call, info)
        if info is not None:
            return _updated(await js.call(f"STREAM.UPDATE.{stream}", json_bytes(config)))
        reply = await js.call(f"STREAM.CREATE.{stream}", json_bytes(config))
    reply.pop("did_create", None)
    return created(reply, location_of("streams", stream), entity_tags.tagged(reply))


def _updated(reply: dict[str, Any]) -> Response:
    return json_response(reply, headers=entity_tags.tagged(reply))


async def patch_stream(call: Call) -> Response:
    """Change members of a stream's configuration (JSON merge patch, RFC 7396)."""
    patch = json_object(await call.json_body())
    stream = named(call, patch, "name", "stream")
    js = call.gateway.js
    async with entity_tags.lock_of(call, stream):
        info = await js.call(f"STREAM.INFO.{stream}")
        entity_tags.check(call, info)
        config = merged(info["config"], patch)
        return _updated(await js.call(f"STREAM.UPDATE.{stream}", json_bytes(config)))


async def delete_stream(call: Call) -> Response:
    """Delete a stream with its consumers and messages."""
    stream = name(call.params["stream"], "stream")
    await call.no_body()
    async with entity_tags.lock_of(call, stream):
        if entity_tags.is_conditional(call):
            entity_tags.check(call, await call.gateway.js.call(f"STREAM.INFO.{stream}"))
        await call.gateway.js.call(f"STREAM.DELETE.{stream}")
    return no_content()


async def purge_stream(call: Call) -> Response:
    """Remove messages of a stream: all, of a subject, below a sequence, or all but the newest."""
    stream = name(call.params["stream"], "stream")
    request = struct(PurgeRequest, await call.json_body())
    if request.seq and request.keep:
        raise bad_request("bad-parameter", "seq and keep exclude each other")
    if request.filter:
        filter_subject(request.filter, call.gateway.settings)
    body = msgspec.json.encode(request)
    reply = await call.gateway.js.call(f"STREAM.PURGE.{stream}", body if body != b"{}" else None)
    return json_response({"purged": reply.get("purged", 0)})


def named(call: Call, config: dict[str, Any], member: str, what: str) -> str:
    """Set the name from the request path in a configuration, and return the name.

    Raises Problem 400 if the configuration has a different name.
    """
    wanted = name(call.params[what], what)
    if config.setdefault(member, wanted) != wanted:
        raise bad_request("bad-name", f"body: {member} is not the {what} of the path")
    return wanted


def patched(cls: type[T], current: Mapping[str, Any], patch: Mapping[str, Any]) -> T:
    """Apply a JSON merge patch (RFC 7396) to `current`, and convert the result to a struct.

    Raises Problem 400 for an unknown member, even with the value null, or a value of the wrong
    type.
    """
    known = {field.encode_name for field in msgspec.structs.fields(cls)}
    for member in patch:
        if member not in known:
            raise bad_request("bad-json", f"body: Object contains unknown field `{member[:100]}`")
    return struct(cls, json_bytes(merged(current, patch)))


def merged(current: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396) to a value, and return the result.

    In `metadata`, members that the server sets itself are removed.
    """
    if not isinstance(patch, dict):
        return patch
    result: dict[str, Any] = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    if isinstance(metadata := result.get("metadata"), dict):
        result["metadata"] = {k: v for k, v in metadata.items() if k not in entity_tags.SERVERS_OWN}
    return result
