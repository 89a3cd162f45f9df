"""Conversion of errors to HTTP responses with `application/problem+json` (RFC 9457).

The `type` is `urn:jetgate:problem:<kind>`. For an error of JetStream, the body contains its
`err_code`, and `kind` is its name (`stream-not-found`). JetStream's `code` is not always a suitable
HTTP status: it is 500 for many errors of the client, which are 4xx here.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.responses import Response

from core.client import (
    ClientError,
    ConnectionLost,
    NoResponders,
    NotPermitted,
    PayloadTooLarge,
    RequestTimeout,
)
from core.errors import ApiError
from core.model.api_errors import TABLE, ApiErrorRow, err_code

MEDIA_TYPE = "application/problem+json"
RETRY = {"Retry-After": "1"}
"""Response headers that ask the client to retry after one second."""
_QUOTED_MAX = 100
PREFIX = "urn:jetgate:problem:"
_STATUS_BY_NAME = {
    "JSAccountResourcesExceeded": 409,  # limits of the account
    "JSConsumerCreate": 400,
    "JSConsumerNameExist": 409,
    "JSMemoryResourcesExceeded": 409,
    "JSStorageResourcesExceeded": 409,
    "JSStreamAssignment": 503,
    "JSStreamInvalidConfig": 400,
    "JSStreamLimits": 400,
    "JSStreamMessageExceedsMaximum": 413,
    "JSStreamNameExist": 409,
    "JSStreamNotMatch": 412,
    "JSStreamSubjectOverlap": 409,
    "JSStreamUpdate": 400,
    "JSStreamWrongLastMsgID": 412,
    "JSStreamWrongLastSequence": 412,
    "JSStreamReplicasNotSupported": 400,
    "JSStreamHeaderExceedsMaximum": 431,
    "JSConsumerExistingActive": 409,
    "JSStreamSealed": 409,
    "JSStreamPurgeFailed": 409,
    "JSStreamRollupFailed": 400,
    "JSStreamOffline": 503,
    "JSConsumerOffline": 503,
    "JSConsumerAlreadyExists": 409,
    "JSConsumerDoesNotExist": 404,
    "JSStreamWrongLastSequenceConstant": 412,
    "JSStreamOfflineReason": 503,
    "JSConsumerOfflineReason": 503,
}
_STATUS_OF = {err_code(name): status for name, status in _STATUS_BY_NAME.items()}
_WRONG_SEQUENCE = err_code("JSStreamWrongLastSequence")
_NOT_DELETED = err_code("JSStreamMsgDeleteFailed")
_LIMIT_REACHED = err_code("JSStreamStoreFailed")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The boundaries between the words of an error's name; MessageTTLDisabled has three words."""
_KINDS = {
    row.err_code: _WORDS.sub("-", row.name.removeprefix("JS")).lower() for row in TABLE.values()
}
_TITLES = {row.err_code: row.description for row in TABLE.values() if "{" not in row.description}


class Problem(Exception):
    """An error that becomes an HTTP response: status, kind, detail, headers and further members."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str = "",
        *,
        title: str = "",
        headers: Mapping[str, str] | None = None,
        **extra: object,
    ) -> None:
        super().__init__(status, kind, detail)
        self.status = status
        self.kind = kind
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra

    def members(self, instance: str = "") -> dict[str, object]:
        """Return the members of the JSON object; `instance` is the path of the request, empty:
        none.
        """
        body: dict[str, object] = {
            "type": f"{PREFIX}{self.kind}",
            "title": self.title,
            "status": self.status,
        }
        if self.detail:
            body["detail"] = self.detail
        if instance:
            body["instance"] = instance
        return body | self.extra


def problem_of(error: Exception) -> Problem:
    """Convert an error of the NATS client or JetStream to a problem. Other errors become a 500."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ApiError):
        return _api_problem(error)
    if isinstance(error, NoResponders):
        return Problem(
            503,
            "no-responders",
            "no server or service responds to this request at the moment",
            headers=RETRY,
        )
    if isinstance(error, NotPermitted):
        return Problem(403, "not-permitted", str(error))
    if isinstance(error, PayloadTooLarge):
        return Problem(413, "body-too-large", str(error))
    if isinstance(error, RequestTimeout):
        return Problem(
            504, "no-answer", "the server did not answer in time; the outcome is unknown"
        )
    if isinstance(error, ConnectionLost):
        detail = "the connection to the server was lost; the outcome is unknown"
        return Problem(503, "not-connected", detail, headers=RETRY)
    if isinstance(error, ClientError):
        return Problem(503, "server-refused", "the server refused the connection")
    return Problem(
        500, "internal", "internal error, see the log of the server; the outcome is unknown"
    )


def kind_of(code: int) -> str:
    """Return the kind of problem for an `err_code` of JetStream; `jetstream` for an unknown one."""
    return _KINDS.get(code, "jetstream")


def _api_problem(error: ApiError) -> Problem:
    status = status_of(error)
    kind = kind_of(error.err_code)
    extra: dict[str, object] = {"err_code": error.err_code} if error.err_code else {}
    headers: dict[str, str] = {}
    if (
        error.err_code == _WRONG_SEQUENCE
        and (actual := error.description.rpartition(" ")[2]).isdigit()
    ):
        extra["current_sequence"] = int(actual)
    if status in (429, 503):
        headers["Retry-After"] = "1"
    title = _TITLES.get(error.err_code, "")
    return Problem(status, kind, error.description, title=title, headers=headers, **extra)


def status_of(error: ApiError | ApiErrorRow) -> int:
    """Return the HTTP status for an error of JetStream, from 400 to 599."""
    text = error.description.lower()
    if error.err_code == _NOT_DELETED:
        return 404 if "no message" in text or "eof" in text else 409
    if error.err_code == _LIMIT_REACHED and "too large" in text:
        return 413
    status = _STATUS_OF.get(error.err_code, error.code)
    return status if 400 <= status <= 599 else 500


def respond(problem: Problem, instance: str) -> Response:
    """Convert a problem to a response; `instance` is the path of the request."""
    body = orjson.dumps(problem.members(instance), default=str, option=orjson.OPT_APPEND_NEWLINE)
    return Response(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def response_bytes(response: Response) -> bytes:
    """Encode a whole response as HTTP/1.1 bytes, with `connection: close`."""
    lines = [b"HTTP/1.1 %d \r\nconnection: close\r\n" % response.status_code]
    lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
    return b"".join([*lines, b"\r\n", bytes(response.body)])


def quoted(value: str) -> str:
    """Quote a value of a request for the detail of a problem, shortened to 100 characters."""
    return repr(value) if len(value) <= _QUOTED_MAX else f"{value[:_QUOTED_MAX]!r}..."


def bad_request(kind: str, detail: str) -> Problem:
    """Return a Problem with status 400."""
    return Problem(400, kind, detail)


def no_inbox() -> Problem:
    """Return the Problem 403 for a user without permission to subscribe to an inbox for replies."""
    return Problem(
        403, "no-inbox", "this user may not subscribe to _INBOX.{user}.>, nor to _INBOX.>"
    )
