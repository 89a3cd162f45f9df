"""Entity tags (ETag) of streams and consumers, and conditional requests (RFC 9110, 13).

A tag is a hash of configuration and creation time. It does not cover the state, which changes with
each message. JetStream has no conditional updates: another NATS client may update the stream
between the check of the tag and the update. Updates over HTTP at this node run one after another.
"""

import asyncio
import hashlib
import re
from typing import Any

import orjson

from core.errors import ApiError
from core.model.api_errors import err_code
from gateway.http.problems import Problem, bad_request
from gateway.requests.call import Call

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
SERVERS_OWN = frozenset(("_nats.ver", "_nats.level", "_nats.req.level"))
"""Metadata keys that the server sets itself, and that change with its version."""
_NOT_FOUND = (err_code("JSConsumerNotFound"), err_code("JSStreamNotFound"))


def tag_of(info: dict[str, Any]) -> str:
    """Return the entity tag for the info of a stream or consumer (a response to INFO)."""
    config = dict(info["config"])
    config["metadata"] = {
        name: value
        for name, value in (config.get("metadata") or {}).items()
        if name not in SERVERS_OWN
    }
    seen = orjson.dumps([config, info["created"]], option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(seen).hexdigest()[:24]}"'


def tagged(info: dict[str, Any]) -> dict[str, str]:
    """Return ETag and `Cache-Control: no-store` for a response with the info of a stream or
    consumer.
    """
    return {"ETag": tag_of(info), "Cache-Control": "no-store"}


def is_known(call: Call, tag: str) -> bool:
    """Return True if `If-None-Match` contains the tag, so that the response may be a 304.

    Raises Problem 400 if the header is malformed.
    """
    asked = call.headers.get("if-none-match")
    return asked is not None and _names(asked, tag, "If-None-Match", weak=True)


def is_conditional(call: Call) -> bool:
    """Return True if the request has `If-Match` or `If-None-Match`."""
    return "if-match" in call.headers or "if-none-match" in call.headers


def check(call: Call, info: dict[str, Any] | None) -> None:
    """Check `If-Match` and `If-None-Match` of a change against the current info.

    `info` is None if the stream or consumer does not exist. Raises Problem 412 if a condition does
    not hold, 400 if a header is malformed.
    """
    if_match = call.headers.get("if-match")
    if_none_match = call.headers.get("if-none-match")
    tag = tag_of(info) if info is not None else ""
    if if_match is not None and not _names(if_match, tag, "If-Match", weak=False):
        raise _failed("If-Match", tag)
    if if_none_match is not None and _names(if_none_match, tag, "If-None-Match", weak=True):
        raise _failed("If-None-Match", tag)


async def read(call: Call, subject: str) -> dict[str, Any] | None:
    """Return the response to an INFO request; None if the stream or consumer does not exist.

    Raises ApiError for other errors of the server.
    """
    try:
        return await call.gateway.js.call(subject)
    except ApiError as error:
        if error.err_code not in _NOT_FOUND:
            raise
        return None


def lock_of(call: Call, path: str) -> asyncio.Lock:
    """Return the lock of a stream or consumer, to be held from reading its info to its change."""
    locks = call.gateway.locks
    lock = locks.get(path)
    if lock is None:
        lock = locks[path] = asyncio.Lock()
    return lock


def _names(header: str, tag: str, name: str, *, weak: bool) -> bool:
    """Return True if a header contains a tag, or is `*` and the tag is not empty.

    `weak`: a weak tag (`W/"..."`) matches too. Raises Problem 400 if the header is malformed.
    """
    if header.strip() == "*":
        return bool(tag)
    found = False
    position = 0
    while position < len(header):
        match = _TAG.match(header, position)
        if match is None:
            raise bad_request("bad-header", f'{name}: expected entity tags such as "1a2b", or *')
        found = found or (f'"{match[2]}"' == tag and (weak or not match[1]))
        position = match.end()
        if position < len(header) and header[position] != ",":
            raise bad_request("bad-header", f'{name}: expected entity tags such as "1a2b", or *')
        position += 1
    if not position:
        raise bad_request("bad-header", f"{name}: the value is empty")
    return found


def _failed(name: str, tag: str) -> Problem:
    detail = f"{name}: it is another now" if tag else f"{name}: there is none"
    return Problem(412, "precondition-failed", detail, headers={"ETag": tag} if tag else {})
