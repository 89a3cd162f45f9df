"""Clients of a run that consume, with pull or push consumers and each kind of acknowledgement.

Most acknowledgements request a confirmation (AckSync). The server must not redeliver a message
whose acknowledgement it has confirmed.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.histories.client import Addresses, Client, answer_flow_control
from tests.support.wire import Frame, Wire

Verdict = Callable[[str, int], str]
"""A function from payload and delivery count of a message to its answer: ack, nak or term."""

_WORDS = {"ack": b"+ACK", "all": b"+ACK", "nak": b"-NAK", "term": b"+TERM"}


def accept(_value: str, _count: int) -> str:
    """Return `ack` for every message."""
    return "ack"


def retry(value: str, count: int) -> str:
    """Return the answer by the message's number modulo 4.

    One of four messages is always nak'ed, one is nak'ed once, one is terminated, one acknowledged.
    """
    kind = int(value.rpartition("-")[2]) % 4
    if kind == 1 or (kind == 3 and count == 1):
        return "nak"
    return "term" if kind == 2 else "ack"


class Whole:
    """Tracks the highest sequence up to which all messages of a stream have arrived.

    The stream must have no removed messages.
    """

    def __init__(self) -> None:
        self._end = 0
        self._beyond: set[int] = set()

    def add(self, seq: int) -> bool:
        """Record a message; return True if it and all messages before it have arrived."""
        if seq > self._end:
            self._beyond.add(seq)
        while self._end + 1 in self._beyond:
            self._end += 1
            self._beyond.discard(self._end)
        return seq <= self._end


class Consumer(Client):
    """A client that receives the messages of one consumer, records and acknowledges them.

    Args:
        stream, consumer: Names of the stream and the consumer.
        acks: The ack policy: "explicit", "all" or "none".
        verdict: Returns the answer to each message.
        confirmed: True if acknowledgements request a confirmation (AckSync).
    """

    every = 20
    """Number of deliveries per acknowledgement with the ack policy "all"."""

    def __init__(
        self,
        name: str,
        addresses: Addresses,
        directory: Path,
        *,
        stream: str,
        consumer: str,
        acks: str = "explicit",
        verdict: Verdict = accept,
        confirmed: bool = True,
    ) -> None:
        super().__init__(name, addresses, directory)
        self._confirmed = confirmed
        self.stream, self.consumer, self.acks, self.verdict = stream, consumer, acks, verdict
        self._open: dict[bytes, dict[str, Any]] = {}
        self._whole = Whole()
        self._unacked: tuple[Frame, int] | None = None
        self._taken = 0

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB a.%s.* 1\r\n" % self.name.encode())
        self._unacked, self._taken = None, 0
        try:
            self.consume(wire)
        finally:
            for known in self._open.values():
                self.history.write("ack", "unknown", **known)
            self._open.clear()

    def consume(self, wire: Wire) -> None:
        """Receive, record and answer deliveries until `stopping` is set."""
        raise NotImplementedError

    def record(self, wire: Wire, frame: Frame, since: int) -> None:
        """Record a delivery and acknowledge it; `since` is the time of its pull request."""
        parts = frame.reply.split(b".")
        seq, count = int(parts[5]), int(parts[4])
        value = frame.payload.decode()
        self.history.write(
            "deliver",
            stream=self.stream,
            consumer=self.consumer,
            subject=frame.subject.decode(),
            value=value,
            seq=seq,
            cseq=int(parts[6]),
            count=count,
            time=int(parts[7]),
            since=since,
        )
        if self.acks == "explicit":
            self._acknowledge(wire, frame, seq, self.verdict(value, count))
        elif self.acks == "all":
            self._taken += 1
            # A message in flight to another connection may be lost, so none after it is
            # acknowledged.
            if self._whole.add(seq):
                self._unacked = frame, seq
            if self._taken % self.every == 0:
                self.acknowledge_all(wire)

    def acknowledge_all(self, wire: Wire) -> None:
        """Acknowledge all messages up to the last one before which none is missing."""
        if self._unacked is not None:
            frame, seq = self._unacked
            self._unacked = None
            self._acknowledge(wire, frame, seq, "all")

    def _acknowledge(self, wire: Wire, frame: Frame, seq: int, how: str) -> None:
        op = self.history.next_op()
        known: dict[str, Any] = {
            "op": op,
            "stream": self.stream,
            "consumer": self.consumer,
            "seq": seq,
            "how": how,
        }
        reply = b"a.%s.%d" % (self.name.encode(), op) if self._confirmed else b""
        if reply:
            self._open[reply] = known
        self.history.write("ack", "invoke", **known)
        wire.publish(frame.reply.decode(), _WORDS[how], reply=reply)

    def is_answer(self, frame: Frame) -> bool:
        """Record the answer to an acknowledgement; return True if the frame is one."""
        if not frame.verb.endswith(b"MSG"):
            return True
        if not frame.subject.startswith(b"a.%s." % self.name.encode()):
            return False
        known = self._open.pop(frame.subject, None)
        if known is not None:
            # With headers the answer is a no-responders status.
            self.history.write("ack", "fail" if frame.headers else "ok", **known)
        return True


class Puller(Consumer):
    """A client that pulls batches; a subscription per batch identifies the pull request."""

    batch = 30

    def consume(self, wire: Wire) -> None:
        sid = 1
        while not self.stopping.is_set():
            sid += 1
            self._pull(wire, sid)

    def _pull(self, wire: Wire, sid: int) -> None:
        inbox = b"d.%s.%d" % (self.name.encode(), sid)
        asked = time.monotonic_ns()
        wire.send(b"SUB %s %d\r\n" % (inbox, sid))
        body = b'{"batch":%d,"expires":1000000000}' % self.batch
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{self.consumer}"
        wire.publish(subject, body, reply=inbox)
        got = 0
        while got < self.batch:
            frame = wire.frame()
            if self.is_answer(frame):
                continue
            if not frame.reply:  # a status: the request has ended
                self.acknowledge_all(wire)
                if b" 503" in frame.headers or b" 409" in frame.headers:
                    self.stopping.wait(0.05)
                break
            got += 1
            self.record(wire, frame, asked)
        wire.send(b"UNSUB %d\r\n" % sid)
        while self._open:  # wait for confirmations, so that the next pull begins after them
            self._late(wire, wire.frame(), asked)

    def _late(self, wire: Wire, frame: Frame, asked: int) -> None:
        if not self.is_answer(frame) and frame.reply:
            self.record(wire, frame, asked)


class Pushed(Consumer):
    """A client of a push consumer, alone or in a queue group, that answers flow control requests.

    Args:
        deliver: The deliver subject of the consumer.
        queue: The queue group; empty for none.
    """

    def __init__(self, *arguments: Any, deliver: str, queue: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._subscribe = f"SUB {deliver} {queue} 2\r\n".replace("  ", " ").encode()

    def consume(self, wire: Wire) -> None:
        since = time.monotonic_ns()
        wire.send(self._subscribe)
        for frame in self.frames(wire):
            if self.is_answer(frame) or answer_flow_control(wire, frame):
                continue
            if frame.reply:
                self.record(wire, frame, since)
