"""Permission checks of clients that follow a stream, and the NATS connection that reads for them.

Reading a stream needs JetStream API permissions that allow much more than reading. So the server
checks if the user may subscribe to the subjects (`gateway.auth.rights`), and the server's own
connection reads. If the permissions are unknown because the NATS server is remote, the user's own
connection reads, with the API permissions of that user.
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.client import JetStream, NotPermitted
from core.errors import ApiError
from core.model.api_errors import api_error, err_code
from core.model.subjects import collide
from gateway.auth.caller import Caller
from gateway.auth.rights import MayRead, Rights
from gateway.formats.validation import followed
from gateway.http.problems import Problem
from gateway.readers.entries import Filters
from gateway.readers.reader import StreamReader
from gateway.readers.shared import Feeds

_EVERYTHING = ">"
_NOT_FOUND = err_code("JSStreamNotFound")


@dataclass(frozen=True, slots=True)
class Tail:
    """The stream and subjects that a client may follow, and the connection that reads them.

    Attributes:
        stream: The name of the stream.
        filters: Subjects to read; empty: all subjects.
        feeds: The readers over the NATS connection that is used.
        may_read: Returns True if a message with this subject may be shown; None: all may be shown.
    """

    stream: str
    filters: Filters
    feeds: Feeds
    may_read: MayRead | None = None

    def reader(self, wake: Callable[[], None]) -> StreamReader:
        """Create a reader of the stream; the caller must open it. `wake`: see `StreamReader`."""
        return StreamReader(self.feeds.tails, self.stream, self.filters, wake, self.may_read)


async def tail_of(caller: Caller, subject: str = "", stream: str = "") -> Tail:
    """Find the stream to follow, by a subject, its name, or both, and check the caller's
    permissions.

    Without permission the error is the same whether the stream exists or not.

    Raises:
        NotPermitted: The caller may not subscribe to the subjects to read.
        Problem: 404 if no stream, or more than one, has the subject; 400 for an invalid filter.
        ApiError: The stream does not exist, or has no subject that the caller may read.
        ClientError: The server did not respond.
    """
    gateway, rights = caller.gateway, caller.rights
    filters: Filters = (subject,) if subject else ()
    followed(filters, "bad-subject")
    if rights is None or gateway.server is None:
        return Tail(stream or await _stream_of(gateway.feeds.js, subject), filters, gateway.feeds)
    feeds = gateway.server
    if subject:
        _check(rights, subject)
    if stream:
        filters = await _filters_of(feeds.js, rights, stream, filters)
    else:
        stream = await _stream_of(feeds.js, subject)
    judges = (rights.reader(each.encode()) for each in filters or (_EVERYTHING,))
    return Tail(stream, filters, feeds, next(filter(None, judges), None))


async def _stream_of(js: JetStream, subject: str) -> str:
    found = await js.stream_names(subject)
    if len(found) != 1:
        detail = "no stream has" if not found else "more than one stream has"
        raise Problem(404, "no-stream", f"{detail} messages of {subject}")
    return found[0]


async def _filters_of(js: JetStream, rights: Rights, stream: str, filters: Filters) -> Filters:
    """Return the subjects that a caller may read of a named stream.

    These are the requested filters, else the stream's configured subjects. A stream may contain
    messages of formerly configured subjects, and mirrors and sources those of other streams. Only
    callers with permission to subscribe to `>` read these. If the caller may read no subject of the
    stream, raises the error of a missing stream.
    """
    sees_all = rights.may_read(_EVERYTHING.encode())
    if sees_all and rights.reader(_EVERYTHING.encode()) is None:
        return filters
    try:
        subjects = (await js.stream_info(stream)).config.subjects
    except ApiError as error:
        if error.err_code != _NOT_FOUND or sees_all or filters:
            raise
        subjects = ()
    if not (sees_all or filters):
        # One refusal for the whole stream, which reveals none of its subjects.
        for subject in subjects or (_EVERYTHING,):
            _check(rights, subject, _EVERYTHING)
        return subjects
    if filters:
        has_some = any(collide(filters[0], subject) for subject in subjects)
    else:
        has_some = any(rights.may_read(subject.encode()) for subject in subjects)
    if not has_some and (subjects or not sees_all):
        raise api_error("JSStreamNotFound")
    return filters


def _check(rights: Rights, subject: str, name: str = "") -> None:
    """Raise NotPermitted unless the caller may subscribe to a subject; `name` replaces it in the
    error.
    """
    if not rights.may_read(subject.encode()):
        raise NotPermitted((name or subject).encode(), "subscribing")
