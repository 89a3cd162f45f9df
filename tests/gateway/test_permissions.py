"""docs/http-auth.md names the permissions that each route needs: no more, and no fewer.

What is tried without permission is seen where the client asks whether it may publish: of an answer
that has begun, a refusal is only the missing end.
"""

# Subject: permissions, HTTP

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, Options, attach, connect
from core.model.stream import StreamConfig
from core.node.server import ServerOptions
from core.subjects.subject import matches
from core.transport.loopback import connect_trusted
from core.units import Seconds
from gateway.app import create_app
from gateway.auth.principals import Login
from gateway.formats.ack_tokens import AckTokens
from gateway.requests.operation import Operation
from gateway.routes import ROUTES
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS
from tests.gateway.test_authenticator import _unreachable
from tests.gateway.web import basic
from tests.support.jetgate import ROOT
from tests.support.node import Node, add_stream, running_node

PAGE = (ROOT / "docs" / "http-auth.md").read_text().partition("## Permissions\n")[2]
_ROWS = re.findall(
    r"^\| `(\w+)` \| `[^|]*` \| ([^|]*) \|$", PAGE.partition("\n## ")[0], re.MULTILINE
)
TABLE = {
    operation: [
        (doing.startswith("subscribe"), subject)
        for doing, subject in re.findall(r"(subscribe to )?`([^`]+)`", subjects)
    ]
    for operation, subjects in _ROWS
}
OF_NOTHING = re.findall(r"^\| `(\w+)` \| `[^|]*` \| nothing", PAGE, re.MULTILINE)
"""Operations that need no permission to publish, and none to be answered."""
_TOKEN = AckTokens(SETTINGS.ack_key).seal(b"$JS.ACK.S.C.1.1.1.1.0")
_ACKS = {"tokens": [_TOKEN]}
BODIES: dict[str, Any] = {
    "publishMessage": "hello",
    "request": "hello",
    "publishBatch": [{"subject": "s.a"}],
    "publishAtomic": [{"subject": "s.a"}],
    "readMessages": {},
    "createStream": {"name": "NEW"},
    "putStream": {"subjects": ["s.>"], "max_msgs": 5},
    "patchStream": {"max_msgs": 5},
    "redriveDeadLetters": {},
    "createConsumer": {"durable_name": "NEW"},
    "putConsumer": {"ack_policy": "explicit", "max_deliver": 5},
    "patchConsumer": {"max_deliver": 5},
    "fetchMessages": {"no_wait": True},
    "ackAndFetchMessages": {"no_wait": True, **_ACKS},
    **dict.fromkeys(("ackMessages", "nakMessages", "termMessages", "progressMessages"), _ACKS),
    "pauseConsumer": {"duration": "10m"},
    "unpinConsumer": {"group": "G"},
    "resetConsumer": {"seq": 1},
    "createKvBucket": {"bucket": "B", "history": 5},
    "putKvBucket": {"history": 4},
    "patchKvBucket": {"history": 4},
    "cleanKvBucket": {"older_than": "0s"},
    "putKey": "value",
    "createObjectStore": {"bucket": "B"},
    "putObjectStore": {"description": "another"},
    "patchObjectStore": {"description": "another"},
    "cleanObjectStore": {"older_than": 0},
    "putObject": "value",
    "patchObject": {"name": "renamed"},
    "linkObject": {"bucket": "B", "name": "o"},
}
NAMES = {
    "stream": "S",
    "consumer": "C",
    "subject": "s.a",
    "seq": "1",
    "bucket": "B",
    "key": "k",
    "module": "app.js",
    "name": "o",
    "keys": ">",
    "filter": "ADVISORY.>",
    "kind": "not-permitted",
}
QUERIES = {"findMessage": "?last_by=s.a", "tailStream": "?filter=s.a"}
OTHER_NAMES = {
    "tailStream": {"filter": "s.a"},
    "redriveDeadLetters": {"stream": "DEAD"},
    "unpinConsumer": {"consumer": "PINNED"},
    "linkObject": {"name": "link"},
}
CONSUMERS: dict[str, Any] = {
    "C": {"ack_policy": "explicit"},
    "PINNED": {
        "ack_policy": "explicit",
        "priority_policy": "pinned_client",
        "priority_groups": ["G"],
    },
}
DEAD_LETTER = {
    "subject": "DEAD.S.C.s.a",
    "headers": {"Jetgate-Dead-Subject": "s.a", "Jetgate-Dead-Stream": "S"},
}
_NUID = re.compile(r"(?<=\.)\w{22}(?=\.|$)")
_OWN_END = re.compile(rb"\$JS\.API\.CONSUMER\.DELETE\.\w+\.\w{22}")
Need = tuple[bool, str]
"""Whether to subscribe, and the subject."""
_INBOX: Need = (True, "_INBOX.>")


