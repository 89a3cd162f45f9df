"""Which stream a reader reads, looked up by the server for whoever may subscribe to its subjects.

Following a stream takes requests to the JetStream API, which would let a user do much more than
read what he may subscribe to. So the core is asked what he may subscribe (`gateway.signin.rights`),
and then the server's own connection looks and reads for him. Where the core cannot be asked, over
another server, his own connection does, with the permissions that this takes there.
"""

from dataclasses import dataclass
from typing import Any

from core.client import Client, JetStream
from core.errors import ApiError
from core.model.api_errors import err_code
from gateway.call import Caller
from gateway.problems import Problem
from gateway.signin.rights import MayRead, Rights

_EVERYTHING = ">"
_NOT_FOUND = err_code("JSStreamNotFound")


@dataclass(frozen=True, slots=True)
class Tail:
    """What a permitted reader reads.

    Attributes:
        stream: the name of the stream.
        filters: the subjects to read of it; `>`: all of them.
        client: the connection that reads them for the caller.
        js: JetStream over it.
        may_read: judges each message; None: all of them may be shown.
    """

    stream: str
    filters: tuple[str, ...]
    client: Client
    js: JetStream
    may_read: MayRead | None


async def tail_of(caller: Caller, subject: str = "", stream: str = "") -> Tail:
    """Find what a caller wants to follow: a stream by a subject, or a named one, or both.

    Who may not subscribe to it is told just that, whether it is there or not.

    Raises:
        Problem: 403 the caller may not subscribe to what he would read; 404 no stream, or several,
            have the subject.
        ApiError: there is no such stream.
        ClientError: the server did not answer.
    """
    gateway, rights = caller.gateway, caller.rights
    client = gateway.client
    if rights is not None and gateway.server is not None:
        client = gateway.server
    js = JetStream(client, timeout=gateway.settings.api_timeout)
    subjects = (subject,) if subject else await _subjects_of(js, rights, stream)
    may_read = _reader(rights, subjects)
    name = stream or await _stream_of(js, subject)
    return Tail(name, subjects, client, js, may_read)


async def _stream_of(js: JetStream, subject: str) -> str:
    found: list[str] = (await js.call("STREAM.NAMES", {"subject": subject}))["streams"] or []
    if len(found) != 1:
        detail = "no stream has" if not found else "more than one stream has"
        raise Problem(404, "no-stream", f"{detail} messages of {subject}")
    return found[0]


async def _subjects_of(js: JetStream, rights: Rights | None, stream: str) -> tuple[str, ...]:
    """What to read of a whole stream: everything, or what its configuration names.

    A stream may still have messages of subjects that it had once, and mirrors and sources bring
    some that it does not name: those are for who may subscribe to everything.
    """
    if rights is None or rights.may_subscribe(_EVERYTHING.encode()):
        return (_EVERYTHING,)
    try:
        config: dict[str, Any] = (await js.call(f"STREAM.INFO.{stream}"))["config"]
    except ApiError as error:
        if error.err_code != _NOT_FOUND:
            raise
        config = {}
    return tuple(config.get("subjects") or (_EVERYTHING,))


def _reader(rights: Rights | None, subjects: tuple[str, ...]) -> MayRead | None:
    if rights is None:
        return None
    for subject in subjects:
        if not rights.may_subscribe(subject.encode()):
            raise Problem(403, "not-permitted", "not permitted: subscribing to what is read here")
    judges = (rights.reader(subject.encode()) for subject in subjects)
    return next((judge for judge in judges if judge is not None), None)
