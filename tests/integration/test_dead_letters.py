"""Dead letters: what is delivered too often or terminated is kept in a stream of its own."""

# Subject: dead letters

from base64 import b64decode
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Frame, Wire

_numbers = count(1)


class Desk:
    """A stream, a consumer of it, and the stream of its dead letters."""

    def __init__(self, wire: Wire) -> None:
        number = next(_numbers)
        self.wire = wire
        self.name, self.dead = f"DL{number}", f"DEAD{number}"
        wire.send(b"SUB dl.in.> 1\r\n")

    def create(self, **config: Any) -> None:
        config = {"name": self.name, "subjects": [f"{self.name}.>"]} | config
        self.api(f"STREAM.CREATE.{config['name']}", config)

    def create_dead(self, **config: Any) -> None:
        self.create(**{"name": self.dead, "subjects": [self.dead]} | config)

    def api(self, verb: str, body: Any = None) -> Any:
        answer = self.wire.api(verb, body)
        assert "error" not in answer, answer
        return answer

    def consumer(self, name: str = "C", **config: Any) -> Any:
        metadata = {"jetgate.dead_letter": self.dead}
        config = {"durable_name": name, "ack_policy": "explicit", "metadata": metadata} | config
        request = {"stream_name": self.name, "config": config}
        return self.wire.api(f"CONSUMER.CREATE.{self.name}.{name}", request)

    def publish(self, rest: str, body: bytes = b"x", headers: bytes = b"") -> None:
        assert "seq" in self.wire.request(f"{self.name}.{rest}", body, headers).json()

    def pull(self, name: str = "C", *, within: float = 10.0) -> Frame:
        """What answers a request for one message: the message, or that there is none in time."""
        inbox = f"dl.in.{self.name}".encode()
        asked = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{name}"
        body = b'{"batch":1,"expires":%d}' % int(within * 1e9)
        self.wire.publish(asked, body, reply=inbox)
        while b" 1 " not in (frame := self.wire.frame()).line:
            pass
        return frame

    def ack(self, frame: Frame, verb: bytes) -> None:
        self.wire.request(frame.reply.decode(), verb)

    def dead_letters(self, number: int) -> list[dict[str, Any]]:
        """The letters, once there are so many."""

        def stored() -> bool:
            answer = self.wire.api(f"STREAM.INFO.{self.dead}")
            return bool(answer["state"]["messages"] >= number)

        eventually(stored)
        last = self.api(f"STREAM.INFO.{self.dead}")["state"]["last_seq"]
        asked = ({"seq": seq} for seq in range(1, last + 1))
        return [_dead_letter(self.wire, self.dead, request) for request in asked]

    def left(self) -> int:
        return int(self.api(f"STREAM.INFO.{self.name}")["state"]["messages"])


def _dead_letter(wire: Wire, dead: str, request: dict[str, int]) -> dict[str, Any]:
    message = wire.api(f"STREAM.MSG.GET.{dead}", request)["message"]
    block = b64decode(message.get("hdrs", "")).decode()
    lines = (line.partition(": ") for line in block.split("\r\n")[1:] if line)
    headers = {name.removeprefix("Jetgate-Dead-"): value for name, _, value in lines}
    body = b64decode(message.get("data", ""))
    return {"subject": message["subject"], "body": body} | headers


@pytest.fixture
def desk(jetgate_server: JetgateServer) -> Iterator[Desk]:
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        desk = Desk(wire)
        yield desk
        for name in (desk.name, desk.dead):
            wire.api(f"STREAM.DELETE.{name}")


def test_a_message_beyond_max_deliver_is_kept(desk: Desk) -> None:
    desk.create()
    desk.create_dead()
    desk.consumer(max_deliver=2)
    desk.publish("a", b"bad", b"NATS/1.0\r\nX: y\r\nNats-Msg-Id: 7\r\n\r\n")
    for _ in range(2):
        desk.ack(desk.pull(), b"-NAK")
    desk.pull(within=0.05)  # now it would be delivered for the third time

    (letter,) = desk.dead_letters(1)
    assert letter.pop("Time").endswith("Z")
    assert letter == {
        "subject": f"{desk.dead}.{desk.name}.C.{desk.name}.a",
        "body": b"bad",
        "X": "y",
        "Kept-Nats-Msg-Id": "7",
        "Stream": desk.name,
        "Consumer": "C",
        "Subject": f"{desk.name}.a",
        "Sequence": "1",
        "Deliveries": "2",
        "Reason": "max_deliver",
    }
    info = desk.api(f"CONSUMER.INFO.{desk.name}.C")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (0, 1)
    assert desk.left() == 1  # limits alone decide in this stream


