"""What the headers of a message ask for beyond its own subject, and whether its author may have it.

Permissions speak of the subject that a message is published to. Some headers have a stream do more
with it, on other subjects (ADR-51, ADR-4); the reference server asks nobody then. Where authors are
asked (`Hub.author_doors`), each needs the permission that he would need to do the same himself:

| header | permission |
|---|---|
| `Nats-Schedule-Target` of a schedule | to publish to the target |
| `Nats-Schedule-Source` of a schedule | to subscribe to the source |
| `Nats-Scheduler` with `Nats-Schedule-Next: purge` | to publish to the subject of the schedule |
| `Nats-Rollup: all` | to purge the stream, or to publish to all of its subjects |
| `Nats-Expected-Last-Subject-Sequence-Subject` | to publish or to subscribe to that subject |
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from core.auth.grant import Grant
from core.protocol.headers import find

ASKED = re.compile(
    rb"\r\nNats-(?:Schedule|Rollup:|Batch-Id:|Expected-Last-Subject-Sequence-Subject:)"
)
"""What a header block has that says more than where its message is to be stored."""
_PURGE = b"$JS.API.STREAM.PURGE."


class StreamScope(NamedTuple):
    """What a stream stores: what its filters match; `copies`: from other streams, too."""

    name: str
    subjects: tuple[bytes, ...]
    copies: bool


class Lacking(NamedTuple):
    """A permission that an author lacks: to publish to a subject, or to read it."""

    subject: bytes
    reads: bool = False


def lacking(
    grant: Grant, subject: bytes, headers: bytes, scopes: Iterable[StreamScope]
) -> Lacking | None:
    """Return a permission that the author of a message lacks, if he lacks any.

    Args:
        grant: What the author may do.
        subject: Where the message is published, which he may do.
        headers: Its header block.
        scopes: The streams that listen there; iterated only where it matters.
    """
    if find(headers, b"Nats-Schedule"):
        target = find(headers, b"Nats-Schedule-Target")
        source = find(headers, b"Nats-Schedule-Source")
        if target and not grant.may_publish(target):
            return Lacking(target)
        if source and not grant.may_read(source):
            return Lacking(source, reads=True)
    if find(headers, b"Nats-Schedule-Next"):
        scheduler = find(headers, b"Nats-Scheduler")
        if scheduler and not grant.may_publish(scheduler):
            return Lacking(scheduler)
    other = find(headers, b"Nats-Expected-Last-Subject-Sequence-Subject")
    if other and other != subject and not (grant.may_publish_all(other) or grant.may_read(other)):
        return Lacking(other, reads=True)
    if (find(headers, b"Nats-Rollup") or b"").lower() == b"all":
        for scope in scopes:
            if not _may_empty(grant, scope):
                return Lacking(_PURGE + scope.name.encode())
    return None


def _may_empty(grant: Grant, scope: StreamScope) -> bool:
    if grant.may_publish(_PURGE + scope.name.encode()):
        return True
    return not scope.copies and all(map(grant.may_publish_all, scope.subjects))
