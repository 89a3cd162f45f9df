"""HTTP handlers of consumers: management, fetching and acknowledging."""

from typing import Any

from starlette.responses import Response

from core.runtime.nuid import nuid
from gateway.consumers.acks import acknowledge, acknowledge_next
from gateway.consumers.fetch import fetch_response
from gateway.formats.models import (
    AckNextRequest,
    AckRequest,
    FetchRequest,
    NakRequest,
    TermRequest,
)
from gateway.formats.validation import (
    duration,
    header_text,
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
from gateway.streams.handlers import merged, named


async def list_consumers(call: Call) -> Response:
    """List the consumers of a stream with configuration and state, one page per request."""
    stream = name(call.params["stream"], "stream")
    offset = page_offset(call.query.get("offset", "0"))
    reply = await call.gateway.js.call(f"CONSUMER.LIST.{stream}", {"offset": offset})
    return json_response(reply)


async def create_consumer(call: Call) -> Response:
    """Create a consumer; without a name it gets a generated one and is ephemeral."""
    config = json_object(await call.json_body())
    wanted = config.get("durable_name") or config.get("name") or nuid(8)
    if not isinstance(wanted, str):
        raise bad_request("bad-name", "body: name is not text")
    return await _save(call, name(wanted, "consumer"), config, "create")


async def read_consumer(call: Call) -> Response:
    """Read the configuration and state of a consumer."""
    info = await call.gateway.js.call(f"CONSUMER.INFO.{_path(call)}")
    headers = entity_tags.tagged(info)
    if entity_tags.is_known(call, headers["ETag"]):
        return Response(None, 304, headers=headers)
    return json_response(info, headers=headers)


async def put_consumer(call: Call) -> Response:
    """Create a durable consumer (201) or replace the configuration of an existing one (200)."""
    config = json_object(await call.json_body())
    consumer = named(call, config, "name", "consumer")
    config.setdefault("durable_name", consumer)
    path = _path(call)
    async with entity_tags.lock_of(call, path):
        info = await entity_tags.read(call, f"CONSUMER.INFO.{path}")
        entity_tags.check(call, info)
        return await _save(call, consumer, config, "create" if info is None else "update")


async def patch_consumer(call: Call) -> Response:
    """Change members of a consumer's configuration (JSON merge patch, RFC 7396)."""
    patch = json_object(await call.json_body())
    consumer = named(call, patch, "name", "consumer")
    path = _path(call)
    async with entity_tags.lock_of(call, path):
        info = await call.gateway.js.call(f"CONSUMER.INFO.{path}")
        entity_tags.check(call, info)
        return await _save(call, consumer, merged(info["config"], patch), "update")


async def _save(call: Call, consumer: str, config: dict[str, Any], action: str) -> Response:
    stream = name(call.params["stream"], "stream")
    config.setdefault("name", consumer)
    request = {"stream_name": stream, "config": config, "action": action}
    subject = f"CONSUMER.CREATE.{stream}.{consumer}"
    reply = await call.gateway.js.call(subject, json_bytes(request))
    headers = entity_tags.tagged(reply)
    if action == "update":
        return json_response(reply, headers=headers)
    return created(reply, location_of("streams", stream, "consumers", consumer), headers)


async def delete_consumer(call: Call) -> Response:
    """Delete a consumer."""
    path = _path(call)
    await call.no_body()
    async with entity_tags.lock_of(call, path):
        if entity_tags.is_conditional(call):
            entity_tags.check(call, await call.gateway.js.call(f"CONSUMER.INFO.{path}"))
        await call.gateway.js.call(f"CONSUMER.DELETE.{path}")
    return no_content()


async def fetch(call: Call) -> Response:
    """Fetch messages from a consumer; wait for them if there are none.

    The response is JSON, or NDJSON lines as messages arrive, with blank lines as heartbeats. With
    `raw` it is one message in the form of a read by sequence. 204: no message arrived in time.
    """
    stream, consumer = _names(call)
    request = struct(FetchRequest, await call.json_body())
    return await fetch_response(call, stream, consumer, request)


async def ack(call: Call) -> Response:
    """Acknowledge deliveries of a consumer, by their tokens."""
    request = struct(AckRequest, await call.json_body())
    return await acknowledge(call, *_names(call), b"+ACK", request.tokens, request.sync)


async def nak(call: Call) -> Response:
    """Request redelivery of messages, at once or after a delay."""
    request = struct(NakRequest, await call.json_body())
    delay = duration(request.delay, "delay")
    verb = b'-NAK {"delay":%d}' % delay if delay else b"-NAK"
    return await acknowledge(call, *_names(call), verb, request.tokens, request.sync)


async def term(call: Call) -> Response:
    """Terminate deliveries: the consumer does not redeliver these messages."""
    request = struct(TermRequest, await call.json_body())
    reason = header_text(request.reason, "reason")
    verb = b"+TERM " + reason if reason else b"+TERM"
    return await acknowledge(call, *_names(call), verb, request.tokens, request.sync)


async def progress(call: Call) -> Response:
    """Report work in progress: the ack wait of these deliveries starts again."""
    request = struct(AckRequest, await call.json_body())
    return await acknowledge(call, *_names(call), b"+WPI", request.tokens, request.sync)


async def ack_next(call: Call) -> Response:
    """Acknowledge deliveries and fetch the next messages in one request."""
    stream, consumer = _names(call)
    request = struct(AckNextRequest, await call.json_body())
    return await acknowledge_next(call, stream, consumer, request)


def _names(call: Call) -> tuple[str, str]:
    return name(call.params["stream"], "stream"), name(call.params["consumer"], "consumer")


def _path(call: Call) -> str:
    return ".".join(_names(call))
