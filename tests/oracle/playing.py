"""Plays a history against one server, as a single client; what it sees is made comparable."""

import json
import re
from typing import Any

from tests.oracle.histories import CONSUMERS, FAR_AHEAD, LONG_AGO, Fields, Step
from tests.support.wire import Frame, Silence, Wire

Seen = Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_ZERO = "0001-01-01T00:00:00Z"
_ACK_TIME = re.compile(r"(\$JS\.ACK(?:\.[^.]+){5})\.\d+\.")
_STAMP = re.compile(r"Nats-Time-Stamp: [^\r]*")
_UNTOLD = ("cluster", "pause_remaining")
_PATIENCE = 20.0
_HELD = 10.0  # seconds after which an acknowledgement counts as unanswered


class Player:
    """One stream on one server and the client that uses it.

    Args:
        address: Of the server.
        name: Of the stream.
    """

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.wire = Wire(address, timeout=_PATIENCE)
        self.wire.hello()
        self.name = name
        self.config: Fields = {}
        self.consumers: dict[int, Fields] = {}
        self.delivered: list[bytes] = []
        self._fetches = self._batches = 0
        self._ear = Wire(address, timeout=_PATIENCE)
        self._ear.hello()
        self._ear.send(b"SUB rp.> rp\r\nSUB pd.> pd\r\n")
        self._ear.flush()
        self._heard: list[tuple[str, str, str, str]] = []
        self._pushed: list[bytes] = []

    def close(self) -> None:
        self.wire.api(f"STREAM.DELETE.{self.name}")
        self.wire.close()
        self._ear.close()

    # -- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> Seen:
        """Do one step and return what is seen of it, without times and made-up names."""
        verb, *given = step
        method = getattr(self, "_" + verb.replace(" ", "_"))
        return method(*given)

    def look(self) -> Seen:
        """The stream and its consumers as they are, and all that came by itself."""
        asked = {"subjects_filter": ">", "deleted_details": True}
        infos = {"stream": self._api("STREAM.INFO", asked)}
        for number in range(CONSUMERS):
            if number in self.consumers:
                infos[f"C{number}"] = self._api("CONSUMER.INFO", None, number)
        for frame in self._ear.flush():
            self._heard.append(_message(frame))
            if frame.reply.startswith(b"$JS.ACK"):
                self._pushed.append(frame.reply)
        infos["heard"] = sorted(self._heard)  # consumers take turns as they like
        return infos

    def _api(self, verb: str, body: Any, consumer: int | None = None) -> Seen:
        tail = "" if consumer is None else f".C{consumer}"
        return _plain(self.wire.api(f"{verb}.{self.name}{tail}", body))

    def _stream(self, config: Fields) -> Seen:
        self.config = {**config, "name": self.name}
        return self._api("STREAM.CREATE", self.config)

    def _update(self, changed: Fields) -> Seen:
        config = {**self.config, **changed}
        answer = self._api("STREAM.UPDATE", config)
        if "error" not in answer:
            self.config = config
        return answer

    def _publish(self, subject: str, given: list[tuple[str, str]], payload: str) -> Seen:
        return self.wire.request(subject, payload.encode(), self._block(given)).payload.decode()

    def _block(self, given: list[tuple[str, str]]) -> bytes:
        lines = "".join(f"{k}: {self.name if v == '@' else v}\r\n" for k, v in given)
        return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""

    def _batch(self, messages: list[tuple[str, list[tuple[str, str]], str]], commit: str) -> Seen:
        self._batches += 1
        inbox = b"_INBOX.batch.%d" % self._batches
        self.wire.send(b"SUB %b.* b%d\r\n" % (inbox, self._batches))
        for place, (subject, given, payload) in enumerate(messages, 1):
            own = [("Nats-Batch-Id", f"b{self._batches}"), ("Nats-Batch-Sequence", str(place))]
            if place == len(messages):
                own.append(("Nats-Batch-Commit", commit))
            reply = inbox + b".%d" % place
            block = self._block(given + own)
            self.wire.publish(subject, payload.encode(), reply=reply, headers=block)
        seen = [_answer(self.wire.frame())]
        while seen[-1][0] != str(len(messages)):
            seen.append(_answer(self.wire.frame()))
        self.wire.send(b"UNSUB b%d\r\n" % self._batches)
        return seen

    def _consumer(self, number: int, config: Fields, action: str, is_durable: bool) -> Seen:
        name = f"C{number}"
        config = {**config, "name": name} | ({"durable_name": name} if is_durable else {})
        if _filters(self.consumers.get(number, {})) and not _filters(config):
            return None  # the reference server then tells the consumer of no new message
        body = {"stream_name": self.name, "config": config, "action": action}
        answer = self._api("CONSUMER.CREATE", body, number)
        if "error" not in answer:
            self.consumers[number] = config
        return answer

    def _fetch(self, number: int, asked: Fields) -> Seen:
        if number not in self.consumers:
            return None
        self._fetches += 1
        inbox = b"_INBOX.fetch.%d" % self._fetches
        self.wire.send(b"SUB %b f%d\r\n" % (inbox, self._fetches))
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.C{number}"
        self.wire.publish(subject, json.dumps(asked).encode(), reply=inbox)
        seen: list[Any] = []
        while len(seen) < asked["batch"] and not (seen and seen[-1][2].startswith("NATS/1.0 ")):
            try:
                frame = self.wire.frame()
            except Silence:  # a request whose bytes are used up to the last ends without a word
                seen.append(("silence", "", "", ""))
                break
            seen.append(_message(frame))
            if frame.reply.startswith(b"$JS.ACK"):
                self.delivered.append(frame.reply)
        self.wire.send(b"UNSUB f%d\r\n" % self._fetches)
        return seen

    def _ack(self, which: int, kind: str) -> Seen:
        delivered = self.delivered + sorted(self._pushed, key=_untimed)
        if not delivered:
            return None
        subject = delivered[which % len(delivered)].decode()
        try:
            return _message(self.wire.request(subject, kind.encode(), timeout=_HELD))
        except Silence:
            return "silence"

    def _purge(self, asked: Fields) -> Seen:
        return self._api("STREAM.PURGE", asked)

    def _delete_message(self, seq: int, no_erase: bool) -> Seen:
        return self._api("STREAM.MSG.DELETE", {"seq": seq, "no_erase": no_erase})

    def _get(self, question: Fields) -> Seen:
        return self._api("STREAM.MSG.GET", question)

    def _direct(self, question: Fields) -> Seen:
        if not self.config.get("allow_direct"):
            return None
        self._fetches += 1
        inbox = b"_INBOX.direct.%d" % self._fetches
        self.wire.send(b"SUB %b f%d\r\n" % (inbox, self._fetches))
        body = json.dumps(question).encode()
        self.wire.publish(f"$JS.API.DIRECT.GET.{self.name}", body, reply=inbox)
        is_batch = "batch" in question or "multi_last" in question
        seen = [_message(self.wire.frame())]
        while is_batch and not seen[-1][2].startswith("NATS/1.0 "):
            seen.append(_message(self.wire.frame()))
        self.wire.send(b"UNSUB f%d\r\n" % self._fetches)
        return seen

    def _delete_consumer(self, number: int) -> Seen:
        self.consumers.pop(number, None)
        return self._api("CONSUMER.DELETE", None, number)

    def _reset(self, number: int, seq: int) -> Seen:
        # Where there is no consumer nobody answers.
        known = number in self.consumers
        return self._api("CONSUMER.RESET", {"seq": seq} if seq else None, number) if known else None

    def _pause(self, number: int, until: str | None) -> Seen:
        return self._api("CONSUMER.PAUSE", {"pause_until": until} if until else {}, number)

    def _unpin(self, number: int) -> Seen:
        return self._api("CONSUMER.UNPIN", {"group": "g"}, number)


def _filters(config: Fields) -> Any:
    return config.get("filter_subject") or config.get("filter_subjects")


def _plain(value: Any) -> Any:
    """JSON without what differs from run to run."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items() if name not in _UNTOLD}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    is_time = isinstance(value, str) and _TIME.fullmatch(value)
    return "<time>" if is_time and value not in (_ZERO, LONG_AGO, FAR_AHEAD) else value


def _untimed(ack: bytes) -> str:
    return _ACK_TIME.sub(r"\1.<time>.", ack.decode())


def _answer(frame: Frame) -> tuple[str, str]:
    """The place in its batch of the message that is answered, and the answer."""
    return frame.subject.decode().rpartition(".")[2], frame.payload.decode()


def _message(frame: Frame) -> tuple[str, str, str, str]:
    """Subject, acknowledgement subject, headers and payload of a delivered message."""
    subject = "" if frame.subject.startswith(b"_INBOX") else frame.subject.decode()
    head = _STAMP.sub("Nats-Time-Stamp: <time>", frame.headers.decode())
    head = _ACK_TIME.sub(r"\1.<time>.", head)
    return subject, _untimed(frame.reply), head, frame.payload.decode()
