"""Over HTTP everybody is who they are over NATS: no credentials, no service."""

# Subject: permissions, HTTP

import asyncio
import dataclasses
from base64 import b64encode
from typing import Any

import orjson
import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, Link, Options, attach
from core.client import link as links
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from gateway.app import create_app
from gateway.auth.credentials import Credentials, from_header
from gateway.http.problems import Problem
from gateway.settings import Settings
from jetgate.login import login_to
from tests.gateway.serving import SETTINGS
from tests.gateway.web import Web, basic
from tests.support.eventually import observed


def _unreachable(receive: links.Receive, closed: links.Closed) -> Link:
    raise AssertionError("nobody connects without saying who they are")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic ?",
        "Basic " + b64encode(b"no colon").decode(),
        basic("me", "wrong"),
        basic("", ""),
        basic("you", "secret"),
        "Bearer secret",
        "Digest x",
    ],
)
@pytest.mark.parametrize("path", ["/v1/streams", "/metrics"])
def test_without_valid_credentials_nothing_is_disclosed(
    guarded: Web, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = guarded.send("GET", path, None, headers)
    assert (answer.status, answer.kind) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_authenticated_callers_are_served(guarded: Web) -> None:
    headers = {"Authorization": basic("me", "secret")}
    for path in ("/v1/streams", "/metrics"):
        assert guarded.send("GET", path, None, headers).status == 200


@pytest.mark.parametrize("header", [None, basic("me", "secret"), basic("me", "wrong"), "Digest x"])
def test_probes_are_answered_without_credentials(guarded: Web, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    assert guarded.send("GET", "/healthz", None, headers).status == 200
    ready = guarded.send("GET", "/readyz", None, headers)
    assert (ready.status, ready.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("with_users", [False, True])
def test_only_without_users_a_probe_shows_the_error_of_the_database(with_users: bool) -> None:
    why = 'PostgreSQL refuses a statement: permission denied for role "jet"'

    async def run() -> Any:
        hub = Hub(LoopTick(), SystemClock(), jetstream=False)
        app = create_app(
            SETTINGS,
            Client(attach(_unreachable), Options()),
            login=login_to(hub) if with_users else None,
            trouble=lambda: why,
        )
        return await _ask(app, "GET", "/readyz", "", b"")

    status, problem = asyncio.run(run())
    told = "the log of this node says why" if with_users else why
    assert (status, problem["detail"]) == (503, f"nothing can be stored: {told}")


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


def test_permissions_hold_and_a_refusal_is_reported_at_once() -> None:
    rules = Permissions(Rule(("orders.>",), ("orders.secret",)))
    users = Users(
        users=(
            User("clerk", "c", rules),
            User("mute", "m", Permissions(subscribe=Rule(("other",)))),
            User("tcp", "t", connection_types=frozenset(("STANDARD",))),
        )
    )

    async def run() -> list[Any]:
        hub = Hub(LoopTick(), SystemClock(), users=users, jetstream=False)
        nowhere = Client(attach(_unreachable), Options())
        app = create_app(SETTINGS, nowhere, login=login_to(hub))
        batch = b'[{"subject":"orders.new"},{"subject":"orders.secret"},{"subject":"x"}]'
        clerk = basic("clerk", "c")
        answers = [
            await _ask(app, "POST", "/v1/subjects/orders.new", clerk, b"1"),
            await _ask(app, "POST", "/v1/subjects/orders.secret", clerk, b"1"),
            await _ask(app, "GET", "/v1/streams", clerk, b""),
            await _ask(app, "POST", "/v1/publish", clerk, batch),
            await _ask(app, "POST", "/v1/subjects/a", basic("mute", "m"), b"1"),
            await _ask(app, "POST", "/v1/subjects/a", basic("tcp", "t"), b"1"),
        ]
        # One connection for each identity, none for the refused, which is closed a little later.
        await observed(lambda: len(hub.sessions) == 2)
        await app.authenticator.close()
        return answers

    answers = asyncio.run(run())
    assert [status for status, _ in answers] == [404, 403, 403, 200, 403, 401]
    problems = [line["error"] for line in answers[3][1]]
    assert [problem["status"] for problem in problems] == [404, 403, 403]


def test_permissions_hold_for_everything_that_is_asked() -> None:
    rules = Permissions(Rule(("orders.>",)), Rule(("_INBOX.>",)))

    async def run() -> list[Any]:
        _, app = _overloaded([User("clerk", "c", rules)])
        clerk = basic("clerk", "c")
        batch = b'[{"subject":"orders.new"},{"subject":"x"}]'
        answers = [
            await _ask(app, "POST", "/v1/subjects/orders.new:request", clerk, b"1"),
            await _ask(app, "POST", "/v1/subjects/x:request", clerk, b"1"),
            await _ask(app, "POST", "/v1/publish:atomic", clerk, batch),
            await _ask(app, "POST", "/v1/streams/S/messages:read", clerk, b"{}"),
            await _ask(app, "POST", "/v1/streams/S/consumers/C:resume", clerk, b""),
            await _ask(app, "GET", "/v1/account", clerk, b""),
            await _ask(app, "GET", "/v1/advisories", clerk, b""),
        ]
        await app.authenticator.close()
        return answers

    answers = asyncio.run(run())
    assert [status for status, _ in answers] == [503, 403, 403, 403, 403, 403, 403]


def _overloaded(users: list[User], settings: Settings = SETTINGS) -> tuple[Hub, Any]:
    hub = Hub(LoopTick(), SystemClock(), users=Users(users=tuple(users)), jetstream=False)
    nowhere = Client(attach(_unreachable), Options())
    return hub, create_app(settings, nowhere, login=login_to(hub))


def test_a_crowd_of_strangers_is_turned_away() -> None:
    """More at once than there are connections for, and one who is known."""

    async def run() -> list[Any]:
        _, app = _overloaded([User("clerk", "c")])
        passwords = [*map(str, range(300)), "c"]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(_ask(app, "POST", "/v1/subjects/a", basic("clerk", p), b"") for p in passwords)
            )
        await app.authenticator.close()
        return [status for status, _ in answers]

    assert asyncio.run(run()) == [401] * 300 + [404]


def test_no_caller_loses_its_connection_while_it_is_served() -> None:
    """More users at once than idle connections are kept; it is the idle ones that go."""

    async def run() -> list[Any]:
        names = [f"u{number}" for number in range(60)]
        settings = dataclasses.replace(SETTINGS, identities_idle_max=20)
        hub, app = _overloaded([User(name, "p") for name in names], settings)
        sent = asyncio.Event()
        async with asyncio.timeout(60):
            asked = [
                asyncio.create_task(
                    _ask(app, "POST", "/v1/subjects/a", basic(name, "p"), b"", sent)
                )
                for name in names
            ]
            await observed(lambda: len(hub.sessions) == len(names))
            sent.set()
            answers = await asyncio.gather(*asked)
            await observed(lambda: len(hub.sessions) == 20)
        await app.authenticator.close()
        return [status for status, _ in answers]

    assert asyncio.run(run()) == [404] * 60


def test_a_token_is_a_bearer() -> None:
    assert from_header("Bearer  abc ") == Credentials(token="abc")
    assert from_header(basic("u", "p:q")) == Credentials("u", "p:q")
    with pytest.raises(Problem):
        from_header("Basic " + b64encode(b"\xff\xfe:").decode())
