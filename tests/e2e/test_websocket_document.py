"""The frames of docs/websocket.md are understood, and its table is that of the code."""

# Subject: feeds

import json
import re
from collections.abc import Iterator

import pytest

from gateway.ws.close_codes import CLOSE_CODES
from tests.gateway.sockets import Socket
from tests.gateway.web import Web
from tests.support.jetgate import ROOT, JetgateServer

TEXT = (ROOT / "docs" / "websocket.md").read_text()
FRAMES = [json.loads(line) for line in re.findall(r"^    (\{\"type\": .*\})$", TEXT, re.MULTILINE)]
ASKED = [frame for frame in FRAMES if frame["type"] in ("sub", "pub", "credit")]


@pytest.fixture
def web(jetgate_server: JetgateServer) -> Iterator[Web]:
    web = Web(jetgate_server.http)
    assert web.json("PUT", "/v1/streams/CHAT", {"subjects": ["chat.>"]}).status == 201
    web.json("PUT", "/v1/streams/CHAT/consumers/work", {"ack_policy": "explicit"})
    yield web
    web.delete("/v1/streams/CHAT")


def test_the_frames_can_be_sent(web: Web) -> None:
    assert {frame["type"] for frame in ASKED} == {"sub", "pub", "credit"}
    for frame in ASKED:
        with Socket(web.address) as ws:
            ws.send(frame)
            if "id" in frame:
                answer = ws.answer(frame["id"])
                assert answer["type"] in ("subscribed", "published"), (frame, answer)
            assert ws.ask("ping")["type"] == "pong"


def test_the_close_codes_are_those_of_the_code() -> None:
    rows = [
        f"| {row.code} | {row.name} | {row.remedy.value} | {row.description} |"
        for row in CLOSE_CODES
    ]
    assert re.findall(r"^\| \d{4} \| .*", TEXT, re.MULTILINE) == rows
