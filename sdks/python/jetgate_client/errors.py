"""All exceptions of the SDK; `is_passing` decides which of them are followed by a retry.

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
├── ConnectionLost          no answer, or an incomplete one
└── OutcomeUnknown          no outcome within the limit of retries
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx

_PREFIX = "urn:jetgate:problem:"


class JetgateError(Exception):
    """Base class of all errors of the SDK."""


class ConnectionLost(JetgateError):
    """The server is unreachable, or stopped sending before the end of its answer."""


class OutcomeUnknown(JetgateError):
    """A write may or may not be stored: no answer arrived within the limit of retries.

    Attributes:
        msg_id: The id of all its attempts: message id, idempotency key, or ack token.
    """

    def __init__(self, msg_id: str) -> None:
        super().__init__(f"the outcome of {msg_id} is unknown")
        self.msg_id = msg_id


class Problem(JetgateError):
    """The server refused a request, with an error response (RFC 9457).

    Attributes:
        status: HTTP status.
        kind: Identifier of the problem, such as `stream-not-found`.
        title: Summary of the problem.
        detail: Description of this occurrence.
        err_code: JetStream's error code; 0 if the HTTP server refused
            the request without JetStream.
        members: All members of the answer.
        retry_after: Seconds before a retry; 0 if the server sent none.
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
    """400: the request is invalid."""


class Unauthorized(Problem):
    """401: credentials are missing, expired or unknown."""


class Forbidden(Problem):
    """403: the user lacks a permission."""


class NotFound(Problem):
    """404: the resource does not exist."""


class Conflict(Problem):
    """409: the operation is impossible in the current state of the resource."""


class PreconditionFailed(Problem):
    """412: a condition of the request failed, because the resource has changed.

    Attributes:
        current_sequence: The current sequence or revision; 0 if the server sent none.
    """

    def __init__(self, members: Mapping[str, Any], retry_after: float = 0.0) -> None:
        super().__init__(members, retry_after)
        self.current_sequence = int(members.get("current_sequence", 0))


class TooManyRequests(Problem):
    """429: too many requests or messages at once; the server did not process the request."""


class ServerProblem(Problem):
    """5xx: the server cannot process the request, or does not know its outcome."""


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
    """Return the exception for the members of a problem, by its status.

    `retry_after` is in seconds.
    """
    status = int(members.get("status", 0))
    kind = _BY_STATUS.get(status, ServerProblem if status >= 500 else Problem)
    return kind(members, retry_after)


def problem_of(response: httpx.Response) -> Problem:
    """Return the exception for an error response whose body was read."""
    try:
        members = json.loads(response.content)
    except ValueError:
        members = None
    if not isinstance(members, dict) or "type" not in members:  # for example from a proxy
        members = {"title": response.reason_phrase, "detail": response.text[:200]}
    members["status"] = response.status_code
    after = response.headers.get("Retry-After", "")
    return problem_from(members, float(after) if after.isdecimal() else 0.0)


def too_large(size: int, limit: int) -> Problem:
    """Return the Problem 413 for a message that exceeds the server's limit; it is not sent.

    `size` and `limit` are in bytes.
    """
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
    """Return True if the same request may succeed after a short wait.

    That is so for ConnectionLost, and for problems with status 408, 423, 429 or 5xx. Other problems
    are permanent, and nothing was stored. Also permanent among 5xx are unsupported operations (501,
    505) and the kinds in `_FINAL_KINDS`, such as a full stream (`stream-store-failed`).
    """
    if not isinstance(error, Problem):
        return isinstance(error, ConnectionLost)
    if error.status in _FINAL_STATUSES or error.kind in _FINAL_KINDS:
        return False
    if error.kind == "pull-refused":
        return error.detail.startswith(("Leadership Change", "Server Shutdown"))
    return error.status in (408, 423, 429) or error.status >= 500
