"""Entity tags of streams and consumers, and the conditions that name them (RFC 9110, 13).

A tag stands for the configuration and the time of creation, not for the state, which changes with
every message. JetStream itself has no conditional updates: between the check of the tag and the
update, a NATS client may update the same stream. Updates over HTTP wait for each other.
"""

import asyncio
import hashlib
import re
from typing import Any

import orjson

from core.errors import ApiError
from core.model.api_errors import err_code
from gateway.call import Call
from gateway.problems import Problem, bad_request

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
SERVERS_OWN = frozenset(("_nats.ver", "_nats.level", "_nats.req.level"))
"""Metadata that the server adds by itself, and changes with its version."""
_NOT_FOUND = (err_code("JSConsumerNotFound"), err_code("JSStreamNotFound"))


def tag_of(info: dict[str, Any]) -> str:
    """The entity tag of a stream's or consumer's info."""
    config = dict(info["config"])
    config["metadata"] = {
        name: value
        for name, value in (config.get("metadata") or {}).items()
        if name not in SERVERS_OWN
    }
    seen = orjson.dumps([config, info["created"]], option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(seen).hexdigest()[:24]}"'


def tagged(info: dict[str, Any]) -> dict[str, str]:
    """The headers of an answer that shows an info: its state is not for caches to keep."""
    return {"ETag": tag_of(info), "Cache-Control": "no-store"}


def is_known(call: Call, tag: str) -> bool:
    """Whether `If-None-Match` names the tag: the caller has what it asks for. Raises Problem."""
    asked = call.headers.get("if-none-match")
    return asked is not None and _names(asked, tag, "If-None-Match", weak=True)


def is_conditional(call: Call) -> bool:
    """Whether a change is to be made only under a condition."""
    return "if-match" in call.headers or "if-none-match" in call.headers


def check(call: Call, info: dict[str, Any] | None) -> None:
    """Raise Problem 412 unless the conditions of a change hold for what is there now."""
    if_match = call.headers.get("if-match")
    if_none_match = call.headers.get("if-none-match")
    tag = tag_of(info) if info is not None else ""
    if if_match is not None and not _names(if_match, tag, "If-Match", weak=False):
        raise _failed("If-Match", tag)
    if if_none_match is not None and _names(if_none_match, tag, "If-None-Match", weak=True):
        raise _failed("If-None-Match", tag)


async def read(call: Call, subject: str) -> dict[str, Any] | None:
    """The info that an API subject answers with; None when there is no such thing."""
    try:
        return await call.gateway.js.call(subject)
    except ApiError as error:
        if error.err_code not in _NOT_FOUND:
            raise
        return None


def lock_of(call: Call, path: str) -> asyncio.Lock:
    """What to hold from the look at a stream or consumer until it is changed."""
    locks = call.gateway.locks
    lock = locks.get(path)
    if lock is None:
        lock = locks[path] = asyncio.Lock()
    return lock


def _names(header: str, tag: str, name: str, *, weak: bool) -> bool:
    """Whether a header names a tag; `*` names any. Weak tags count where `weak` says so."""
    if header.strip() == "*":
        return bool(tag)
    found = False
    position = 0
    while position < len(header):
        match = _TAG.match(header, position)
        if match is None:
            raise bad_request("bad-header", f'{name}: entity tags such as "1a2b", or *')
        found = found or (f'"{match[2]}"' == tag and (weak or not match[1]))
        position = match.end()
        if position < len(header) and header[position] != ",":
            raise bad_request("bad-header", f'{name}: entity tags such as "1a2b", or *')
        position += 1
    if not position:
        raise bad_request("bad-header", f"{name}: empty")
    return found


def _failed(name: str, tag: str) -> Problem:
    detail = f"{name}: it is another now" if tag else f"{name}: there is none"
    return Problem(412, "precondition-failed", detail, headers={"ETag": tag} if tag else {})