class Ask:
    """The façade, asked inside the process; `refused`: what an answer was not permitted."""

    def __init__(self, node: Node, server: Client) -> None:
        self.refused: list[Need] = []
        self.app = create_app(
            replace(SETTINGS, object_clean_age_min=Seconds(0.0)),
            Client(attach(_unreachable), Options()),
            login=self._login(login_to(node.hub)),
            rights=rights_in(node.hub),
            server=server,
        )

    def _login(self, login: Login) -> Login:
        async def noting(user: str, password: str, token: str, address: str) -> Client:
            client = await login(user, password, token, address)
            may_publish = client.options.may_publish
            assert may_publish is not None

            def noted(subject: bytes) -> bool:
                allowed = may_publish(subject)
                # A reader whose consumer it may not delete leaves that to the server.
                if not allowed and not _OWN_END.fullmatch(subject):
                    self.refused.append((False, _NUID.sub("*", subject.decode())))
                return allowed

            client.options = replace(client.options, may_publish=noted)
            return client

        return noting

    async def __call__(
        self, user: str, method: str, path: str, value: Any = None
    ) -> tuple[int, str]:
        self.refused.clear()
        sent: list[Any] = []
        had_enough = asyncio.Event()
        headers = [(b"authorization", basic(user, user[0]).encode())]
        if value is not None:
            headers.append((b"content-type", b"application/json"))
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        bodies = [b"" if value is None else json.dumps(value).encode()]

        async def receive() -> Any:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await had_enough.wait()  # the caller stays
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            body = message.get("body", b"")
            begun = path.endswith(":watch") and b'"ready"' in body
            begun = begun or (("/tail" in path) and b"event: position" in body)
            if begun or path == "/v1/advisories":
                had_enough.set()  # a feed does not end by itself

        await self.app(scope, receive, send)
        status, body = sent[0]["status"], b"".join(m.get("body", b"") for m in sent).decode()
        if status == 403:
            if "no-inbox" in body:
                self.refused.append(_INBOX)
            subscribing = re.findall(r"not permitted: subscribing to ([^\"]+)", body)
            self.refused += [(True, subject) for subject in subscribing]
        return status, body


def _users(needs: list[Need]) -> Users:
    publish = tuple(subject for subscribes, subject in needs if not subscribes)
    subscribe = tuple(subject for subscribes, subject in needs if subscribes)
    granted = Permissions(Rule(publish), Rule(subscribe))
    return Users(users=(User("boss", "b"), User("ann", "a", granted)))


async def _served(dsn: str, use: Callable[[Node, Ask], Awaitable[None]]) -> None:
    async with running_node(dsn, server=ServerOptions(port=0, users=_users([]))) as node:
        server = await connect(attach(partial(connect_trusted, node.hub)))
        ask = Ask(node, server)
        node.hub.users_changed.subscribe(ask.app.authenticator.users_changed)
        try:
            async with asyncio.timeout(120):
                await use(node, ask)
        finally:
            await ask.app.authenticator.close()
            await server.close()


async def _state(node: Node, ask: Ask, path: str) -> None:
    """What a route is about, again, whatever was done before."""
    for name in list(node.registry.streams):
        await node.registry.delete_stream(name)
    await add_stream(
        node, StreamConfig(name="S", subjects=("s.>",), allow_direct=True, allow_atomic=True)
    )
    asked: list[tuple[str, str, Any]] = [("POST", "/v1/subjects/s.a", None)]
    if "/consumers" in path:
        asked += [("PUT", f"/v1/streams/S/consumers/{name}", CONSUMERS[name]) for name in CONSUMERS]
    elif "/streams/DEAD" in path:
        await add_stream(node, StreamConfig(name="DEAD", subjects=("DEAD.>",), allow_direct=True))
        asked.append(("POST", "/v1/publish", [DEAD_LETTER]))
    elif "/kv" in path:
        asked.append(("POST", "/v1/kv", BODIES["createKvBucket"]))
        asked += [("PUT", f"/v1/kv/B/{key}", "value") for key in ("gone", "k")]
        asked.append(("DELETE", "/v1/kv/B/gone", None))
    elif "/objects" in path:
        asked.append(("POST", "/v1/objects", BODIES["createObjectStore"]))
        asked.append(("PUT", "/v1/objects/B/o", "value"))
        asked.append(("POST", "/v1/subjects/$O.B.C.abandoned", None))
    for method, place, value in asked:
        status, body = await ask("boss", method, place, value)
        assert status < 300, (place, status, body)


def _names(operation: Operation) -> dict[str, str]:
    return NAMES | OTHER_NAMES.get(operation.id, {})


def _path(operation: Operation) -> str:
    return operation.path.format(**_names(operation)) + QUERIES.get(operation.id, "")


