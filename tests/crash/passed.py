"""The operations that a client requests from a node that forwards them to the leader.

When the forwarding node ends, a forwarded request may or may not have been performed, and no answer
reports it. When the leader ends, the client keeps its connection.
"""

import json
from typing import Any

from core.model.transactions import STAGE
from tests.crash.operations import (
    Ack,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    DeleteStream,
    OfStream,
    Operation,
    Publish,
)
from tests.crash.point_world import World
from tests.support.jetgate import JetgateServer

_MESSAGE_NOT_FOUND = 10037
_PULL = {"batch": 1, "expires": 30_000_000_000}


class _Afar(Operation):
    """An operation requested at the other node, during which the leader ends."""

    @property
    def entry(self) -> JetgateServer:
        return self.other


class PublishFromAfar(_Afar, Publish):
    """A publish of one message."""


class AckFromAfar(_Afar, Ack):
    """An ack of a message that was pulled through the other node too."""


class _Passed(_Afar):
    """An operation requested at the other node, which ends while request or answer is in flight."""

    counted = "pass"

    def __init__(self, world: World, leader: JetgateServer, other: JetgateServer) -> None:
        super().__init__(world, leader, other)
        self.victim = other


class PassPublish(_Passed, Publish):
    """A publish of one message."""


class PassAck(_Passed, Ack):
    """An ack of a message that was pulled through this node too."""


class PassCreateStream(_Passed, CreateStream):
    """The creation of a staging stream, which the leader of its target stream performs."""

    def _make(self, wire: Any) -> None:
        OfStream._make(self, wire)

    def prepare(self) -> None:
        super().prepare()
        self._name = STAGE + self._name
        self._subject = f"own.{self._name}"


class PassDeleteStream(_Passed, DeleteStream):
    """The deletion of a stream with a message and a consumer."""


class PassCreateConsumer(_Passed, CreateConsumer):
    """The creation of a consumer of an existing stream."""


class PassDeleteConsumer(_Passed, DeleteConsumer):
    """The deletion of a consumer that has delivered nothing."""


class PassDeleteMessage(_Passed, OfStream):
    """The deletion of a message; afterwards message and stream state must agree."""

    def begin(self) -> None:
        self._was_gone = False
        self._ask(f"STREAM.MSG.DELETE.{self._name}", {"seq": 1})

    def judge(self, node: JetgateServer) -> list[str]:
        stream = self._stream(node)
        if stream is None:
            return [f"{self._name} is gone with its message"]
        with self.world.talk(node) as wire:
            told = wire.api(f"STREAM.MSG.GET.{self._name}", {"seq": 1})
        is_gone = told.get("error", {}).get("err_code") == _MESSAGE_NOT_FOUND
        if not is_gone and (self._was_gone or self._is_done()):
            return [f"the message of {self._name} was deleted, and is there: {told}"]
        self._was_gone |= is_gone
        if stream["state"]["messages"] == is_gone or stream["state"]["last_seq"] != 1:
            return [f"the message of {self._name} is deleted by half: {stream['state']}, {told}"]
        return []


class PassPull(_Passed, OfStream):
    """A pull; an unacknowledged message is delivered again, even if its first delivery was lost."""

    _ack_wait = 1_000_000_000

    def begin(self) -> None:
        self._ask(f"CONSUMER.MSG.NEXT.{self._name}.D", _PULL)

    def judge(self, node: JetgateServer) -> list[str]:
        frames = self.asked.answers.get(self._subject, [])
        with self.world.talk(node) as wire:
            body = json.dumps(_PULL).encode()
            frames = [*frames, wire.request(f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.D", body)]
        return [f"{self._name} delivers {frame}" for frame in frames if frame.payload != b"old"]
