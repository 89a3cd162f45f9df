"""Dead letters over HTTP: kept, read, sent back."""

# Subject: dead letters, HTTP

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.test_consuming import ack, fetch
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

_numbers = count(1)


class Graveyard:
    """A work queue, its consumer, and the stream of its dead letters."""

    def __init__(self, web: Web) -> None:
        number = next(_numbers)
        self.web = web
        self.jobs = Stream(web, f"JOBS{number}", f"jobs{number}")
        self.dead = Stream(web, f"DEADJOBS{number}", f"DEADJOBS{number}")
        queue = {"subjects": [f"{self.jobs.prefix}.>"], "retention": "workqueue"}
        assert web.json("PUT", self.jobs.path, queue).status == 201
        assert web.json("PUT", self.dead.path, {"allow_direct": True}).status == 201
        self.consumer = self.jobs.consumer(metadata={"jetgate.dead_letter": self.dead.name})

    def terminate(self, body: bytes, **headers: str) -> None:
        before = self.count(self.dead)
        self.jobs.publish("a", body, **headers)
        (message,) = fetch(self.jobs, self.consumer, expires="30s")
        ack(self.jobs, self.consumer, "term", [message["token"]], reason="bad", sync=True)
        eventually(lambda: self.count(self.dead) == before + 1)

    def count(self, stream: Stream) -> int:
        return int(self.web.get(stream.path).json()["state"]["messages"])

    def redrive(self, **request: Any) -> Answer:
        return self.web.json("POST", f"{self.dead.path}:redrive", request)


@pytest.fixture
def yard(jetgate_server: JetgateServer) -> Iterator[Graveyard]:
    made = Graveyard(Web(jetgate_server.http))
    yield made
    for stream in (made.jobs, made.dead):
        made.web.delete(stream.path)


def test_a_letter_is_read_and_sent_back(yard: Graveyard) -> None:
    yard.terminate(b'{"n":1}', Nats_H_X="y", Nats_Msg_Id="7")
    read = yard.web.json("POST", f"{yard.dead.path}/messages:read", {}).json()
    (letter,) = read["messages"]
    eventually(lambda: yard.count(yard.jobs) == 0)

    answer = yard.redrive()
    (again,) = fetch(yard.jobs, yard.consumer, expires="30s")

    assert (letter["data"], letter["headers"]["Jetgate-Dead-Reason-Text"]) == ({"n": 1}, ["bad"])
    assert (answer.status, answer.json()) == (200, {"redriven": 1, "failed": [], "last_seq": 1})
    assert (again["subject"], again["data"]) == (yard.jobs.subject("a"), {"n": 1})
    assert again["headers"]["X"] == ["y"]
    assert not [name for name in again["headers"] if name.startswith("Jetgate-")]
    assert yard.count(yard.dead) == 0


def test_some_letters_are_sent_back(yard: Graveyard) -> None:
    for body in (b"1", b"2", b"3", b"4"):
        yard.terminate(body)

    assert yard.redrive(stream="OTHER").json()["redriven"] == 0
    assert yard.redrive(consumer="C", limit=1).json() == {
        "redriven": 1,
        "failed": [],
        "last_seq": 1,
    }
    assert yard.redrive(seqs=[3]).json()["redriven"] == 1
    assert yard.redrive(stream=yard.jobs.name, start_seq=3).json()["last_seq"] == 4
    assert yard.count(yard.dead) == 1


def test_dead_letters_that_cannot_be_sent_back_stay(yard: Graveyard) -> None:
    yard.terminate(b"1")
    yard.dead.web.publish(yard.dead.name, b"no letter")
    forged = {
        "subject": yard.dead.name,
        "headers": {"Jetgate-Dead-Subject": "$JS.API.INFO", "Jetgate-Dead-Stream": "S"},
    }
    assert "error" not in yard.web.json("POST", "/v1/publish", [forged]).json()[0]
    bytes_of_no_text = {"Nats_H_Jetgate_Dead_Subject": f"{yard.jobs.prefix}.\xff"}
    yard.web.publish(yard.dead.name, b"", Nats_H_Jetgate_Dead_Stream="S", **bytes_of_no_text)
    yard.web.delete(yard.jobs.path)

    answer = yard.redrive(seqs=[1, 2, 3, 4, 9]).json()

    problems = {failed["seq"]: failed["problem"]["status"] for failed in answer["failed"]}
    assert (answer["redriven"], problems) == (0, {1: 404, 2: 409, 3: 403, 4: 400, 9: 404})
    assert yard.count(yard.dead) == 4


def test_a_bad_request_is_refused(yard: Graveyard) -> None:
    bad: tuple[dict[str, Any], ...] = (
        {"limit": 1001},
        {"seqs": [1], "limit": 1},
        {"stream": "a.b"},
        {"x": 1},
    )
    for request in bad:
        assert yard.redrive(**request).status == 400
    assert yard.web.json("POST", "/v1/streams/NO:redrive", {}).status == 404
