"""Objects of an object store (ADR-20) in its stream: their information and their chunks.

The information of an object is the last message of its subject; the sequence of that message is the
object's revision and entity tag. A change is stored only if the revision has not changed meanwhile,
so concurrent changes leave no chunks without an object.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from core.client import ClientError, NoResponders
from core.client.subscribe import SubscriptionTarget, target_of
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import DeliverPolicy
from core.model.gotime import format_time
from core.model.message import StoredMsg
from core.model.stream import StreamPurgeRequest
from gateway.buckets.lookup import no_bucket
from gateway.buckets.models import Link, ObjectInfo
from gateway.formats.message_headers import block
from gateway.http.problems import Problem, bad_request, problem_of, quoted
from gateway.messages.batch_lines import receipt_problem
from gateway.requests.call import Call

_ROLLUP = (b"Nats-Rollup", b"sub")
_EXPECTED = b"Nats-Expected-Last-Subject-Sequence"
_NO_MESSAGE = err_code("JSNoMessageFound")
_NO_STREAM = err_code("JSStreamNotFound")
_WRONG = (err_code("JSStreamWrongLastSequence"), err_code("JSStreamWrongLastSequenceConstant"))
_NAME_MAX = 600
_TRIES = 100  # each failure means that another client was faster
_LINKS_MAX = 4


class _Options(msgspec.Struct, omit_defaults=True):
    link: Link | None = None
    max_chunk_size: int = 0


class _Stored(msgspec.Struct, omit_defaults=True):
    """The JSON payload of an information message. Unknown members are dropped."""

    name: str
    bucket: str
    nuid: str
    size: int | None = 0
    chunks: int | None = 0
    description: str | None = None
    headers: dict[str, list[str]] | None = None
    metadata: dict[str, str] | None = None
    options: _Options | None = None
    digest: str | None = None
    deleted: bool | None = False


_decoder = msgspec.json.Decoder(_Stored)


def object_name(call: Call) -> str:
    """Return the name of an existing object in the request path.

    Raises Problem 400 if it is empty.
    """
    if not call.params["name"]:
        raise bad_request("bad-name", "object name: the name is empty")
    return call.params["name"]


def checked_name(name: str) -> str:
    """Check the name of a new object, and return it.

    Raises Problem 400 unless it has 1 to 600 bytes.
    """
    if not name or len(name.encode(errors="replace")) > _NAME_MAX:
        raise bad_request(
            "bad-name", f"object name: {quoted(name)} does not have 1 to {_NAME_MAX} bytes"
        )
    return name


def info_subject(bucket: str, name: str) -> str:
    """Return the subject of an object's information message."""
    return f"$O.{bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


def chunk_subject(bucket: str, nuid: str) -> str:
    """Return the subject of the chunks of an upload, by its id (nuid)."""
    return f"$O.{bucket}.C.{nuid}"


def information(bucket: str, begin: DeliverPolicy, **config: object) -> SubscriptionTarget:
    """Return the stream and subjects of a store's information messages, for a subscription.

    `begin` and `config` are settings of its consumer.
    """
    subjects = (f"$O.{bucket}.M.>",)
    return target_of(f"OBJ_{bucket}", subjects, deliver_policy=begin, **config)


