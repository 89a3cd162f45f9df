"""Refusal of conditional and publish headers that an operation does not apply.

A client that sends a condition such as `If-Match` relies on it, so it is never ignored. The route
table lists the headers that each operation applies.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.formats.message_headers import PUBLISH_HEADERS, canonical, require_level
from gateway.http.problems import Problem, bad_request
from gateway.requests.operation import Operation

CONDITIONS = ("Idempotency-Key", "If-Match", "If-None-Match", "Js-Expect")
_LEVEL = b"nats-required-api-level"
_CONDITIONS = frozenset(name.lower().encode() for name in CONDITIONS)
_SPELLED = {name.lower().encode(): name for name in (*CONDITIONS, *PUBLISH_HEADERS)}
_OF_BATCH = ", or set it in the line of the message: `msg_id`, `expect`, `headers`"


@dataclass(frozen=True, slots=True)
class WriteHeaders:
    """The conditional headers and publish headers (`Nats-*`) that an operation applies.

    Attributes:
        applied: Their names in lower case; None: the operation changes nothing.
        of_message: True if the handler reads `Nats-H-<Name>` and checks all other `Nats-*` itself.
        hint: Text for the refusal with an alternative to these headers; may be empty.
    """

    applied: frozenset[bytes] | None
    of_message: bool
    hint: str

    @classmethod
    def of(cls, row: Operation) -> "WriteHeaders":
        """Return the headers that an operation of the route table applies."""
        if row.method == "GET":
            return cls(None, True, "")
        names = frozenset(name.partition("#")[0].lower().encode() for name in row.headers)
        hint = _OF_BATCH if row.id in ("publishBatch", "publishAtomic") else ""
        return cls(names, row.takes_message_headers, hint)

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Check the conditional and publish headers of a request.

        Raises Problem 400 for a header that the operation does not apply or that is repeated, and a
        problem for an unsupported API level (`Nats-Required-Api-Level`, ADR-44).
        """
        seen: set[bytes] = set()
        for name, value in headers:
            is_condition = name in _CONDITIONS
            if not is_condition and name[:5] != b"nats-":
                continue
            if name == _LEVEL:
                require_level(value)
            elif self.applied is None or (self.of_message and not is_condition):
                continue
            elif name not in self.applied:
                raise self._refused(name)
            elif name in seen:
                raise bad_request("bad-header", f"{_spelled(name)}: it occurs twice")
            seen.add(name)

    def _refused(self, name: bytes) -> Problem:
        detail = f"{_spelled(name)}: has no effect on this operation; leave it out{self.hint}"
        return bad_request("header-not-allowed", detail)


def _spelled(name: bytes) -> str:
    return _SPELLED.get(name) or canonical(name).decode(errors="replace")
