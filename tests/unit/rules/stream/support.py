"""Builders for the tests of the stream machine."""

import json
from typing import Any

from core.model.stream import StreamConfig
from core.protocol.messages import MessageColumns
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import StreamPlan
from core.rules.stream.plans.planner import decide
from tests.support.headers import block as block

NOW = 1_000_000_000_000
SECOND = 1_000_000_000

Answers = list[Any]


def config(**settings: Any) -> StreamConfig:
    """A stream S on everything, without limits but those given."""
    defaults = {
        "name": "S",
        "subjects": (">",),
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
        "duplicate_window": 120 * SECOND,
        "allow_rollup_hdrs": True,
    }
    return StreamConfig(**{**defaults, **settings})


def message(subject: str, payload: bytes = b"", /, **headers: str) -> tuple[bytes, bytes, bytes]:
    return subject.encode(), block(**headers), payload


def columns(*messages: tuple[bytes, bytes, bytes]) -> MessageColumns:
    gathered = MessageColumns()
    for place, (subject, headers, payload) in enumerate(messages):
        gathered.add(subject, b"reply.%d" % place, headers, payload)
    return gathered


class Stream:
    """A machine that commits what it decides, and remembers the rows."""

    def __init__(self, **settings: Any) -> None:
        self.machine = StreamMachine(config(**settings))
        self.now = NOW
        self.written: list[int] = []
        self.plan: StreamPlan

    def publish(self, *messages: tuple[bytes, bytes, bytes]) -> Answers:
        """Publish one batch; return the sequence of each message, or what was said instead."""
        self.plan = decide(self.machine, columns(*messages), self.now).build()
        self.machine.apply(self.plan)
        if self.plan.segment is not None:
            self.written += self.plan.segment.seqs
        said: Answers = list(range(self.plan.ack_first, self.plan.ack_first + len(self.plan.acks)))
        return said + [_effect(body) for _, body in self.plan.answers]

    def one(self, subject: str, payload: bytes = b"", /, **headers: str) -> Any:
        """Publish one message."""
        return self.publish(message(subject, payload, **headers))[0]

    def error(self, subject: str, payload: bytes = b"", /, **headers: str) -> tuple[int, int, str]:
        """Publish one message that is refused; return code, numbered code and text."""
        said = self.one(subject, payload, **headers)
        assert isinstance(said, tuple), f"accepted: {said}"
        return said

    @property
    def removed(self) -> list[int]:
        return sorted(seq for seq, _, _ in self.plan.removed)


def _effect(body: bytes) -> Any:
    answer = json.loads(body)
    assert answer["stream"] == "S"
    if "error" in answer:
        assert answer["seq"] == 0
        error = answer["error"]
        return error["code"], error["err_code"], error["description"]
    if answer.get("duplicate"):
        return "duplicate", answer["seq"]
    return answer["seq"]