async def _needed(node: Node, ask: Ask, operation: Operation) -> set[Need]:
    """Permit what is refused, until nothing is."""
    permitted: list[Need] = []
    path = _path(operation)
    while True:
        node.hub.use_users(_users(permitted), None)
        await _state(node, ask, path)
        status, body = await ask("ann", operation.method, path, BODIES.get(operation.id))
        if not ask.refused:
            assert status < 400, (operation.id, status, body)
            assert "not-permitted" not in body or operation.path.startswith(_PAGES), body
            return set(permitted)
        assert ask.refused[0] not in permitted, (operation.id, ask.refused)
        permitted.append(ask.refused[0])


# Without a user, without an answer, and what does not end by itself.
UNTRIED = ("healthz", "openWebSocket")
_PAGES = ("/console", "/docs", "/openapi.json", "/asyncapi.json")


def test_the_table_is_that_of_the_routes(database: str) -> None:
    assert sorted(name for name, _ in _ROWS) == sorted(operation.id for operation in ROUTES)

    async def use(node: Node, ask: Ask) -> None:
        found = {
            operation.id: await _needed(node, ask, operation)
            for operation in ROUTES
            if operation.id not in UNTRIED
        }
        wrong = {
            name: (sorted(subjects), _row(name))
            for name, subjects in found.items()
            if not _is(subjects, _row(name))
        }
        assert not wrong, "\n".join(f"{name}: {each}" for name, each in wrong.items())

    asyncio.run(_served(database, use))


def _row(name: str) -> list[Need]:
    """What the table has for an operation, with the names of the experiment."""
    names = NAMES | OTHER_NAMES.get(name, {})
    rows = [(subscribes, subject.format(**names)) for subscribes, subject in TABLE[name]]
    return rows if name in OF_NOTHING else [*rows, _INBOX]


def _is(needs: set[Need], rows: list[Need]) -> bool:
    """Whether each subject has a row, and each row a subject."""
    hits = {need: [row for row in rows if _covers(row, need)] for need in needs}
    return all(hits.values()) and {row for each in hits.values() for row in each} == set(rows)


def _covers(row: Need, need: Need) -> bool:
    return row[0] == need[0] and matches(need[1].encode(), row[1].encode())


@pytest.mark.parametrize("denied", ["$JS.API.>", "$JS.ACK.>", "s.>", "$KV.>", "$O.>"])
def test_a_denied_subject_is_denied_on_every_path(database: str, denied: str) -> None:
    """A route whose row has a subject of those is refused, whatever else is allowed."""

    async def use(node: Node, ask: Ask) -> None:
        rule = Permissions(Rule(None, (denied,)))
        node.hub.use_users(Users(users=(User("boss", "b"), User("ann", "a", rule))), None)
        for operation in ROUTES:
            publishes = (subject for subscribes, subject in _row(operation.id) if not subscribes)
            if not any(matches(p.replace(">", "x").encode(), denied.encode()) for p in publishes):
                continue
            path = _path(operation)
            await _state(node, ask, path)
            body = BODIES.get(operation.id)
            status, said = await ask("ann", operation.method, path, body)
            assert re.search("not.permitted", said), (operation.id, status, said)

    asyncio.run(_served(database, use))


def test_without_the_right_to_purge_nothing_is_replaced_and_nothing_is_lost(database: str) -> None:
    """What is refused is refused before anything is stored."""

    async def use(node: Node, ask: Ask) -> None:
        rule = Permissions(Rule(None, ("$JS.API.STREAM.PURGE.>",)))
        node.hub.use_users(Users(users=(User("boss", "b"), User("ann", "a", rule))), None)
        await _state(node, ask, "/v1/objects/B")
        place = "/v1/objects/B/o"
        kept = await ask("boss", "GET", place + ":info")
        for method, body in (("PUT", "another"), ("DELETE", None), ("PATCH", {"name": "new"})):
            status, said = await ask("ann", method, place, body)
            assert (status, "not-permitted" in said) == (403, True), (method, status, said)
        assert await ask("boss", "GET", place + ":info") == kept
        assert await ask("boss", "GET", place) == (200, '"value"')

        assert (await ask("ann", "PUT", "/v1/objects/B/first", "x"))[0] == 201
        assert (await ask("ann", "PATCH", place, {"description": "x"}))[0] == 200

    asyncio.run(_served(database, use))


def test_a_tail_shows_nothing_that_is_denied_to_a_subscription(database: str) -> None:
    """Whatever may be published, requests of the JetStream API included."""

    async def use(node: Node, ask: Ask) -> None:
        rule = Permissions(subscribe=Rule(None, ("s.>",)))
        node.hub.use_users(Users(users=(User("boss", "b"), User("ann", "a", rule))), None)
        await _state(node, ask, "")
        for path in ("/v1/streams/S/tail?filter=s.a", "/v1/tail/s.a"):
            status, said = await ask("ann", "GET", path)
            assert (status, ask.refused) == (403, [(True, "s.a")]), said
        status, said = await ask("ann", "GET", "/v1/streams/S/tail")
        missing = await ask("ann", "GET", "/v1/streams/T/tail")
        assert (status, said.replace("/S/", "/T/")) == missing
        assert status == 404

    asyncio.run(_served(database, use))