def test_a_message_whose_ack_wait_runs_out_is_kept(desk: Desk) -> None:
    desk.create()
    desk.create_dead()
    desk.consumer(max_deliver=1, ack_wait=50_000_000)
    desk.publish("a", b"slow")
    assert desk.pull().payload == b"slow"

    (letter,) = desk.dead_letters(1)

    assert (letter["body"], letter["Reason"], letter["Deliveries"]) == (b"slow", "max_deliver", "1")


def test_a_terminated_job_moves_from_its_queue(desk: Desk) -> None:
    desk.create(retention="workqueue")
    desk.create_dead()
    desk.consumer()
    for body in (b"1", b"2"):
        desk.publish("job", body)
    desk.ack(desk.pull(), b"+TERM cannot\tbe")
    desk.ack(desk.pull(), b"+ACK")

    (letter,) = desk.dead_letters(1)

    assert (letter["body"], letter["Reason"]) == (b"1", "terminated")
    assert letter["Reason-Text"] == "cannot be"
    eventually(lambda: desk.left() == 0)


def test_two_consumers_bury_the_same_message_each(desk: Desk) -> None:
    desk.create(retention="interest")
    desk.create_dead()
    for name in ("C", "D"):
        desk.consumer(name)
    desk.publish("a", b"x", b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n")
    for name in ("C", "D"):
        desk.ack(desk.pull(name), b"+TERM")

    dead_letters = desk.dead_letters(2)

    assert sorted(letter["Consumer"] for letter in dead_letters) == ["C", "D"]
    assert [letter["body"] for letter in dead_letters] == [b"x", b"x"]
    eventually(lambda: desk.left() == 0)


def test_policy_all_buries_what_is_terminated_alone(desk: Desk) -> None:
    desk.create()
    desk.create_dead()
    desk.consumer(ack_policy="all")
    for body in (b"1", b"2"):
        desk.publish("a", body)
    desk.pull()
    desk.ack(desk.pull(), b"+TERM")

    (letter,) = desk.dead_letters(1)

    assert letter["body"] == b"2"


def test_letters_wait_for_their_stream_and_hold_up_deliveries(desk: Desk) -> None:
    desk.create(retention="workqueue")
    desk.consumer(max_ack_pending=2)
    for body in (b"1", b"2", b"3"):
        desk.publish("a", body)
    for _ in range(2):
        desk.ack(desk.pull(), b"+TERM")
    assert b"408" in desk.pull(within=0.05).headers
    assert desk.left() == 3

    desk.create_dead()

    assert [letter["body"] for letter in desk.dead_letters(2)] == [b"1", b"2"]
    eventually(lambda: desk.left() == 1)
    assert desk.pull().payload == b"3"


def test_a_message_that_is_gone_leaves_a_letter(desk: Desk) -> None:
    desk.create()
    desk.consumer()
    desk.publish("a", b"secret")
    desk.ack(desk.pull(), b"+TERM")
    desk.api(f"STREAM.MSG.DELETE.{desk.name}", {"seq": 1})
    desk.create_dead()

    (letter,) = desk.dead_letters(1)

    assert (letter["subject"], letter["body"]) == (f"{desk.dead}.{desk.name}.C", b"")
    assert (letter["Sequence"], letter["Lacks-Payload"]) == ("1", "gone")


def test_a_letter_that_is_too_large_comes_without_payload(desk: Desk) -> None:
    desk.create()
    desk.create_dead(max_msg_size=400)
    desk.consumer()
    for body in (b"1", b"x" * 500, b"3"):
        desk.publish("a", body)
        desk.ack(desk.pull(), b"+TERM")

    dead_letters = desk.dead_letters(3)

    assert [letter["body"] for letter in dead_letters] == [b"1", b"", b"3"]
    assert dead_letters[1]["Lacks-Payload"] == "too-large"


def test_headers_that_do_not_fit_beside_those_of_a_letter_are_left_out(desk: Desk) -> None:
    desk.create()
    desk.create_dead()
    desk.consumer()
    desk.publish("a", b"x", b"NATS/1.0\r\nX: %s\r\n\r\n" % (b"y" * 65_500))
    desk.ack(desk.pull(), b"+TERM")

    (letter,) = desk.dead_letters(1)

    assert ("X" in letter, letter["Lacks-Payload"]) == (False, "too-large")


@pytest.mark.parametrize("dead", [{}, {"max_msg_size": 1000}])
def test_a_letter_of_a_long_subject_holds_up_nothing(desk: Desk, dead: dict[str, int]) -> None:
    desk.create()
    desk.create_dead(**dead)
    desk.consumer(max_ack_pending=1)
    for rest in ("x" * 2040, "y" * 3800, "b"):
        desk.publish(rest, rest.encode())
        desk.ack(desk.pull(), b"+TERM")

    dead_letters = desk.dead_letters(3)

    head = f"{desk.dead}.{desk.name}.C.{desk.name}"
    assert [letter["subject"] for letter in dead_letters] == [
        f"{head}.{rest}" for rest in ("x" * 2040, "y" * 3800, "b")
    ]
    lacks = "too-large" if dead else None
    assert [letter.get("Lacks-Payload") for letter in dead_letters] == [lacks, lacks, None]


def test_a_stream_that_takes_nothing_is_asked_again(desk: Desk) -> None:
    desk.create()
    desk.create_dead(max_msg_size=10)  # not even a letter without payload
    desk.consumer()
    for body in (b"1", b"2"):
        desk.publish("a", body)
        desk.ack(desk.pull(), b"+TERM")
    assert desk.api(f"STREAM.INFO.{desk.dead}")["state"]["messages"] == 0

    config = desk.api(f"STREAM.INFO.{desk.dead}")["config"]
    desk.api(f"STREAM.UPDATE.{desk.dead}", config | {"max_msg_size": -1})

    assert [letter["Sequence"] for letter in desk.dead_letters(2)] == ["1", "2"]


def test_a_consumer_that_goes_leaves_its_letters(desk: Desk) -> None:
    desk.create()
    desk.create_dead()
    desk.consumer()
    desk.publish("a", b"1")
    frame = desk.pull()
    desk.wire.publish(frame.reply.decode(), b"+TERM")
    desk.api(f"CONSUMER.DELETE.{desk.name}.C")

    assert [letter["body"] for letter in desk.dead_letters(1)] == [b"1"]


def test_without_the_option_nothing_is_kept(desk: Desk) -> None:
    desk.create(retention="workqueue")
    desk.create_dead()
    desk.consumer(metadata={})
    desk.publish("a", b"1")
    desk.ack(desk.pull(), b"+TERM")

    eventually(lambda: desk.left() == 0)
    assert desk.api(f"STREAM.INFO.{desk.dead}")["state"]["messages"] == 0


@pytest.mark.parametrize(
    ("target", "config"),
    [("", {}), ("a.b", {}), ("{own}", {}), ("DEAD", {"ack_policy": "none"})],
)
def test_consumers_that_cannot_have_dead_letters_are_refused(
    desk: Desk, target: str, config: dict[str, Any]
) -> None:
    desk.create()
    metadata = {"jetgate.dead_letter": target.format(own=desk.name)}
    error = desk.consumer(metadata=metadata, **config)["error"]

    assert error["err_code"] == 10012
    assert error["description"].startswith("jetgate.dead_letter: ")


def test_letters_survive_a_restart_before_they_are_stored() -> None:
    with JetgateServer() as server:
        with Wire(server.address) as wire:
            wire.hello()
            desk = Desk(wire)
            desk.create(retention="workqueue")
            desk.consumer()
            for body in (b"1", b"2"):
                desk.publish("a", body)
                desk.ack(desk.pull(), b"+TERM why")
        server.restart()
        with Wire(server.address) as wire:
            wire.hello()
            desk.wire = wire
            desk.create_dead()
            dead_letters = desk.dead_letters(2)
            assert [letter["body"] for letter in dead_letters] == [b"1", b"2"]
            assert {letter["Reason-Text"] for letter in dead_letters} == {"why"}
            eventually(lambda: desk.left() == 0)
        server.restart()
        with Wire(server.address) as wire:
            wire.hello()
            desk.wire = wire
            assert len(desk.dead_letters(2)) == 2
