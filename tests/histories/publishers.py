"""Clients of a run that publish: in windows, atomic batches, conditionally, to keys, over HTTP."""

import http.client as http_client
import json
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.histories.client import Address, Addresses, Client, header
from tests.support.wire import Frame, Wire


@dataclass(slots=True)
class _Try:
    op: int
    value: str


class Publisher(Client):
    """A client that publishes numbered values on the subject `<stream>.<client name>`.

    With message ids it repeats each value until it is acknowledged.

    Args:
        stream: Name of the stream.
        window: Maximum number of unanswered messages.
        pace: Seconds between two windows.
        ids: True to publish with message ids.
    """

    def __init__(
        self,
        name: str,
        addresses: Addresses,
        directory: Path,
        *,
        stream: str = "LOG",
        window: int = 1,
        pace: float = 0.03,
        ids: bool = True,
    ) -> None:
        super().__init__(name, addresses, directory)
        self.stream, self.window, self.pace, self.ids = stream, window, pace, ids
        self.subject = f"{stream.lower()}.{name}"
        self._number = 0
        self._again: deque[str] = deque()
        self._open: dict[bytes, _Try] = {}

    def is_done(self) -> bool:
        return self.stopping.is_set() and not self._again

    def next_value(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB r.%s.* 1\r\n" % self.name.encode())
        try:
            while self._open or not self.is_done():
                self._fill(wire)
                while self._open:
                    self._record_outcome(wire.frame())
                self.stopping.wait(self.pace)
        finally:
            for sent in self._open.values():
                self._end(sent, "unknown")
            self._open.clear()

    def _fill(self, wire: Wire) -> None:
        while len(self._open) < self.window and not self.is_done():
            value = self._again.popleft() if self._again else self.next_value()
            sent = _Try(self.history.next_op(), value)
            self.history.write(
                "publish",
                "invoke",
                op=sent.op,
                stream=self.stream,
                subject=self.subject,
                value=value,
                identified=self.ids,
            )
            reply = b"r.%s.%d" % (self.name.encode(), sent.op)
            self._open[reply] = sent
            head = f"NATS/1.0\r\nNats-Msg-Id: {value}\r\n\r\n".encode() if self.ids else b""
            wire.publish(self.subject, value.encode(), reply=reply, headers=head)

    def _record_outcome(self, frame: Frame) -> None:
        sent = self._open.pop(frame.subject, None) if frame.verb.endswith(b"MSG") else None
        if sent is None:
            return
        answer = read_answer(frame)
        if "error" in answer:
            self._end(sent, "fail", text=json.dumps(answer["error"]))
        else:
            self._end(
                sent, "ok", seq=int(answer["seq"]), duplicate=bool(answer.get("duplicate", False))
            )

    def _end(self, sent: _Try, phase: Any, **fields: Any) -> None:
        self.history.write(
            "publish", phase, op=sent.op, stream=self.stream, value=sent.value, **fields
        )
        if phase != "ok" and self.ids:
            self._again.append(sent.value)


def read_answer(frame: Frame) -> dict[str, Any]:
    """Return the decoded answer to a publish; for a no-responders status, an error answer."""
    if not frame.payload:
        return {"error": {"code": 503, "description": "no responders"}}
    return dict(json.loads(frame.payload))


class Batcher(Publisher):
    """A client that publishes atomic batches and does not repeat any of them."""

    size = 5

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory, pace=0.15, ids=False)

    def _fill(self, wire: Wire) -> None:
        if self.is_done():
            return
        op = self.history.next_op()
        batch = f"{self.name}-{op}"
        for place in range(1, self.size + 1):
            value = self.next_value()
            self.history.write(
                "publish",
                "invoke",
                op=op,
                stream=self.stream,
                subject=self.subject,
                value=value,
                batch=batch,
                of=self.size,
            )
            head = f"NATS/1.0\r\nNats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {place}\r\n"
            reply = b""
            if place == self.size:
                head += "Nats-Batch-Commit: 1\r\n"
                reply = b"r.%s.%d" % (self.name.encode(), op)
                self._open[reply] = _Try(op, value)
            wire.publish(self.subject, value.encode(), reply=reply, headers=f"{head}\r\n".encode())


class Rival(Client):
    """A client that publishes with an expected last sequence, on a subject shared with others."""

    subject = "log.rivals"

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self._number = 0

    def work(self, wire: Wire) -> None:
        last = last_of(wire, self.subject)
        while not self.stopping.wait(0.03):
            self._number += 1
            value = f"{self.name}-{self._number}"
            last = publish_one(self, wire, "LOG", self.subject, value, last)
            last = last or last_of(wire, self.subject)


def last_of(wire: Wire, subject: str) -> int:
    """Return the sequence of a subject's last message; 0 if there is none, or no answer."""
    answer = wire.request("$JS.API.STREAM.MSG.GET.LOG", b'{"last_by_subj":"%s"}' % subject.encode())
    if not answer.payload:
        return 0
    return int(answer.json().get("message", {}).get("seq", 0))


