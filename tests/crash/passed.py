"""The operations that a client asks of a node that does not lead: it passes them on.

Where this node ends, what it passed on is done or not, and no answer says which; where the leader
ends, the client has its connection still.
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
    """Through the other node; the leader ends."""

    @property
    def entry(self) -> JetgateServer:
        return self.other


class PublishFromAfar(_Afar, Publish):
    """One message."""


class AckFromAfar(_Afar, Ack):
    """An acknowledgement, of what was pulled through the other node too."""


class _Passed(_Afar):
    """Through the other node, which ends while the request or its answer is on its way."""

    counted = "pass"

    def __init__(self, world: World, leader: JetgateServer, other: JetgateServer) -> None:
        super().__init__(world, leader, other)
        self.victim = other


class PassPublish(_Passed, Publish):
    """One message."""


class PassAck(_Passed, Ack):
    """An acknowledgement, of what was pulled through this node too."""


class PassCreateStream(_Passed, CreateStream):
    """The stage of a stream: who leads the one creates the other."""

    def _make(self, wire: Any) -> None:
        OfStream._make(self, wire)

    def prepare(self) -> None:
        super().prepare()
        self._name = STAGE + self._name
        self._subject = f"own.{self._name}"


class PassDeleteStream(_Passed, DeleteStream):
    """A stream with a message and a consumer."""


class PassCreateConsumer(_Passed, CreateConsumer):
    """A consumer of a stream that there is."""


class PassDeleteConsumer(_Passed, DeleteConsumer):
    """A consumer that has delivered nothing."""


class PassDeleteMessage(_Passed, OfStream):
    """Afterwards it is there, or not, and the stream counts it or not."""

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
    """What is pulled and not acknowledged comes again, whoever was to have it."""

    _ack_wait = 1_000_000_000

    def begin(self) -> None:
        self._ask(f"CONSUMER.MSG.NEXT.{self._name}.D", _PULL)

    def judge(self, node: JetgateServer) -> list[str]:
        frames = self.asked.answers.get(self._subject, [])
        with self.world.talk(node) as wire:
            body = json.dumps(_PULL).encode()
            frames = [*frames, wire.request(f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.D", body)]
        return [f"{self._name} delivers {frame}" for frame in frames if frame.payload != b"old"]
