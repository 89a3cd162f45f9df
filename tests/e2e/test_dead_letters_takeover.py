"""A leader dies before a dead letter has its stream; the node that takes over stores it."""

# Subject: dead letters

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.test_commands import Process, request, serve
from tests.support.eventually import eventually
from tests.support.pg import PostgresServer

CONSUMER = "/v1/streams/JOBS/consumers/C"


def _post(ports: dict[str, str], path: str, body: Any) -> Any:
    status, text = request(ports, "POST", path, json.dumps(body))
    assert status in (200, 201), text
    return json.loads(text)


def _serves(node: Process) -> bool:
    return "all streams are led" in node.stderr()


def test_the_next_leader_stores_the_letters_of_the_last(
    durable: PostgresServer, tmp_path: Path
) -> None:
    dsn = durable.fresh_database()
    consumer = {"ack_policy": "explicit", "metadata": {"jetgate.dead_letter": "DEAD"}}
    with serve(dsn, tmp_path / "first") as first, serve(dsn, tmp_path / "second") as second:
        for node in (first, second):
            eventually(partial(_serves, node), within=120)
        leader, other = first, second
        ports = leader.ports
        request(ports, "PUT", "/v1/streams/JOBS", '{"subjects": ["j"], "retention": "workqueue"}')
        request(ports, "PUT", CONSUMER, json.dumps(consumer))
        assert request(ports, "POST", "/v1/subjects/j", "bad")[0] == 201
        (message,) = _post(ports, CONSUMER + ":fetch", {"expires": "30s"})["messages"]
        term = {"tokens": [message["token"]], "reason": "why", "sync": True}
        assert _post(ports, CONSUMER + ":term", term)["succeeded"] == 1

        leader.send(signal.SIGKILL)
        ports = other.ports
        # What the one that was killed was asked is answered by nobody.
        created = "PUT", "/v1/streams/DEAD", '{"allow_direct": true}'
        eventually(lambda: request(ports, *created)[0] in (200, 201), within=120)

        def dead_letters() -> list[Any]:
            return list(_post(ports, "/v1/streams/DEAD/messages:read", {})["messages"])

        (letter,) = eventually(dead_letters)
        assert (letter["text"], letter["headers"]["Jetgate-Dead-Reason-Text"]) == ("bad", ["why"])

        def left() -> int:
            state = json.loads(request(ports, "GET", "/v1/streams/JOBS")[1])["state"]
            return int(state["messages"])

        eventually(lambda: left() == 0)
