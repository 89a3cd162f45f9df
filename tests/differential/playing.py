"""A player of histories against one server, as a single client, with comparable observations."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Self

from core.subjects.subject import compile_filters, is_subset
from tests.differential.common import Fields, Step, removed_filters
from tests.differential.histories import CONSUMERS, FAR_AHEAD, LONG_AGO
from tests.differential.volleys import GAP, PIN
from tests.support.wire import Frame, Silence, Wire

Seen = Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_ZERO = "0001-01-01T00:00:00Z"
_ACK_TIME = re.compile(r"(\$JS\.ACK(?:\.[^.]+){5})\.\d+\.")
_STAMP = re.compile(r"Nats-Time-Stamp: [^\r]*")
_PIN = re.compile(r"(Nats-Pin-Id: )(\w+)")
_LAST = re.compile(r"(Nats-Last-Stream: )\d+")
_UNTOLD = ("cluster", "pause_remaining", "pinned_client_id")
_BEAT, _ENDS = "NATS/1.0 100 ", ("NATS/1.0 4", "NATS/1.0 503")
_TIME_LIMIT = 20.0
_HELD = 10.0  # seconds after which an acknowledgement counts as unanswered


class Player:
    """One stream on one server, and the client that uses it.

    Args:
        address: Address of the server.
        name: Name of the stream.
    """

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.wire = Wire(address, timeout=_TIME_LIMIT)
        self.wire.hello()
        self.name = name
        self.config: Fields = {}
        self.consumers: dict[int, Fields] = {}
        self.delivered: list[bytes] = []
        self._fetches = self._batches = 0
        self._pins: dict[int, str] = {}
        self._ear = Wire(address, timeout=_TIME_LIMIT)
        self._ear.hello()
        self._ear.send(b"SUB rp.> rp\r\nSUB pd.> pd\r\nSUB pq.> q pq\r\n")
        self._ear.flush()
        self._heard: list[tuple[str, str, str, str]] = []
        # The last infos of consumers, and those whose ack floor is not compared, see `common`.
        self._infos: dict[str, Seen] = {}
        self._floorless: set[str] = set()
        self._pushed: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.wire.api(f"STREAM.DELETE.{self.name}")
        self.wire.close()
        self._ear.close()

    # -- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> Seen:
        """Perform one step and return its answers, without times and generated names."""
        verb, *given = step
        if self._strands(step):
            return None
        method = getattr(self, "_" + verb.replace(" ", "_"))
        try:
            return method(*given)
        except Silence:
            return "silence"

    def observe(self) -> Seen:
        """Return the infos of the stream and its consumers, and all messages that were pushed."""
        asked = {"subjects_filter": ">", "deleted_details": True}
        infos = {"stream": self._api("STREAM.INFO", asked)}
        for number in range(CONSUMERS):
            if number in self.consumers:
                infos[f"C{number}"] = self._api("CONSUMER.INFO", None, number)
        self._infos = dict(infos)
        for name in filter(self._has_vague_floor, list(infos)):
            infos[name] = {**infos[name], "ack_floor": "<any>"}
        for frame in self._ear.flush():
            self._heard.append(_message(frame))
            if frame.reply.startswith(b"$JS.ACK"):
                self._pushed.append(frame.reply)
        infos["heard"] = sorted(self._heard)  # the order among consumers is arbitrary
        return infos

    def _has_vague_floor(self, name: str) -> bool:
        """Return True if the ack floor of a consumer is not compared.

        When the first pending message has reached its maximum of deliveries, nats-server keeps the
        floor before it until no message is pending; jetgate advances it.
        """
        info = self._infos[name]
        gives_up = info.get("config", {}).get("max_deliver", -1) > 0
        return name in self._floorless or (gives_up and info["num_ack_pending"] > 0)

    def _strands(self, step: Step) -> bool:
        """Return True if a step is left out, see `removed_filters`; else record affected floors."""
        first = self._infos.get("stream", {}).get("state", {}).get("first_seq", 0)
        wide = {name for pattern in removed_filters(step) for name in self._pending_beside(pattern)}
        if any(self._infos[name]["ack_floor"]["stream_seq"] >= first for name in wide):
            return True
        self._floorless |= wide
        return False

    def _pending_beside(self, pattern: str) -> Iterator[str]:
        """Yield the consumers with pending messages and filters that are wider than a pattern."""
        for number, config in self.consumers.items():
            info = self._infos.get(f"C{number}", {})
            filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
            inside = all(is_subset(each.encode(), pattern.encode()) for each in filters)
            if info.get("num_ack_pending") and not inside:
                yield f"C{number}"

    def _api(self, verb: str, body: Any, consumer: int | None = None) -> Seen:
        tail = "" if consumer is None else f".C{consumer}"
        return _plain(self.wire.api(f"{verb}.{self.name}{tail}", body))

    def _stream(self, config: Fields) -> Seen:
        self.config = {**config, "name": self.name}
        return self._api("STREAM.CREATE", self.config)

    def _update(self, changed: Fields) -> Seen:
        config = _changed(self.config, changed)
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
        taken = compile_filters([each.encode() for each in self.config["subjects"]])
        if taken is None or not all(taken(subject.encode()) for subject, _, _ in messages):
            return None  # a message that no stream accepts is answered before the rest
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
        if number in self.consumers and not self._is_alike(number, config):
            return None
        body = {"stream_name": self.name, "config": config, "action": action}
        return self._configured(number, config, self._api("CONSUMER.CREATE", body, number))

    def _is_alike(self, number: int, config: Fields) -> bool:
        """Return True if a consumer may get a configuration.

        When a change removes all filters, nats-server sends no new messages to the consumer. When
        it changes filters while messages are pending, nats-server does not notify the consumer of
        their removal. With last per subject, nats-server then counts the last message of each
        subject, and delivers others too.
        """
        before = self.consumers[number]
        if _filters(before) == _filters(config):
            return True
        is_pending = self._infos.get(f"C{number}", {}).get("num_ack_pending")
        is_chosen = before.get("deliver_policy") == "last_per_subject"
        return bool(_filters(config)) and not (is_pending or is_chosen)

    def _configured(self, number: int, config: Fields, answer: Any) -> Seen:
        """Record an accepted configuration; return the part of the answer to compare."""
        if "error" in answer:
            return answer
        before = self.consumers.get(number)
        self.consumers[number] = config
        if before is not None and _filters(before) != _filters(config):
            # With interest retention, messages may be removed that nats-server's answer still
            # counts.
            return answer["config"]
        return answer

    def _alter(self, number: int, changed: Fields) -> Seen:
        before = self.consumers.get(number)
        if before is None:
            return None
        if _filters(changed):
            before = {name: before[name] for name in before if not name.startswith("filter_")}
        config = _changed(before, changed)
        if not self._is_alike(number, config):
            return None
        body = {"stream_name": self.name, "config": config, "action": "update"}
        return self._configured(number, config, self._api("CONSUMER.CREATE", body, number))

    def _fetch(self, number: int, asked: Fields) -> Seen:
        if number not in self.consumers:
            return None
        self._fetches += 1
        inbox = b"_INBOX.fetch.%d" % self._fetches
        self.wire.send(b"SUB %b f%d\r\n" % (inbox, self._fetches))
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.C{number}"
        asked = self._common_pull(number, asked)
        self.wire.publish(subject, json.dumps(asked).encode(), reply=inbox)
        seen: list[Any] = []
        while len(seen) < asked["batch"] and not (seen and seen[-1][2].startswith("NATS/1.0 ")):
            try:
                frame = self.wire.frame()
            except Silence:  # a request that has used exactly all its bytes ends without a status
                seen.append(("silence", "", "", ""))
                break
            seen.append(_message(frame))
            if frame.reply.startswith(b"$JS.ACK"):
                self.delivered.append(frame.reply)
        self.wire.send(b"UNSUB f%d\r\n" % self._fetches)
        return seen

    def _volley(self, actions: list[Step]) -> Seen:
        """Perform some actions, `GAP` seconds apart, and record answers until all requests end."""
        self._fetches += 1
        volley = Volley(self.wire, b"_INBOX.volley.%d" % self._fetches)
        for place, (verb, *given) in enumerate(actions):
            if verb == "pull":
                self._send_pull(volley, place, *given)
            elif verb == "ack":
                delivered = self.delivered + sorted(self._pushed, key=_untimed)
                if delivered:
                    subject = delivered[given[0] % len(delivered)].decode()
                    volley.send(place, subject, given[1])
            else:
                subject, headers, payload = given
                volley.send(place, subject, payload, self._block(headers))
            self.delivered += sorted(volley.gather(GAP), key=_untimed)
        self.delivered += sorted(volley.gather(volley.left()), key=_untimed)
        volley.close()
        for place, pin in volley.pins.items():
            self._pins[actions[place][1]] = pin
        return volley.seen

    def _send_pull(self, volley: "Volley", place: int, number: int, asked: Fields) -> None:
        if number not in self.consumers:
            return
        asked = self._common_pull(number, asked)
        if asked.get("id") == PIN:
            asked = {**asked, "id": self._pins.get(number, "none")}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.C{number}"
        volley.send(place, subject, json.dumps(asked))
        if "expires" in asked:
            volley.expect(place, asked["batch"], asked["expires"] / 1e9 + GAP)

    def _common_pull(self, number: int, asked: Fields) -> Fields:
        """Return the members of a pull request that both servers interpret alike.

        With last per subject, nats-server redelivers a message that is too large with the next
        request.
        """
        if self.consumers[number].get("deliver_policy") == "last_per_subject":
            return {name: value for name, value in asked.items() if name != "max_bytes"}
        return asked

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
        if "keep" in asked:
            state = self._api("STREAM.INFO", None).get("state", {})
            if not state.get("last_seq"):
                return None  # nothing was ever stored: the stream then begins at 0 there
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

    def _direct_last(self, subject: str) -> Seen:
        if not self.config.get("allow_direct"):
            return None
        return _message(self.wire.request(f"$JS.API.DIRECT.GET.{self.name}.{subject}"))

    def _ask(self, verb: str, body: Fields) -> Seen:
        return self._api(verb, body)

    def _delete_consumer(self, number: int) -> Seen:
        self.consumers.pop(number, None)
        self._floorless.discard(f"C{number}")
        return self._api("CONSUMER.DELETE", None, number)

    def _reset(self, number: int, seq: int) -> Seen:
        # Without a consumer no server answers.
        known = number in self.consumers
        return self._api("CONSUMER.RESET", {"seq": seq} if seq else None, number) if known else None

    def _pause(self, number: int, until: str | None) -> Seen:
        return self._api("CONSUMER.PAUSE", {"pause_until": until} if until else {}, number)

    def _unpin(self, number: int) -> Seen:
        return self._api("CONSUMER.UNPIN", {"group": "g"}, number)


class Volley:
    """The answers to actions that were sent at almost the same time, by index of the action.

    Consecutive idle heartbeats count as one, because their number depends on timing.

    Attributes:
        seen: The answers to each action.
        pins: The pin id in the answers to each request.
    """

    def __init__(self, wire: Wire, inbox: bytes) -> None:
        self._wire, self._inbox = wire, inbox
        self.seen: dict[int, list[Any]] = {}
        self.pins: dict[int, str] = {}
        self._places: dict[bytes, int] = {}
        # The end time of each open request, and its number of remaining messages.
        self._ends: dict[int, float] = {}
        self._asked: dict[int, int] = {}

    def send(self, place: int, subject: str, payload: str, headers: bytes = b"") -> None:
        """Publish with a unique reply subject, whose subscription identifies the answers."""
        reply = b"%b.%d" % (self._inbox, place)
        self._places[reply] = place
        self._wire.send(b"SUB %b %b\r\n" % (reply, reply))
        self._wire.publish(subject, payload.encode(), reply=reply, headers=headers)

    def expect(self, place: int, batch: int, seconds: float) -> None:
        """Register the number of messages and the end of a request."""
        self._ends[place], self._asked[place] = time.monotonic() + seconds, max(batch, 1)

    def left(self) -> float:
        """Return the seconds until all requests have ended."""
        return max(self._ends.values(), default=0.0) - time.monotonic()

    def close(self) -> None:
        """Unsubscribe from all answers."""
        self._wire.send(b"".join(b"UNSUB %b\r\n" % reply for reply in self._places))
        self._wire.flush()

    def gather(self, seconds: float) -> list[bytes]:
        """Record frames that arrive within some seconds; return the ack subjects of deliveries."""
        end, delivered = time.monotonic() + seconds, list[bytes]()
        while (left := end - time.monotonic()) > 0:
            try:
                frame = self._wire.frame(left)
            except Silence:
                break
            if frame.reply.startswith(b"$JS.ACK"):
                delivered.append(frame.reply)
            self._note(frame)
        return delivered

    def _note(self, frame: Frame) -> None:
        place = self._places.get(frame.line.split(b" ")[2])
        if place is None:
            return  # an answer to an earlier volley
        told, seen = _message(frame), self.seen.setdefault(place, [])
        if told[2].startswith(_BEAT):
            told = (*told[:2], _LAST.sub(r"\1<any>", told[2]), told[3])
        pin = _PIN.search(told[2])
        if pin is not None:
            told = (*told[:2], _PIN.sub(r"\1<id>", told[2]), told[3])
            self.pins[place] = pin[2]
        if frame.reply:
            self._asked[place] = self._asked.get(place, 1) - 1
        if told[2].startswith(_ENDS) or self._asked.get(place) == 0:
            self._ends.pop(place, None)
        if not (told[2].startswith(_BEAT) and seen and seen[-1] == told):
            seen.append(told)


def _changed(config: Fields, changed: Fields) -> Fields:
    """Return a configuration with changed members; None removes one."""
    return {name: value for name, value in {**config, **changed}.items() if value is not None}


def _filters(config: Fields) -> Any:
    return config.get("filter_subject") or config.get("filter_subjects")


def _plain(value: Any) -> Any:
    """Return JSON without members that differ from run to run."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items() if name not in _UNTOLD}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    is_time = isinstance(value, str) and _TIME.fullmatch(value)
    return "<time>" if is_time and value not in (_ZERO, LONG_AGO, FAR_AHEAD) else value


def _untimed(ack: bytes) -> str:
    return _ACK_TIME.sub(r"\1.<time>.", ack.decode())


def _answer(frame: Frame) -> tuple[str, str]:
    """Return the index of the answered message in its batch, and the answer."""
    return frame.subject.decode().rpartition(".")[2], frame.payload.decode()


def _message(frame: Frame) -> tuple[str, str, str, str]:
    """Return subject, ack subject, headers and payload of a delivered message."""
    subject = "" if frame.subject.startswith(b"_INBOX") else frame.subject.decode()
    head = _STAMP.sub("Nats-Time-Stamp: <time>", frame.headers.decode())
    head = _ACK_TIME.sub(r"\1.<time>.", head)
    return subject, _untimed(frame.reply), head, frame.payload.decode()
