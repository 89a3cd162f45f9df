"""Entity tags of streams and consumers, and conditional requests with them (RFC 9110, 13).

A tag stands for configuration and creation time, not for the state, which changes with every
message. JetStream has no conditional updates: a NATS client may update the stream between the check
of the tag and the update. Updates over HTTP wait for each other.
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
"""Metadata that the server adds itself and that changes with its version."""
_NOT_FOUND = (err_code("JSConsumerNotFound"), err_code("JSStreamNotFound"))


def tag_of(info: dict[str, Any]) -> str:
    """Return the entity tag of the info of a stream or consumer."""
    config = dict(info["config"])
    config["metadata"] = {
        name: value
        for name, value in (config.get("metadata") or {}).items()
        if name not in SERVERS_OWN
    }
    seen = orjson.dumps([config, info["created"]], option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(seen).hexdigest()[:24]}"'


def tagged(info: dict[str, Any]) -> dict[str, str]:
    """Return the headers of a response with an info; caches must not store its state."""
    return {"ETag": tag_of(info), "Cache-Control": "no-store"}


def is_known(call: Call, tag: str) -> bool:
    """Return whether `If-None-Match` contains the tag, so that 304 suffices. Raises Problem."""
    asked = call.headers.get("if-none-match")
    return asked is not None and _names(asked, tag, "If-None-Match", weak=True)


def is_conditional(call: Call) -> bool:
    """Return whether the request has a condition."""
    return "if-match" in call.headers or "if-none-match" in call.headers


def check(call: Call, info: dict[str, Any] | None) -> None:
    """Raise Problem 412 unless the conditions of a change hold for the current info.

    `info` None: the stream or consumer does not exist.
    """
    if_match = call.headers.get("if-match")
    if_none_match = call.headers.get("if-none-match")
    tag = tag_of(info) if info is not None else ""
    if if_match is not None and not _names(if_match, tag, "If-Match", weak=False):
        raise _failed("If-Match", tag)
    if if_none_match is not None and _names(if_none_match, tag, "If-None-Match", weak=True):
        raise _failed("If-None-Match", tag)


async def read(call: Call, subject: str) -> dict[str, Any] | None:
    """Return the reply of an API subject; None if the stream or consumer does not exist."""
    try:
        return await call.gateway.js.call(subject)
    except ApiError as error:
        if error.err_code not in _NOT_FOUND:
            raise
        return None


def lock_of(call: Call, path: str) -> asyncio.Lock:
    """Return the lock to hold from reading a stream or consumer until it is changed."""
    locks = call.gateway.locks
    lock = locks.get(path)
    if lock is None:
        lock = locks[path] = asyncio.Lock()
    return lock


def _names(header: str, tag: str, name: str, *, weak: bool) -> bool:
    """Return whether a header contains a tag; `*` matches any. `weak`: weak tags match too."""
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
