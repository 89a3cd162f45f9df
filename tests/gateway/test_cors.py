"""Pages of other origins: those that are allowed may ask and read, others neither."""

# Subject: HTTP sign-in, HTTP

import dataclasses
import json
from collections.abc import Iterator

import pytest

from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web, basic
from tests.support.jetgate import ROOT
from tests.support.natsserver import NatsServer

APP = "https://app.example"
UNLISTED = [
    "null",
    "https://evil.example",
    "http://app.example",
    "https://app.example.evil",
    "",
    "*",
]


@pytest.fixture(scope="module")
def shared() -> Iterator[Web]:
    """A façade with a user, for the pages of one other origin."""
    settings = dataclasses.replace(SETTINGS, cors_origins=(APP, "http://localhost:3000"))
    with (
        NatsServer({"authorization": "{ users: [{user: me, password: secret}] }"}) as nats,
        GatewayServer(nats.address, settings, with_users=True) as server,
    ):
        yield Web(server.http)
        assert server.failures == []


def _preflight(web: Web, origin: str, method: str = "PUT", headers: str = "") -> Answer:
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers:
        asked["Access-Control-Request-Headers"] = headers
    return web.send("OPTIONS", "/v1/streams/S", None, asked)


def test_an_allowed_page_may_ask(shared: Web) -> None:
    answer = _preflight(shared, APP, headers="authorization, nats-h-region, if-match")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert "nats-h-region" in answer.headers["access-control-allow-headers"]
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", UNLISTED)
def test_no_other_page_may(shared: Web, origin: str) -> None:
    answer = _preflight(shared, origin)

    assert (answer.status, answer.kind) == (403, "cors-refused")
    assert answer.headers["access-control-allow-origin"] is None
    assert "Origin" in answer.headers["vary"]


def test_a_method_that_is_none_is_refused(shared: Web) -> None:
    assert _preflight(shared, APP, "TRACE").kind == "cors-refused"


@pytest.mark.parametrize(
    ("path", "authorization", "status"),
    [
        ("/v1/session", basic("me", "secret"), 200),
        ("/v1/session", "", 401),
        ("/v1/nothing", "", 404),
        ("/healthz", "", 200),
    ],
)
def test_an_allowed_page_reads_every_answer(
    shared: Web, path: str, authorization: str, status: int
) -> None:
    answer = shared.send("GET", path, None, {"Origin": APP, "Authorization": authorization})

    assert answer.status == status
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert _exposed(answer) >= _CONTRACT
    assert answer.headers["vary"] == "Origin"


def test_an_allowed_page_reads_every_header_of_a_message(shared: Web) -> None:
    user = {"Origin": APP, "Authorization": basic("me", "secret")}
    config = json.dumps({"subjects": ["cors.>"], "allow_direct": True}).encode()
    shared.send("PUT", "/v1/streams/CORS", config, user | {"Content-Type": "application/json"})
    event = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s", "ce-id": "7"}
    shared.send("POST", "/v1/subjects/cors.x", b"1", user | event | {"Nats-H-Region": "eu"})

    answer = shared.send("GET", "/v1/streams/CORS/messages/1", None, user)
    refused = shared.send(
        "GET", "/v1/streams/CORS/messages/1", None, user | {"Origin": UNLISTED[1]}
    )

    own = {"nats-h-region", "ce-type", "ce-id", "ce-source", "ce-specversion"}
    assert {name.lower() for name in answer.headers} >= own
    assert _exposed(answer) >= own | _CONTRACT
    assert "vary" not in _exposed(answer)
    assert refused.headers["access-control-expose-headers"] is None


def _exposed(answer: Answer) -> set[str]:
    return set(answer.headers["access-control-expose-headers"].lower().split(", "))


def _headers_of_the_contract() -> set[str]:
    """Every header that an operation of the committed contract answers with."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_bytes())
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    answers = [
        *(answer for operation in operations for answer in operation["responses"].values()),
        *document["components"]["responses"].values(),
    ]
    named = {name.lower() for answer in answers for name in answer.get("headers", {})}
    assert {"repr-digest", "js-token", "retry-after"} <= named
    return named - {"set-cookie"}  # no page reads it


_CONTRACT = _headers_of_the_contract()


@pytest.mark.parametrize("origin", UNLISTED)
def test_no_other_page_reads_any(shared: Web, origin: str) -> None:
    answer = shared.send("GET", "/healthz", None, {"Origin": origin})

    assert answer.headers["access-control-allow-origin"] is None
    assert answer.headers["vary"] == "Origin"


def test_an_allowed_page_uses_a_session(shared: Web) -> None:
    headers = {"Origin": APP, "Authorization": basic("me", "secret")}
    begun = shared.send("POST", "/v1/session", None, headers)
    cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}

    served = shared.send("POST", "/v1/tickets", None, cookie | {"Origin": APP})
    refused = shared.send("POST", "/v1/tickets", None, cookie | {"Origin": UNLISTED[1]})

    assert served.status == 201
    assert (refused.status, refused.kind) == (403, "cross-site")


def test_without_a_list_answers_have_no_cors_headers(web: Web) -> None:
    answer = web.get("/healthz", Origin=APP)

    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert _preflight(web, APP).headers["access-control-allow-origin"] is None
