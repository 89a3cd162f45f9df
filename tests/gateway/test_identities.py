"""Over HTTP everybody is who they are over NATS: no credentials, no service."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import bcrypt
import orjson
import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, Link, Options, attach
from core.client import link as links
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.turn import Turn
from gateway.app import create_app
from gateway.identities import credentials
from gateway.problems import Problem
from jetgate.login import login_to
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Web
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Wire

_HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


def _unreachable(receive: links.Receive, closed: links.Closed) -> Link:
    raise AssertionError("nobody connects without saying who they are")


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module", params=["nats-server", "jetgate"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Web]:
    """The façade over nats-server, then `jetgate dev`, with a user `me` of password `secret`."""
    if request.param == "jetgate":
        with JetgateServer("--user", "me", "--pass", _HASH, in_memory=True) as server:
            with Wire(server.address) as wire:
                assert b'"auth_required":true' in wire.frame().line
                wire.send(b"PING\r\n")
                assert wire.frame().line == b"-ERR 'Authorization Violation'"
                with pytest.raises(Closed):
                    wire.frame()
            yield Web(server.http)
        return
    users = f'{{ users: [{{user: me, password: "{_HASH}"}}] }}'
    with (
        NatsServer({"authorization": users}) as nats,
        GatewayServer(nats.address, with_users=True) as server,
    ):
        yield Web(server.http)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic ?",
        "Basic " + b64encode(b"no colon").decode(),
        _basic("me", "wrong"),
        _basic("", ""),
        _basic("you", "secret"),
        "Bearer secret",
        "Digest x",
    ],
)
@pytest.mark.parametrize("path", ["/v1/streams", "/metrics", "/readyz"])
def test_without_valid_credentials_nothing_is_told(
    guarded: Web, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = guarded.send("GET", path, None, headers)
    assert (answer.status, answer.kind) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_who_is_known_is_served(guarded: Web) -> None:
    headers = {"Authorization": _basic("me", "secret")}
    for path in ("/v1/streams", "/readyz", "/metrics"):
        assert guarded.send("GET", path, None, headers).status == 200
    assert guarded.get("/healthz").status == 200


async def _ask(
    app: Any,
    method: str,
    path: str,
    authorization: str,
    body: bytes,
    sent_all: asyncio.Event | None = None,
) -> Any:
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (b"authorization", authorization.encode()),
            (b"content-type", b"application/json"),
        ],
    }

    async def receive() -> dict[str, Any]:
        if sent_all is not None:
            await sent_all.wait()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], orjson.loads(b"".join(m.get("body", b"") for m in sent))


def test_permissions_hold_and_a_refusal_is_told_at_once() -> None:
    rules = Permissions(Rule(("orders.>",), ("orders.secret",)))
    users = Users(
        users=(
            User("clerk", "c", rules),
            User("mute", "m", Permissions(subscribe=Rule(("other",)))),
            User("tcp", "t", connection_types=frozenset(("STANDARD",))),
        )
    )

    async def run() -> list[Any]:
        hub = Hub(Turn(), SystemClock(), users=users, jetstream=False)
        nowhere = Client(attach(_unreachable), Options())
        app = create_app(SETTINGS, nowhere, login=login_to(hub))
        batch = b'[{"subject":"orders.new"},{"subject":"orders.secret"},{"subject":"x"}]'
        clerk = _basic("clerk", "c")
        answers = [
            await _ask(app, "POST", "/v1/subjects/orders.new", clerk, b"1"),
            await _ask(app, "POST", "/v1/subjects/orders.secret", clerk, b"1"),
            await _ask(app, "GET", "/v1/streams", clerk, b""),
            await _ask(app, "POST", "/v1/publish", clerk, batch),
            await _ask(app, "POST", "/v1/subjects/a", _basic("mute", "m"), b"1"),
            await _ask(app, "POST", "/v1/subjects/a", _basic("tcp", "t"), b"1"),
        ]
        # One connection for each identity, none for the refused, which is closed a little later.
        await observed(lambda: len(hub.sessions) == 1)
        await app.state.identities.close()
        return answers

    answers = asyncio.run(run())
    assert [status for status, _ in answers] == [404, 403, 403, 200, 403, 401]
    problems = [line["error"] for line in answers[3][1]]
    assert [problem["status"] for problem in problems] == [404, 403, 403]


def _crowded(users: list[User]) -> tuple[Hub, Any]:
    hub = Hub(Turn(), SystemClock(), users=Users(users=tuple(users)), jetstream=False)
    nowhere = Client(attach(_unreachable), Options())
    return hub, create_app(SETTINGS, nowhere, login=login_to(hub))


def test_a_crowd_of_strangers_is_turned_away() -> None:
    """More at once than there are connections for, and one who is known."""

    async def run() -> list[Any]:
        _, app = _crowded([User("clerk", "c")])
        passwords = [*map(str, range(300)), "c"]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(_ask(app, "POST", "/v1/subjects/a", _basic("clerk", p), b"") for p in passwords)
            )
        await app.state.identities.close()
        return [status for status, _ in answers]

    assert asyncio.run(run()) == [401] * 300 + [404]


def test_nobody_loses_his_connection_while_he_is_served() -> None:
    """More users at once than connections are kept; it is the idle ones that go."""

    async def run() -> list[Any]:
        names = [f"u{number}" for number in range(260)]
        hub, app = _crowded([User(name, "p") for name in names])
        sent = asyncio.Event()
        async with asyncio.timeout(60):
            asked = [
                asyncio.create_task(
                    _ask(app, "POST", "/v1/subjects/a", _basic(name, "p"), b"", sent)
                )
                for name in names
            ]
            await observed(lambda: len(hub.sessions) == len(names))
            sent.set()
            answers = await asyncio.gather(*asked)
            await observed(lambda: len(hub.sessions) == 256)
        await app.state.identities.close()
        return [status for status, _ in answers]

    assert asyncio.run(run()) == [404] * 260


def test_a_token_is_a_bearer() -> None:
    assert credentials("Bearer  abc ") == ("", "", "abc")
    assert credentials(_basic("u", "p:q")) == ("u", "p:q", "")
    with pytest.raises(Problem):
        credentials("Basic " + b64encode(b"\xff\xfe:").decode())
