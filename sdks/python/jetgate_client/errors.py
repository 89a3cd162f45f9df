"""Every exception of the SDK.

JetgateError
├── Problem                 an answer of application/problem+json (RFC 9457)
│   ├── BadRequest          400
│   ├── Unauthorized        401
│   ├── Forbidden           403
│   ├── NotFound            404
│   ├── Conflict            409
│   ├── PreconditionFailed  412
│   ├── TooManyRequests     429
│   └── ServerProblem       500 to 599
├── ConnectionLost          no answer, or the end of it is missing
└── OutcomeUnknown          repeated for as long as allowed, and nobody said what became of it
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx

_PREFIX = "urn:jetgate:problem:"


class JetgateError(Exception):
    """Any failure that the SDK tells."""


class ConnectionLost(JetgateError):
    """The server could not be reached, or fell silent before the end of its answer."""


class OutcomeUnknown(JetgateError):
    """A write may have been done or not; `msg_id` is what it was sent with each time."""

    def __init__(self, msg_id: str) -> None:
        super().__init__(f"nobody has said what became of {msg_id}")
        self.msg_id = msg_id


class Problem(JetgateError):
    """A refusal.

    Attributes:
        status: of HTTP.
        kind: a word for what has happened, such as `stream-not-found`.
        title: the same for people.
        detail: what it was in this case.
        err_code: JetStream's number, 0 where the façade itself refused.
        members: everything that the server said.
        retry_after: seconds after which it may be tried again, 0 where nothing was said.
    """

    def __init__(self, members: Mapping[str, Any], retry_after: float = 0.0) -> None:
        self.members = dict(members)
        self.status = int(members.get("status", 0))
        self.kind = str(members.get("type", "")).removeprefix(_PREFIX)
        self.title = str(members.get("title", ""))
        self.detail = str(members.get("detail", ""))
        self.err_code = int(members.get("err_code", 0))
        self.retry_after = retry_after
        super().__init__(f"{self.status} {self.kind}: {self.detail or self.title}")


class BadRequest(Problem):
    """400: the request makes no sense."""


class Unauthorized(Problem):
    """401: credentials are missing, expired or not known."""


class Forbidden(Problem):
    """403: this user may not."""


class NotFound(Problem):
    """404: there is no such thing."""


class Conflict(Problem):
    """409: not in this state."""


class PreconditionFailed(Problem):
    """412: it was changed meanwhile.

    Attributes:
        current_sequence: the last sequence or revision, 0 where the server did not say it.
    """

    def __init__(self, members: Mapping[str, Any], retry_after: float = 0.0) -> None:
        super().__init__(members, retry_after)
        self.current_sequence = int(members.get("current_sequence", 0))


class TooManyRequests(Problem):
    """429: too much at once; nothing was done."""


class ServerProblem(Problem):
    """5xx: the server cannot, or does not know whether it did."""


_BY_STATUS: dict[int, type[Problem]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    429: TooManyRequests,
}


def problem_from(members: Mapping[str, Any], retry_after: float = 0.0) -> Problem:
    """The exception for a problem, by its status."""
    status = int(members.get("status", 0))
    kind = _BY_STATUS.get(status, ServerProblem if status >= 500 else Problem)
    return kind(members, retry_after)


def problem_of(response: httpx.Response) -> Problem:
    """The exception for an answer whose body was read."""
    try:
        members = json.loads(response.content)
    except ValueError:
        members = None
    if not isinstance(members, dict) or "type" not in members:  # of a proxy, perhaps
        members = {"title": response.reason_phrase, "detail": response.text[:200]}
    members["status"] = response.status_code
    after = response.headers.get("Retry-After", "")
    return problem_from(members, float(after) if after.isdecimal() else 0.0)


def too_large(size: int, limit: int) -> Problem:
    """The refusal of a message of so many bytes, before it is sent."""
    return problem_from(
        {
            "type": f"{_PREFIX}body-too-large",
            "title": "Content Too Large",
            "status": 413,
            "detail": f"body: {size} bytes, and the server takes {limit}",
        }
    )


_FINAL_STATUSES = (501, 505)
_FINAL_KINDS = ("bad-object-info", "digest-mismatch", "not-a-receipt", "stream-store-failed")


def is_passing(error: JetgateError) -> bool:
    """Whether the same request may be answered otherwise a little later.

    A refusal is final: the server has decided, and nothing was stored. Among those of status 5xx
    are a full stream, and what the server does not implement.
    """
    if not isinstance(error, Problem):
        return isinstance(error, ConnectionLost)
    if error.status in _FINAL_STATUSES or error.kind in _FINAL_KINDS:
        return False
    if error.kind == "pull-refused":
        return error.detail.startswith(("Leadership Change", "Server Shutdown"))
    return error.status in (408, 423, 429) or error.status >= 500
