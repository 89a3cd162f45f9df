"""Conditions and headers of a publish on writes: an operation applies them, or they are refused.

A caller who sets a condition relies on it, so none is ignored. What an operation applies is in its
row of the route table.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.headers import PUBLISH_HEADERS, canonical, require_level
from gateway.operation import Operation
from gateway.problems import Problem, bad_request

CONDITIONS = ("Idempotency-Key", "If-Match", "If-None-Match", "Js-Expect")
_LEVEL = b"nats-required-api-level"
_CONDITIONS = frozenset(name.lower().encode() for name in CONDITIONS)
_SPELLED = {name.lower().encode(): name for name in (*CONDITIONS, *PUBLISH_HEADERS)}
_OF_BATCH = ", or say it in the line of the message: `msg_id`, `expect`, `headers`"


@dataclass(frozen=True, slots=True)
class WriteHeaders:
    """Which of these headers an operation applies.

    `applied`: their names in lower case; None: the operation reads and changes nothing.
    `of_message`: its handler takes `Nats-H-<Name>` and judges all other `Nats-*` itself.
    `hint`: where the caller may say it instead.
    """

    applied: frozenset[bytes] | None
    of_message: bool
    hint: str

    @classmethod
    def of(cls, row: Operation) -> "WriteHeaders":
        """What a row of the route table says."""
        if row.method == "GET":
            return cls(None, True, "")
        names = frozenset(name.partition("#")[0].lower().encode() for name in row.headers)
        hint = _OF_BATCH if row.id in ("publishBatch", "publishAtomic") else ""
        return cls(names, row.takes_message_headers, hint)

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise Problem for a header that would be ignored, or the level of the API (ADR-44)."""
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
                raise bad_request("bad-header", f"{_spelled(name)}: it is there twice")
            seen.add(name)

    def _refused(self, name: bytes) -> Problem:
        detail = f"{_spelled(name)}: has no effect on this operation; leave it out{self.hint}"
        return bad_request("header-not-allowed", detail)


def _spelled(name: bytes) -> str:
    return _SPELLED.get(name) or canonical(name).decode(errors="replace")