def info_of(msg: StoredMsg) -> ObjectInfo:
    """Decode an information message. Raises Problem 502 if it is not valid by ADR-20."""
    try:
        stored = _decoder.decode(msg.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Problem(
            502,
            "bad-object-info",
            "the stored information of the object is not JSON as ADR-20 defines it",
        ) from None
    options = stored.options or _Options()
    return ObjectInfo(
        bucket=stored.bucket,
        name=stored.name,
        revision=msg.seq,
        nuid=stored.nuid,
        size=stored.size or 0,
        chunks=stored.chunks or 0,
        mtime=format_time(msg.time),
        digest=stored.digest or "",
        description=stored.description or "",
        headers=stored.headers or {},
        metadata=stored.metadata or {},
        max_chunk_size=options.max_chunk_size,
        link=options.link,
        deleted=stored.deleted or False,
    )


def _payload(info: ObjectInfo) -> bytes:
    # Members are written even if they are zero: other clients read them unconditionally.
    shown: dict[str, Any] = {"name": info.name, "bucket": info.bucket, "nuid": info.nuid}
    shown |= {"size": info.size, "chunks": info.chunks}
    for member in ("description", "headers", "metadata", "digest", "deleted"):
        if value := getattr(info, member):
            shown[member] = value
    shown["options"] = _Options(info.link, info.max_chunk_size)
    return msgspec.json.encode(shown)


async def find(call: Call, bucket: str, name: str) -> ObjectInfo | None:
    """Return the information of an object, which may be deleted; None if it never existed.

    Raises Problem 404 if the store does not exist.
    """
    try:
        found = await call.gateway.js.last(f"OBJ_{bucket}", info_subject(bucket, name))
    except ApiError as error:
        if error.err_code == _NO_STREAM:
            raise no_bucket(bucket) from None
        if error.err_code != _NO_MESSAGE:
            raise
        return None
    return info_of(found)


async def live(call: Call, bucket: str, name: str) -> ObjectInfo:
    """Return the information of an object. Raises Problem 404 if it is missing or deleted."""
    info = await find(call, bucket, name)
    if info is None or info.deleted:
        raise no_object(bucket, name)
    return info


async def resolved(call: Call, bucket: str, name: str) -> ObjectInfo:
    """Return the information of an object; if it is a link, of the object that it leads to.

    Raises Problem 404 if one of them is missing, 409 for a link to a store or more than 4 links.
    """
    for _ in range(_LINKS_MAX):
        info = await live(call, bucket, name)
        if info.link is None:
            return info
        if not info.link.name:
            detail = f"object {name!r} is a link to store {info.link.bucket!r}"
            raise Problem(409, "object-is-link", detail, link={"bucket": info.link.bucket})
        bucket, name = info.link.bucket, info.link.name
    raise Problem(409, "too-many-links", f"more than {_LINKS_MAX} links lead on from each other")


def no_object(bucket: str, name: str) -> Problem:
    """Return the Problem 404 for an object that does not exist."""
    return Problem(404, "object-not-found", f"no object {name!r} in store {bucket!r}")


def check(call: Call, info: ObjectInfo | None) -> None:
    """Check `If-Match` and `If-None-Match` of a change against the current information.

    Raises Problem 412 if a condition does not hold, 400 for an unsupported value.
    """
    if_match, if_none_match = call.headers.get("if-match"), call.headers.get("if-none-match")
    tag = f'"{info.revision}"' if info is not None and not info.deleted else ""
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise bad_request("bad-header", 'If-None-Match: only "*" means something here')
        if tag:
            raise _failed("there is one already", info)
    if if_match is not None:
        tags = [text.strip() for text in if_match.split(",")]
        if not tag or (tags != ["*"] and tag not in tags):
            raise _failed("it is another now" if tag else "there is none", info)


def _failed(detail: str, info: ObjectInfo | None) -> Problem:
    if info is None:
        return Problem(412, "precondition-failed", detail)
    headers = {} if info.deleted else {"ETag": f'"{info.revision}"'}
    return Problem(
        412, "precondition-failed", detail, headers=headers, current_sequence=info.revision
    )


async def change(
    call: Call,
    bucket: str,
    name: str,
    old: ObjectInfo | None,
    make: Callable[[ObjectInfo | None], ObjectInfo],
) -> tuple[ObjectInfo, ObjectInfo | None]:
    """Store new information for an object. Returns (new, replaced).

    `make` computes the new information from the old one. If another client changes the object
    first, the conditions of the request are checked again, and `make` runs again. Raises Problem if
    a condition fails, or after 100 attempts.
    """
    for _ in range(_TRIES):
        info = make(old)
        try:
            await _store(call, info, old.revision if old is not None else 0)
        except ApiError as error:
            if error.err_code not in _WRONG:
                raise
            refused = error
            old = await find(call, bucket, name)
            check(call, old)
            continue
        return info, old
    raise problem_of(refused)


async def _store(call: Call, info: ObjectInfo, expected: int) -> None:
    """Store information, and set its revision.

    Raises Problem 413 if it is too large, ApiError if the object was changed, ClientError if the
    server does not respond.
    """
    headers = block([_ROLLUP, (_EXPECTED, b"%d" % expected)])
    subject = info_subject(info.bucket, info.name).encode()
    payload = _payload(info)
    limit = call.gateway.client.info.max_payload
    if len(payload) + len(headers) > limit:
        raise Problem(413, "body-too-large", f"information: larger than {limit} bytes")
    try:
        ack = await call.gateway.publisher.publish(subject, payload, headers)
    except NoResponders:
        raise no_bucket(info.bucket) from None
    except ValueError:
        raise receipt_problem(b"", 0) from None
    info.revision = ack.seq


async def stored_at(call: Call, info: ObjectInfo) -> str:
    """Return the time of an object's information message (RFC 3339), as a later read returns it.

    The receipt of a publish has no time, so the message is read. If it was replaced or cannot be
    read, the result is the current time.
    """
    subject = info_subject(info.bucket, info.name)
    with suppress(ApiError, ClientError):
        found = await call.gateway.js.last(f"OBJ_{info.bucket}", subject)
        if found.seq == info.revision:
            return format_time(found.time)
    return format_time(call.gateway.clock.now())


def check_purge(call: Call, bucket: str, info: ObjectInfo | None) -> None:
    """Raise NotPermitted if the caller may not remove the chunks of an object.

    Call it before a new version is stored.
    """
    if has_chunks(info):
        js = call.gateway.js
        js.client.check(f"{js.prefix}.STREAM.PURGE.OBJ_{bucket}".encode())


def has_chunks(info: ObjectInfo | None) -> bool:
    """Return True if an object has chunks: it is not deleted, not empty and not a link."""
    return info is not None and not info.deleted and info.link is None and info.chunks > 0


async def drop_chunks(call: Call, info: ObjectInfo | None) -> None:
    """Remove the chunks of an object that was replaced or deleted."""
    if info is not None and has_chunks(info):
        await purge(call, info.bucket, chunk_subject(info.bucket, info.nuid))


async def purge(call: Call, bucket: str, subject: str, below: int = 0) -> int:
    """Remove the messages of a subject, and return their number.

    `below`: only messages with a lower sequence; 0: all. Raises Problem if the server refuses.
    """
    request = StreamPurgeRequest(filter=subject, seq=below)
    try:
        return await call.gateway.js.purge_stream(f"OBJ_{bucket}", request)
    except (ApiError, ClientError) as error:
        raise problem_of(error) from None
