"""The operations within which a node ends: their requests, and the conditions to check after."""

import json
import signal
from typing import Any

from tests.crash.point_world import UNAVAILABLE, Asked, World
from tests.support.jetgate import JetgateServer

_STREAM_NOT_FOUND = 10059
_CONSUMER_NOT_FOUND = 10014


class Operation:
    """One run of an operation.

    Attributes:
        counted: Name of the operation in `tests.crash.pointed`.
        victim: The node that ends within the operation.
        ends_node: True if that node ends by itself without reaching the armed point.
    """

    counted = ""
    ends_node = False

    def __init__(self, world: World, leader: JetgateServer, other: JetgateServer) -> None:
        self.world, self.leader, self.other = world, leader, other
        self.victim = leader
        self._entries = [Asked(self.entry)] if self.entry is not None else []

    @property
    def entry(self) -> JetgateServer | None:
        """The node that gets the request; None if there is no request."""
        return self.leader

    @property
    def asked(self) -> Asked:
        """The connection for the request."""
        return self._entries[0]

    def prepare(self) -> None:
        """Create the objects that the operation needs."""

    def begin(self) -> None:
        """Start the operation without waiting for an answer."""

    def collect(self) -> None:
        """Collect the answers that have arrived."""
        for asked in self._entries:
            asked.collect()

    def judge(self, node: JetgateServer) -> list[str]:
        """Return descriptions of errors in the state that a node reports."""
        del node
        return []

    def close(self) -> None:
        """Close every connection."""
        for asked in self._entries:
            asked.close()

    def answer(self, name: str) -> dict[str, Any] | None:
        """Return the answer to a request; None if none has arrived."""
        frames = self.asked.answers.get(name)
        return dict(frames[0].json()) if frames else None


class Publish(Operation):
    """A publish of one message, stored by one statement."""

    counted = "publish"
    _streams: tuple[str, ...] = ("LOG",)

    def begin(self) -> None:
        self._sent: dict[str, tuple[str, bytes]] = {}
        for stream in self._streams:
            number = next(self.world.names)
            value = b"%s-%d" % (stream.encode(), number)
            self.world.promises.attempts[value] += 1
            self._sent[str(number)] = stream, value
            self.asked.ask(str(number), f"{stream.lower()}.x", value)

    def collect(self) -> None:
        super().collect()
        for name, (stream, value) in self._sent.items():
            if (answer := self.answer(name)) is not None:
                self.world.promises.answered(stream, value, answer)


class PublishMany(Publish):
    """A publish of messages to two streams in one commit, stored by COPY."""

    _streams = ("LOG", "OTHER", "LOG", "LOG", "OTHER")

    def begin(self) -> None:
        with self.asked.gathered():
            super().begin()


class Ack(Operation):
    """A double ack of the oldest pending message."""

    counted = "ack"

    def prepare(self) -> None:
        self.world.publish(self.leader, "LOG")
        assert self.entry is not None
        with self.world.talk(self.entry) as wire:
            body = b'{"batch":1,"expires":30000000000}'
            frame = wire.request("$JS.API.CONSUMER.MSG.NEXT.LOG.C", body)
        self._reply = frame.reply.decode()
        self._seq = int(self._reply.split(".")[5])
        if self._seq in self.world.promises.confirmed:
            self.world.promises.wrong.append(f"{self._seq} was confirmed, and came again")

    def begin(self) -> None:
        self.asked.ask("ack", self._reply, b"+ACK")

    def collect(self) -> None:
        super().collect()
        if "ack" in self.asked.answers:
            self.world.promises.confirmed.add(self._seq)


class OfStream(Operation):
    """An operation on a stream of its own."""

    _ack_wait = 30_000_000_000

    def prepare(self) -> None:
        self._name = f"S{next(self.world.names)}"
        self._subject = f"own.{self._name}"
        with self.world.talk(self.leader) as wire:
            self._make(wire)

    def _make(self, wire: Any) -> None:
        """Create the stream, with a message and a consumer."""
        told = wire.api(f"STREAM.CREATE.{self._name}", self._config())
        assert "error" not in told, told
        assert wire.request(self._subject, b"old").json()["seq"] == 1
        config = {"durable_name": "D", "ack_policy": "explicit", "ack_wait": self._ack_wait}
        body = {"stream_name": self._name, "config": config}
        assert "error" not in wire.api(f"CONSUMER.CREATE.{self._name}.D", body)

    def _config(self, description: str = "") -> dict[str, Any]:
        return {"name": self._name, "subjects": [self._subject], "description": description}

    def _ask(self, subject: str, body: Any = None) -> None:
        payload = b"" if body is None else json.dumps(body).encode()
        self.asked.ask("it", f"$JS.API.{subject}", payload)

    def _is_done(self) -> bool | None:
        """Return True if the answer reports success, False if an error, None if there is none.

        The error `UNAVAILABLE` counts as no answer.
        """
        answer = self.answer("it")
        if answer is None or answer.get("error", {}).get("err_code") == UNAVAILABLE:
            return None
        return "error" not in answer

    def _shown(self, node: JetgateServer, subject: str, missing: int) -> dict[str, Any] | None:
        """Return the info that a node reports; None if the node reports the error `missing`."""
        with self.world.talk(node) as wire:
            told: dict[str, Any] = wire.api(subject)
        if "error" in told and told["error"]["err_code"] != missing:
            self.world.promises.wrong.append(f"{subject} is answered {told}")
        return None if "error" in told else told

    def _stream(self, node: JetgateServer) -> dict[str, Any] | None:
        return self._shown(node, f"STREAM.INFO.{self._name}", _STREAM_NOT_FOUND)

    def _consumer(self, node: JetgateServer) -> dict[str, Any] | None:
        return self._shown(node, f"CONSUMER.INFO.{self._name}.D", _CONSUMER_NOT_FOUND)


