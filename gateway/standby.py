"""What a node answers while it does not lead."""

from starlette.types import Receive, Scope, Send

from gateway.problems import RETRY, Problem, respond

SERVED = frozenset(("healthz", "metrics"))
"""Operations that a standby serves as a leader does."""


def standby_problem(why: str = "") -> Problem:
    """The problem of everything that only the leader serves; `why` says what is known of it."""
    detail = "this node stands by until it leads"
    return Problem(503, "standby", f"{detail}: {why}" if why else detail, headers=RETRY)


async def standby(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer every request, and every handshake of a WebSocket, with 503."""
    await respond(standby_problem(), scope.get("path", ""))(scope, receive, send)
