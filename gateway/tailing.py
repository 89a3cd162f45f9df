"""Which stream a reader reads, and whose connection reads it: the rule of tails and ordered feeds.

Following a stream takes requests to the JetStream API, which would let a user do much more than
read what he may subscribe to. So the core is asked what he may subscribe (`gateway.signin.rights`),
and then the server's own connection looks and reads for him. Where the core cannot be asked, over
another server, his own connection does, with the permissions that this takes there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.client import JetStream, NotPermitted
from core.errors import ApiError
from core.model.api_errors import api_error, err_code
from core.model.subjects import collide
from gateway.call import Caller
from gateway.feeds.entries import Filters
from gateway.feeds.feeds import Feeds
from gateway.feeds.reader import StreamReader
from gateway.problems import Problem
from gateway.signin.rights import MayRead, Rights
from gateway.validation import followed

_EVERYTHING = ">"
_NOT_FOUND = err_code("JSStreamNotFound")


@dataclass(frozen=True, slots=True)
class Tail:
    """What a permitted reader reads.

    Attributes:
        stream: the name of the stream.
        filters: the subjects to read of it; none: all of them.
        feeds: those of the connection that reads them for the caller.
        may_read: judges each message; None: all of them may be shown.
    """

    stream: str
    filters: Filters
    feeds: Feeds
    may_read: MayRead | None = None

    def reader(self, wake: Callable[[], None]) -> StreamReader:
        """Return what reads it, to be opened."""
        return StreamReader(self.feeds.tails, self.stream, self.filters, wake, self.may_read)


async def tail_of(caller: Caller, subject: str = "", stream: str = "") -> Tail:
    """Find what a caller wants to follow: a stream by a subject, or a named one, or both.

    Who may not subscribe to it is told just that, whether it is there or not.

    Raises:
        NotPermitted: the caller may not subscribe to what he would read.
        Problem: 404 no stream, or several, have the subject.
        ApiError: there is no such stream, or nothing in it for him.
        ClientError: the server did not answer.
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
    """What to read of a stream that is named: what is wanted, or what its configuration names.

    A stream may still have messages of subjects that it had once, and mirrors and sources bring
    some that it does not name: those are for who may subscribe to everything. For who may read
    nothing of it, it is not there.
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
        # Refused as a whole, which names none of its subjects.
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
    """Raise NotPermitted, about `name`, to who may not read all of a subject."""
    if not rights.may_read(subject.encode()):
        raise NotPermitted((name or subject).encode(), "subscribing")
