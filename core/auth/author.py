"""The permissions that the headers of a published message require, beyond that for its subject.

Some headers make a stream act on other subjects (ADR-51, ADR-4), and nats-server checks no
permission for them. Here they are checked on the connection types of `Hub.author_connection_types`:
the publishing user needs the permission to do the same directly.

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
"""Matches header blocks with a header that may require further permissions."""
_PURGE = b"$JS.API.STREAM.PURGE."


class StreamScope(NamedTuple):
    """The subjects whose messages a stream stores.

    Attributes:
        name: Name of the stream.
        subjects: Its subject filters.
        copies: True if it also stores messages of other streams, as a mirror or with sources.
    """

    name: str
    subjects: tuple[bytes, ...]
    copies: bool


class MissingPermission(NamedTuple):
    """A permission that a user lacks, for `subject`.

    To subscribe to it if `reads` is True, else to publish to it.
    """

    subject: bytes
    reads: bool = False


def lacking(
    grant: Grant, subject: bytes, headers: bytes, scopes: Iterable[StreamScope]
) -> MissingPermission | None:
    """Return the first permission that the headers of a message require and its publisher lacks.

    None if no permission is missing.

    Args:
        grant: The permissions of the publishing user.
        subject: The subject of the message, to which the user may publish.
        headers: The header block of the message.
        scopes: The streams that capture the subject; iterated only for `Nats-Rollup: all`.
    """
    if find(headers, b"Nats-Schedule"):
        target = find(headers, b"Nats-Schedule-Target")
        source = find(headers, b"Nats-Schedule-Source")
        if target and not grant.may_publish(target):
            return MissingPermission(target)
        if source and not grant.may_read(source):
            return MissingPermission(source, reads=True)
    if find(headers, b"Nats-Schedule-Next"):
        scheduler = find(headers, b"Nats-Scheduler")
        if scheduler and not grant.may_publish(scheduler):
            return MissingPermission(scheduler)
    other = find(headers, b"Nats-Expected-Last-Subject-Sequence-Subject")
    if other and other != subject and not (grant.may_publish_all(other) or grant.may_read(other)):
        return MissingPermission(other, reads=True)
    if (find(headers, b"Nats-Rollup") or b"").lower() == b"all":
        for scope in scopes:
            if not _may_empty(grant, scope):
                return MissingPermission(_PURGE + scope.name.encode())
    return None


def _may_empty(grant: Grant, scope: StreamScope) -> bool:
    if grant.may_publish(_PURGE + scope.name.encode()):
        return True
    return not scope.copies and all(map(grant.may_publish_all, scope.subjects))
