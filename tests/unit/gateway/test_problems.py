"""Errors as problems."""

# Subject: HTTP

import pytest

from core.client import ConnectionLost, NoResponders, RequestTimeout
from core.errors import ApiError
from core.model.api_errors import TABLE
from gateway.http.problems import kind_of, problem_of


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ApiError(404, 10059, "stream not found"), 404, "stream-not-found"),
        (ApiError(400, 10071, "wrong last sequence: 5"), 412, "stream-wrong-last-sequence"),
        (ApiError(500, 10052, "max age can not be negative"), 400, "stream-invalid-config"),
        (ApiError(500, 10057, "no message found"), 404, "stream-msg-delete-failed"),
        (ApiError(500, 10057, "message delete not permitted"), 409, "stream-msg-delete-failed"),
        (ApiError(503, 10077, "maximum messages exceeded"), 503, "stream-store-failed"),
        (ApiError(503, 10077, "message too large"), 413, "stream-store-failed"),
        (ApiError(99, 99, "odd"), 500, "jetstream"),
        (NoResponders(b"a"), 503, "no-responders"),
        (RequestTimeout(b"a", 1), 504, "no-answer"),
        (ConnectionLost(), 503, "not-connected"),
        (RuntimeError("secret"), 500, "internal"),
    ],
)
def test_each_error_has_its_status(error: Exception, status: int, kind: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.kind) == (status, kind)
    assert "secret" not in str(problem.members())


def test_the_actual_sequence_is_in_the_problem() -> None:
    members = problem_of(ApiError(400, 10071, "wrong last sequence: 5")).members("/x")

    assert (members["current_sequence"], members["err_code"], members["instance"]) == (
        5,
        10071,
        "/x",
    )


def test_kinds_are_words() -> None:
    for row in TABLE.values():
        kind = problem_of(ApiError(row.code, row.err_code, row.description)).kind
        assert kind == kind.lower()
        assert "--" not in kind
    assert kind_of(10166) == "message-ttl-disabled"
