"""HTTP handlers of key-value buckets and object stores: create, change, list, delete.

Both are streams with a naming convention. Their conditional requests are those of streams
(`gateway.requests.entity_tags`).
"""

from typing import Any

import msgspec
from starlette.responses import Response

from gateway.buckets.lookup import existing
from gateway.buckets.stream_configs import (
    KV,
    OBJECTS,
    Config,
    Kind,
    bucket_name,
    is_bucket_name,
    updated,
)
from gateway.formats.validation import json_bytes, json_object, page_offset, struct
from gateway.http.problems import bad_request
from gateway.http.responses import JSON, location_of, no_content
from gateway.requests import entity_tags
from gateway.requests.call import Call
from gateway.streams.handlers import patched


async def list_kv_buckets(call: Call) -> Response:
    """List key-value buckets with configuration and state, one page per request."""
    return await _list(call, KV)


async def create_kv_bucket(call: Call) -> Response:
    """Create a key-value bucket; succeeds too if one with the same configuration exists."""
    return await _create(call, KV)


async def read_kv_bucket(call: Call) -> Response:
    """Read the configuration and state of a key-value bucket."""
    return await _read(call, KV)


async def put_kv_bucket(call: Call) -> Response:
    """Create a key-value bucket (201) or replace the configuration of an existing one (200)."""
    return await _put(call, KV)


async def patch_kv_bucket(call: Call) -> Response:
    """Change members of a key-value bucket's configuration (JSON merge patch)."""
    return await _patch(call, KV)


async def delete_kv_bucket(call: Call) -> Response:
    """Delete a key-value bucket with all keys."""
    return await _delete(call, KV)


async def list_object_stores(call: Call) -> Response:
    """List object stores with configuration and state, one page per request."""
    return await _list(call, OBJECTS)


async def create_object_store(call: Call) -> Response:
    """Create an object store; succeeds too if one with the same configuration exists."""
    return await _create(call, OBJECTS)


async def read_object_store(call: Call) -> Response:
    """Read the configuration and state of an object store."""
    return await _read(call, OBJECTS)


async def put_object_store(call: Call) -> Response:
    """Create an object store (201) or replace the configuration of an existing one (200)."""
    return await _put(call, OBJECTS)


async def patch_object_store(call: Call) -> Response:
    """Change members of an object store's configuration (JSON merge patch)."""
    return await _patch(call, OBJECTS)


async def delete_object_store(call: Call) -> Response:
    """Delete an object store with all objects."""
    return await _delete(call, OBJECTS)


async def seal_object_store(call: Call) -> Response:
    """Seal an object store: it permanently refuses all changes."""
    await call.no_body()
    stream = _stream(call, OBJECTS)
    async with entity_tags.lock_of(call, stream):
        info = await existing(call, OBJECTS, bucket_name(call.params["bucket"]))
        config = info["config"] | {"sealed": True}
        reply = await call.gateway.js.call(f"STREAM.UPDATE.{stream}", json_bytes(config))
    return _shown(OBJECTS, reply)


def _stream(call: Call, kind: Kind) -> str:
    return kind.prefix + bucket_name(call.params["bucket"])


async def _list(call: Call, kind: Kind) -> Response:
    offset = page_offset(call.query.get("offset", "0"))
    reply = await call.gateway.js.call("STREAM.LIST", {"offset": offset, "subject": kind.filter})
    found = [info for info in reply.get("streams") or [] if _is_bucket(kind, info)]
    page = {name: reply.get(name, 0) for name in ("total", "offset", "limit")}
    return _json({"buckets": [kind.shown(info) for info in found], **page})


def _is_bucket(kind: Kind, info: dict[str, Any]) -> bool:
    """Return True if the name of a stream is that of a bucket of this kind."""
    name = str(info["config"]["name"])
    return name.startswith(kind.prefix) and is_bucket_name(name.removeprefix(kind.prefix))


async def _create(call: Call, kind: Kind) -> Response:
    config = struct(kind.config, await call.json_body())
    if not config.bucket:
        raise bad_request("bad-name", "body: bucket is missing")
    return await _created(call, kind, kind.stream(config))


async def _created(call: Call, kind: Kind, stream: dict[str, Any]) -> Response:
    js = call.gateway.js
    reply = await js.call(f"STREAM.CREATE.{stream['name']}", json_bytes(stream))
    bucket = str(stream["name"]).removeprefix(kind.prefix)
    headers = entity_tags.tagged(reply) | {"Location": location_of(kind.route, bucket)}
    return _json(kind.shown(reply), 201, headers)


async def _read(call: Call, kind: Kind) -> Response:
    info = await existing(call, kind, bucket_name(call.params["bucket"]))
    headers = entity_tags.tagged(info)
    if entity_tags.is_known(call, headers["ETag"]):
        return Response(None, 304, headers=headers)
    return _json(kind.shown(info), 200, headers)


async def _put(call: Call, kind: Kind) -> Response:
    config = struct(kind.config, await call.json_body())
    wanted = kind.stream(_named(call, config))
    stream = wanted["name"]
    async with entity_tags.lock_of(call, stream):
        info = await entity_tags.read(call, f"STREAM.INFO.{stream}")
        entity_tags.check(call, info)
        if info is None:
            return await _created(call, kind, wanted)
        return await _update(call, kind, info, wanted)


async def _patch(call: Call, kind: Kind) -> Response:
    patch = json_object(await call.json_body())
    bucket = bucket_name(call.params["bucket"])
    stream = _stream(call, kind)
    async with entity_tags.lock_of(call, stream):
        info = await existing(call, kind, bucket)
        entity_tags.check(call, info)
        current = msgspec.to_builtins(kind.shown(info).config)
        config = patched(kind.config, current, patch)
        return await _update(call, kind, info, kind.stream(_named(call, config)))


def _named(call: Call, config: Config) -> Config:
    bucket = bucket_name(call.params["bucket"])
    if config.bucket not in ("", bucket):
        raise bad_request("bad-name", "body: bucket is not that of the path")
    config.bucket = bucket
    return config


async def _update(call: Call, kind: Kind, info: dict[str, Any], wanted: dict[str, Any]) -> Response:
    config = json_bytes(updated(info["config"], wanted))
    return _shown(kind, await call.gateway.js.call(f"STREAM.UPDATE.{wanted['name']}", config))


def _shown(kind: Kind, info: dict[str, Any]) -> Response:
    return _json(kind.shown(info), 200, entity_tags.tagged(info))


async def _delete(call: Call, kind: Kind) -> Response:
    stream = _stream(call, kind)
    await call.no_body()
    async with entity_tags.lock_of(call, stream):
        info = await existing(call, kind, bucket_name(call.params["bucket"]))
        entity_tags.check(call, info)
        await call.gateway.js.call(f"STREAM.DELETE.{stream}")
    return no_content()


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value) + b"\n"
    return Response(body, status, headers=headers, media_type=JSON)