class CreateStream(OfStream):
    """The creation of a stream; afterwards it exists and accepts messages, or can be created."""

    counted = "create_stream"

    def _make(self, wire: Any) -> None:
        """Do nothing: the operation itself creates the stream."""

    def begin(self) -> None:
        self._ask(f"STREAM.CREATE.{self._name}", self._config())

    def judge(self, node: JetgateServer) -> list[str]:
        found = self._stream(node)
        if found is None and self._is_done():
            return [f"{self._name} was created, and is not there"]
        with self.world.talk(node) as wire:
            told = wire.api(f"STREAM.CREATE.{self._name}", self._config())
            if "error" in told:
                return [f"{self._name} cannot be created again: {told}"]
            before = told["state"]["messages"]
            seq = wire.request(self._subject, b"new").json().get("seq")
        return [] if seq == before + 1 else [f"{self._name} stores at {seq} behind {before}"]


class UpdateStream(OfStream):
    """An update of a stream; afterwards its configuration is the old one or the new one."""

    counted = "update_stream"

    def begin(self) -> None:
        self._ask(f"STREAM.UPDATE.{self._name}", self._config("new"))

    def judge(self, node: JetgateServer) -> list[str]:
        found = self._stream(node)
        if found is None or found["state"]["messages"] != 1:
            return [f"{self._name} has lost its message: {found}"]
        described = found["config"].get("description", "")
        if self._is_done() and described != "new":
            return [f"the update of {self._name} is gone"]
        return []


class DeleteStream(OfStream):
    """A deletion of a stream; afterwards it exists with its consumer and message, or not at all."""

    counted = "delete_stream"

    def begin(self) -> None:
        self._was_gone = False
        self._ask(f"STREAM.DELETE.{self._name}")

    def judge(self, node: JetgateServer) -> list[str]:
        found = self._stream(node)
        if found is None:
            self._was_gone = True
            return []
        if self._was_gone or self._is_done():
            return [f"{self._name} was deleted, and is there"]
        if found["state"]["messages"] != 1 or self._consumer(node) is None:
            return [f"{self._name} is deleted by half: {found}"]
        return []


class CreateConsumer(OfStream):
    """The creation of a consumer; afterwards it exists, or can be created, and delivers."""

    counted = "create_consumer"

    def _make(self, wire: Any) -> None:
        super()._make(wire)
        assert wire.api(f"CONSUMER.DELETE.{self._name}.D")["success"]
        self._delivered = 0

    def _body(self) -> dict[str, Any]:
        config = {"durable_name": "D", "ack_policy": "none"}
        return {"stream_name": self._name, "config": config}

    def begin(self) -> None:
        self._ask(f"CONSUMER.CREATE.{self._name}.D", self._body())

    def judge(self, node: JetgateServer) -> list[str]:
        if self._consumer(node) is None and self._is_done():
            return [f"D of {self._name} was created, and is not there"]
        with self.world.talk(node) as wire:
            told = wire.api(f"CONSUMER.CREATE.{self._name}.D", self._body())
            if "error" in told:
                return [f"D of {self._name} cannot be created again: {told}"]
            wire.request(self._subject, b"more")
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.D"
            frame = wire.request(subject, b'{"batch":1,"expires":30000000000}')
        return [] if frame.payload in (b"old", b"more") else [f"D delivers {frame}"]


class DeleteConsumer(OfStream):
    """A deletion of a consumer; afterwards it exists or not, consistently."""

    counted = "delete_consumer"

    def begin(self) -> None:
        self._was_gone = False
        self._ask(f"CONSUMER.DELETE.{self._name}.D")

    def judge(self, node: JetgateServer) -> list[str]:
        if self._consumer(node) is None:
            self._was_gone = True
            return []
        if self._was_gone or self._is_done():
            return [f"D of {self._name} was deleted, and is there"]
        return []


class TakeOver(Operation):
    """A takeover: the leader is killed, and the node that replaces it ends."""

    counted = "take_over"

    def __init__(self, world: World, leader: JetgateServer, other: JetgateServer) -> None:
        super().__init__(world, leader, other)
        self.victim = other

    @property
    def entry(self) -> None:
        return None

    def begin(self) -> None:
        self.leader.kill()


class Transfer(Publish):
    """A transfer at shutdown: the leader gets SIGTERM while a peer forwards a publish to it."""

    counted = "hand_over"
    ends_node = True

    @property
    def entry(self) -> JetgateServer:
        return self.other

    def begin(self) -> None:
        assert self.leader.process is not None
        self.leader.process.send_signal(signal.SIGTERM)
        super().begin()


class MoveFrom(Publish):
    """A step-down during which the leader ends, with further publishes for it."""

    counted = "hand_over"
    _streams = ("LOG", "OTHER", "LOG")

    @property
    def entry(self) -> JetgateServer:
        return self.other

    def begin(self) -> None:
        self.asked.ask("move", "$JS.API.STREAM.LEADER.STEPDOWN.LOG")
        super().begin()

    def judge(self, node: JetgateServer) -> list[str]:
        del node
        answer = self.answer("move")
        if answer is None or answer.get("success"):
            return []
        return [f"stepping down is answered {answer}"]


class MoveTo(MoveFrom):
    """A step-down during which the node that replaces the leader ends."""

    counted = "take_over"

    def __init__(self, world: World, leader: JetgateServer, other: JetgateServer) -> None:
        super().__init__(world, leader, other)
        self.victim = other

    @property
    def entry(self) -> JetgateServer:
        return self.leader
