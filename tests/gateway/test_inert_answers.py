"""Bytes that somebody stored stay data in a browser, and are for who asked, on every route."""

# Subject: HTTP

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.routes import ROUTES
from tests.gateway.web import Web
from tests.support.jetgate import JetgateServer

PAGE = b"<script>alert(1)</script>"
INERT = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "vary": "Accept, Authorization, Cookie",
}
JSON = "application/json"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"
_NAMES = {
    "stream": "INERT",
    "seq": "1",
    "consumer": "C",
    "bucket": "INERT",
    "key": "k",
    "name": "o",
    "subject": "inert.a",
}
FORMS: dict[str, list[tuple[str, str, Any]]] = {
    "findMessage": [("?last_by=inert.a", accept, None) for accept in ("", JSON)],
    "readMessage": [("", "", None), ("", JSON, None)],
    "readMessages": [("", JSON, {}), ("", LINES, {})],
    "request": [("", "", "x"), ("?replies=1", LINES, "x")],
    "tailStream": [("", EVENTS, None)],
    "tailSubject": [("", EVENTS, None)],
    "listSubjects": [("", JSON, None)],
    "fetchMessages": [
        ("", JSON, {"batch": 1}),
        ("", LINES, {"batch": 1}),
        ("", "", {"raw": True}),
    ],
    "ackAndFetchMessages": [("", JSON, {"tokens": ["none"], "batch": 1})],
    "readKey": [("", "", None), ("", JSON, None)],
    "readKeyHistory": [("", JSON, None), ("", LINES, None)],
    "listKeys": [("", JSON, None), ("", LINES, None)],
    "watchKeys": [("", LINES, None), ("", EVENTS, None)],
    "readObject": [("", "", None)],
    "readObjectInfo": [("", JSON, None)],
    "listObjects": [("", JSON, None), ("", LINES, None)],
    "watchObjects": [("", LINES, None), ("", EVENTS, None)],
    "putObject": [("", "", "x")],
    "patchObject": [("", "", {"description": "x"})],
    "linkObject": [("", "", {"bucket": "INERT", "name": "o"})],
    "followAdvisories": [("", EVENTS, None)],
}
"""Query, Accept and body of the forms that answers of these operations have."""
NOT_INERT = (
    *("publishMessage", "publishBatch", "publishAtomic", "deleteMessage", "putKey", "deleteKey"),
    *("purgeKey", "deleteObject", "purgeStream", "redriveDeadLetters", "cleanKvBucket"),
    *("cleanObjectStore", "sealObjectStore", "ackMessages", "nakMessages", "termMessages"),
    *("progressMessages", "openWebSocket"),
    *("listStreams", "listStreamNames", "createStream", "readStream", "putStream", "patchStream"),
    *("deleteStream", "listConsumers", "createConsumer", "readConsumer", "putConsumer"),
    *("patchConsumer", "deleteConsumer", "pauseConsumer", "resumeConsumer", "unpinConsumer"),
    *("resetConsumer", "listKvBuckets", "createKvBucket", "readKvBucket", "putKvBucket"),
    *("patchKvBucket", "deleteKvBucket", "listObjectStores", "createObjectStore"),
    *("readObjectStore", "putObjectStore", "patchObjectStore", "deleteObjectStore", "readAccount"),
    *("createTicket", "createSession", "readSession", "endSession", "healthz", "readyz"),
    *("metrics", "readOpenApi", "readAsyncApi", "showConsole", "readConsoleStyle"),
    *("readConsoleModule", "readDocs", "listProblems", "readProblem"),
)
"""Operations that answer with what the server says, or with configurations."""


def test_every_operation_is_one_or_the_other() -> None:
    assert sorted((*FORMS, *NOT_INERT)) == sorted(operation.id for operation in ROUTES)


def _head(web: Web, method: str, path: str, accept: str, body: Any) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer, which may have no end."""
    headers = {"Accept": accept} if accept else {}
    data = body.encode() if isinstance(body, str) else None
    if body is not None and data is None:
        headers["Content-Type"] = JSON
        data = json.dumps(body).encode()
    connection = http.client.HTTPConnection(*web.address, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


@pytest.fixture(scope="module")
def stored(jetgate_server: JetgateServer) -> Iterator[Web]:
    """A page in a stream, a bucket and an object store."""
    web = Web(jetgate_server.http)
    stream = {"name": "INERT", "subjects": ["inert.>"], "allow_direct": True}
    for method, path, value in (
        ("POST", "/v1/streams", stream),
        ("PUT", "/v1/kv/INERT", {}),
        ("PUT", "/v1/objects/INERT", {}),
    ):
        assert web.json(method, path, value).status == 201
    consumer = web.json("PUT", "/v1/streams/INERT/consumers/C", {"ack_policy": "explicit"})
    assert consumer.status == 201, consumer
    for method, path in (
        ("POST", "/v1/subjects/inert.a"),
        ("POST", "/v1/subjects/inert.a"),
        ("POST", "/v1/subjects/inert.a"),
        ("PUT", "/v1/kv/INERT/k"),
        ("PUT", "/v1/objects/INERT/o"),
    ):
        answer = web.send(method, path, PAGE, {"Content-Type": "text/html"})
        assert answer.status in (200, 201), answer
    yield web
    for path in ("/v1/streams/INERT", "/v1/kv/INERT", "/v1/objects/INERT"):
        assert web.delete(path).status == 204


def test_stored_data_is_inert_and_cached_for_its_caller_alone(stored: Web) -> None:
    wrong = []
    for operation in ROUTES:
        for query, accept, body in FORMS.get(operation.id, ()):
            names = _NAMES | ({"name": "l"} if operation.id == "linkObject" else {})
            path = operation.path.format(**names) + query
            status, headers = _head(stored, operation.method, path, accept, body)
            assert status in (200, 201), (operation.id, accept, status)
            found = {name: headers.get(name) for name in INERT}
            if found != INERT or "html" in headers["content-type"]:
                wrong.append((operation.id, accept, headers))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/INERT/messages/1",
        "/v1/kv/INERT/k",
        "/v1/objects/INERT/o",
        "/v1/objects/INERT/o:info",
    ],
)
def test_a_304_is_cached_for_its_caller_alone_too(stored: Web, path: str) -> None:
    tag = stored.get(path).headers["etag"]
    answer = stored.get(path, If_None_Match=tag)
    assert answer.status == 304
    assert answer.headers["vary"] == INERT["vary"]
    assert answer.headers["etag"] == tag