class KeyWriter(Client):
    """A client that writes keys (subjects of the stream KV) and reads the acknowledged values.

    Another client writes the same keys.
    """

    keys = 6

    def __init__(self, name: str, addresses: Addresses, directory: Path, seed: int) -> None:
        super().__init__(name, addresses, directory)
        self._choose = random.Random(f"{name}{seed}")
        self._number = 0

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.05):
            subject = f"kv.k{self._choose.randrange(self.keys)}"
            before = self._get(wire, subject)
            seq = self._put(wire, subject)
            self._get(wire, subject)
            if seq and before:
                self._get(wire, subject, before)

    def _put(self, wire: Wire, subject: str) -> int:
        self._number += 1
        return publish_one(self, wire, "KV", subject, f"{self.name}-{self._number}")

    def _get(self, wire: Wire, subject: str, seq: int = 0) -> int:
        return direct_get(self, wire, "KV", subject, seq)


def publish_one(
    client: Client, wire: Wire, stream: str, subject: str, value: str, expect: int = -1
) -> int:
    """Publish a message without an id and record the request and its outcome.

    `expect` is the expected last sequence of the subject; -1 sends none. Returns the sequence of
    the message, or 0 without acknowledgement.
    """
    known: dict[str, Any] = {"op": client.history.next_op(), "stream": stream, "value": value}
    client.history.write("publish", "invoke", subject=subject, expect=expect, **known)
    head = f"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {expect}\r\n\r\n".encode()
    phase: Any = "unknown"
    fields: dict[str, Any] = {}
    try:
        frame = wire.request(subject, value.encode(), head if expect >= 0 else b"")
        answer = read_answer(frame)
        phase = "fail" if "error" in answer else "ok"
        fields = (
            {"text": json.dumps(answer["error"])} if phase == "fail" else {"seq": answer["seq"]}
        )
    finally:
        client.history.write("publish", phase, **known, **fields)
    return int(fields.get("seq", 0))


def direct_get(client: Client, wire: Wire, stream: str, subject: str, seq: int = 0) -> int:
    """Read a message by Direct Get, record request and answer, and return its sequence.

    `seq` 0 reads the last message of the subject, otherwise the message with that sequence.
    Returns 0 if no message was found.
    """
    op, how = client.history.next_op(), "seq" if seq else "last"
    known: dict[str, Any] = {"op": op, "stream": stream, "how": how}
    client.history.write("get", "invoke", subject=subject, seq=seq, **known)
    phase: Any = "unknown"
    fields: dict[str, Any] = {"subject": subject, "seq": seq}
    try:
        request = json.dumps({"seq": seq} if seq else {"last_by_subj": subject}).encode()
        frame = wire.request(f"$JS.API.DIRECT.GET.{stream}", request)
        found = header(frame, "Nats-Sequence")
        if found:
            phase, seq = "ok", int(found)
            fields = {"seq": seq, "value": frame.payload.decode()}
            fields["subject"] = header(frame, "Nats-Subject")
            known["stream"] = header(frame, "Nats-Stream")  # a mirror also answers for its origin
        elif b" 404" in frame.headers.split(b"\r\n", 1)[0]:
            phase, seq = "fail", 0
    finally:
        client.history.write("get", phase, **known, **fields)
    return seq if phase == "ok" else 0


class RestPublisher(Client):
    """A client that publishes over HTTP; it repeats a request with the same idempotency key.

    It stops repeating when it gets a receipt.
    """

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self.subject = f"log.{name}"
        self._number = 0
        self._pending = ""

    def is_done(self) -> bool:
        return self.stopping.is_set() and not self._pending

    def work(self, wire: Wire) -> None:
        raise NotImplementedError("it has a connection of another kind")

    def connect(self, nats: Address, http: Address) -> None:
        connection = http_client.HTTPConnection(*http, timeout=self.time_limit)
        try:
            connection.connect()
            self.history.conn += 1
            while not self.is_done() and self._publish(connection):
                self.stopping.wait(0.05)
        finally:
            connection.close()
        self.stopping.wait(0.05)

    def _publish(self, connection: http_client.HTTPConnection) -> bool:
        if not self._pending:
            self._number += 1
            self._pending = f"{self.name}-{self._number}"
        op, value = self.history.next_op(), self._pending
        self.history.write(
            "publish",
            "invoke",
            op=op,
            stream="LOG",
            subject=self.subject,
            value=value,
            identified=True,
        )
        phase: Any = "unknown"
        fields: dict[str, Any] = {}
        try:
            key = {"Idempotency-Key": f'"{value}"', "Content-Type": "text/plain"}
            connection.request("POST", f"/v1/subjects/{self.subject}", value, key)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status in (200, 201):
                phase, self._pending = "ok", ""
                fields = {"seq": json.loads(body)["seq"], "duplicate": answer.status == 200}
            else:
                fields = {"text": f"{answer.status} {body[:200].decode(errors='replace')}"}
        except http_client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            self.history.write("publish", phase, op=op, stream="LOG", value=value, **fields)
        return not self._pending
