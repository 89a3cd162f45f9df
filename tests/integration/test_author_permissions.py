"""Headers that have a stream do more than store a message: whether their author may ask for that.

Who may publish one subject of a stream with schedules, roll-ups or open batches has the whole
stream in nats-server, which asks nobody. Here that is so over NATS; over HTTP authors are asked.
"""

# Subject: permissions

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import nats

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, Msg, Options, attach, connect
from core.node.server import ServerOptions
from core.protocol import headers as header_blocks
from core.pubsub.server import AUTHORS_OVER_NATS
from core.transport.loopback import connect_trusted
from gateway.app import create_app
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS
from tests.gateway.test_authenticator import _unreachable
from tests.gateway.web import basic
from tests.support.natsserver import NatsServer
from tests.support.node import Node, running_node

_EVERY = {"Nats-Schedule": "@every 1h"}
STREAM = {
    "name": "WORK",
    "subjects": ["ann.>", "bob.>", "sec.>"],
    "allow_msg_schedules": True,
    "allow_rollup_hdrs": True,
    "allow_atomic": True,
    "allow_batched": True,
    "allow_direct": True,
}
OWN = {"name": "OWN", "subjects": ["own.>"], "allow_rollup_hdrs": True}


def _user(name: str, *publish: str) -> User:
    permissions = Permissions(Rule(publish), Rule((f"{name}.>", "_INBOX.>")))
    return User(name, name[0], permissions)


USERS = Users(
    users=(
        User("boss", "b"),
        _user("ann", "ann.>", "own.>"),
        _user("bob", "bob.>"),
        _user("purger", "ann.>", "$JS.API.STREAM.PURGE.WORK"),
        _user("maker", "maker.>", "$JS.API.STREAM.CREATE.*", "$JS.API.DIRECT.GET.COPY.sec.>"),
    )
)


Sender = Callable[..., Awaitable[bytes]]


@dataclass(frozen=True)
class Case:
    """A message, and the permission that its author lacks (empty: none)."""

    headers: dict[str, str]
    lacks: str = ""
    user: str = "ann"
    subject: str = "ann.message"


_PURGE = 'Publish to "$JS.API.STREAM.PURGE.WORK"'
CASES = {
    "target": Case(_EVERY | {"Nats-Schedule-Target": "sec.x"}, 'Publish to "sec.x"'),
    "own target": Case(_EVERY | {"Nats-Schedule-Target": "ann.x"}),
    "source": Case(
        _EVERY | {"Nats-Schedule-Target": "ann.x", "Nats-Schedule-Source": "sec.y"},
        'Subscription to "sec.y"',
    ),
    "own source": Case(_EVERY | {"Nats-Schedule-Target": "ann.x", "Nats-Schedule-Source": "ann.y"}),
    "end of a schedule": Case(
        {"Nats-Scheduler": "sec.s", "Nats-Schedule-Next": "purge"}, 'Publish to "sec.s"'
    ),
    "end of an own one": Case({"Nats-Scheduler": "ann.s", "Nats-Schedule-Next": "purge"}),
    "roll-up of all": Case({"Nats-Rollup": "all"}, _PURGE),
    "ALL": Case({"Nats-Rollup": "ALL"}, _PURGE),
    "roll-up of its subject": Case({"Nats-Rollup": "sub"}),
    "who may purge": Case({"Nats-Rollup": "all"}, user="purger"),
    "all of the subjects": Case({"Nats-Rollup": "all"}, subject="own.a"),
    "sequence of another": Case(
        {
            "Nats-Expected-Last-Subject-Sequence": "0",
            "Nats-Expected-Last-Subject-Sequence-Subject": "sec.none",
        },
        'Subscription to "sec.none"',
    ),
    "sequence of an own one": Case(
        {
            "Nats-Expected-Last-Subject-Sequence": "0",
            "Nats-Expected-Last-Subject-Sequence-Subject": "ann.none",
        }
    ),
    "no schedule": Case({"Nats-Schedule-Target": "sec.x"}),
    "whose they are not": Case({"Nats-Msg-Id": "Nats-Rollup: all", "X": "Nats-Schedule"}),
}


class Nats:
    """Publishes over NATS as a user; `refused` are the permissions that were lacking."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.refused: list[str] = []
        self.clients: dict[str, Any] = {}

    async def client(self, user: str) -> Any:
        async def note(error: Exception) -> None:
            self.refused.append(str(error))

        if user not in self.clients:
            self.clients[user] = await nats.connect(
                self.address, user=user, password=user[0], error_cb=note, allow_reconnect=False
            )
        return self.clients[user]

    async def publish(self, case: Case) -> bool:
        """Say whether it was stored."""
        nc = await self.client(case.user)
        inbox = await nc.subscribe(nc.new_inbox())
        await nc.publish(case.subject, b"x", reply=inbox.subject, headers=case.headers)
        await nc.flush()
        if self.refused:
            return False
        ack = json.loads((await inbox.next_msg(timeout=20)).data)
        assert "error" not in ack, (case, ack)
        return True

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()


_LINES = {"Content-Type": "application/json"}


def _json(cases: dict[str, Case]) -> bytes:
    """The JSON array of messages."""
    return json.dumps(
        [{"subject": each.subject, "text": "x", "headers": each.headers} for each in cases.values()]
    ).encode()


class Http:
    """Publishes over HTTP as a user, inside the process."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.refused: list[str] = []

    async def publish(self, case: Case) -> bool:
        """Say whether it was stored."""
        status, body = await self.post(
            case.user, f"/v1/subjects/{case.subject}", b"x", case.headers
        )
        if status in (200, 201):
            return True
        problem = json.loads(body)
        assert (status, problem["type"].rpartition(":")[2]) == (403, "not-permitted"), body
        self.refused.append(problem["detail"])
        return False

    async def lines(self) -> dict[str, tuple[bool, str]]:
        """What becomes of all messages as lines of a batch, each user's together."""
        found: dict[str, tuple[bool, str]] = {}
        for user in {case.user for case in CASES.values()}:
            own = {name: case for name, case in CASES.items() if case.user == user}
            status, body = await self.post(user, "/v1/publish", _json(own), _LINES)
            assert status == 200, body
            for name, line in zip(own, json.loads(body), strict=True):
                problem = line.get("error", {})
                found[name] = (not problem, problem.get("detail", ""))
        return found

    async def atomic(self) -> tuple[int, bytes]:
        """What becomes of a batch with a message that may not be."""
        messages = _json({"": Case({}), "target": CASES["target"]})
        return await self.post("ann", "/v1/publish:atomic", messages, _LINES)

    async def post(
        self, user: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        sent: list[Any] = []
        named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", basic(user, user[0]).encode()), *named],
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent)


@asynccontextmanager
async def _served(dsn: str, doors: frozenset[str]) -> AsyncIterator[tuple[Nats, Http, Node]]:
    options = ServerOptions(port=0, users=USERS, author_connection_types=doors)
    async with running_node(dsn, server=options) as node:
        server = await connect(attach(partial(connect_trusted, node.hub)))
        app = create_app(
            SETTINGS,
            Client(attach(_unreachable), Options()),
            login=login_to(node.hub),
            rights=rights_in(node.hub),
            server=server,
        )
        over_nats = Nats(node.nats_address)
        await _create(over_nats)
        try:
            yield over_nats, Http(app), node
        finally:
            await over_nats.close()
            await app.authenticator.close()
            await server.close()


async def _create(listener: Nats) -> None:
    boss = await listener.client("boss")
    for config in (STREAM, OWN):
        answer = await boss.request(
            f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode(), timeout=20
        )
        assert "error" not in json.loads(answer.data), answer.data


async def _outcomes(listener: Nats | Http) -> dict[str, tuple[bool, str]]:
    found: dict[str, tuple[bool, str]] = {}
    for name, case in CASES.items():
        listener.refused.clear()
        stored = await listener.publish(case)
        found[name] = (stored, listener.refused[0] if listener.refused else "")
    return found


ALLOWED = dict.fromkeys(CASES, (True, ""))
REFUSED = {
    name: (False, f"nats: permissions violation for {case.lacks.lower()}")
    if case.lacks
    else (True, "")
    for name, case in CASES.items()
}


def _error_lines(lacks: str) -> str:
    doing, _, subject = lacks.partition(" to ")
    verb = "publishing" if doing == "Publish" else "subscribing"
    return f"not permitted: {verb} to {subject.strip(chr(34))} (which a header asks for)"


REFUSED_OVER_HTTP = {
    name: (not case.lacks, _error_lines(case.lacks) if case.lacks else "")
    for name, case in CASES.items()
}


async def _batches(first: Sender, other: Sender) -> dict[str, Any]:
    """One opens a batch, another goes on with it, then the first does; what both are told."""

    def atomic(seq: int, **commit: str) -> dict[str, str]:
        return {"Nats-Batch-Id": "B", "Nats-Batch-Sequence": str(seq)} | commit

    ends = {"Nats-Batch-Commit": "1"}
    await first("ann.a", "one", atomic(1))
    intruder = await other("bob.a", "two", atomic(2))
    again = await other("bob.a", "one", atomic(1) | ends)
    own = await first("ann.a", "three", atomic(2) | ends)
    await first("ann.a", "one", {}, "F.10.ok.1.0.$FI")
    fast = await other("bob.a", "two", {}, "F.10.ok.2.2.$FI")
    own_fast = await first("ann.a", "two", {}, "F.10.ok.2.2.$FI")
    told = {"other": intruder, "again": again, "own": own, "fast": fast, "own fast": own_fast}
    return {name: _outcome(answer) for name, answer in told.items()}


def _outcome(answer: bytes) -> Any:
    """The code of an error, or id and size of the batch that was stored."""
    if not answer:
        return ""
    said = json.loads(answer)
    return said["error"]["err_code"] if "error" in said else (said["batch"], said["count"])


_INCOMPLETE, _UNKNOWN = 10176, 10208
SHARED = {
    "other": "",
    "again": _INCOMPLETE,
    "own": _INCOMPLETE,
    "fast": ("F", 2),
    "own fast": _UNKNOWN,
}
"""The first of another's messages is taken, the second ends the batch."""
BOUND = {
    "other": _INCOMPLETE,
    "again": ("B", 1),
    "own": ("B", 2),
    "fast": _UNKNOWN,
    "own fast": ("F", 2),
}


async def _over_nats(listener: Nats, user: str) -> Sender:
    nc = await listener.client(user)

    async def send(subject: str, body: str, headers: dict[str, str], fast: str = "") -> bytes:
        inbox = nc.new_inbox()
        subscription = await nc.subscribe(f"{inbox}.>" if fast else inbox)
        reply = f"{inbox}.{fast}" if fast else inbox
        await nc.publish(subject, body.encode(), reply=reply, headers=headers or None)
        return bytes((await subscription.next_msg(timeout=20)).data)

    return send


async def _made_by_who_may_create(listener: Nats) -> list[bytes]:
    """What a user reads and publishes by streams of its own, without rights on the subjects."""
    boss, maker = await listener.client("boss"), await listener.client("maker")
    await boss.request("sec.known", b"secret", timeout=20)
    for config in (
        {"name": "COPY", "mirror": {"name": "WORK"}, "allow_direct": True},
        {
            "name": "MADE",
            "subjects": ["maker.made"],
            "republish": {"src": "maker.made", "dest": "sec.made"},
        },
    ):
        body = json.dumps(config).encode()
        answer = await maker.request(f"$JS.API.STREAM.CREATE.{config['name']}", body, timeout=20)
        assert "error" not in json.loads(answer.data), answer.data
    await maker.request("maker.made", b"made", timeout=20)
    return [await _read(maker, "sec.known"), await _read(maker, "sec.made")]


async def _read(maker: Any, subject: str) -> bytes:
    """The last message of a subject in the mirror, once it is there."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(nats.errors.Error):
                answer = await maker.request(f"$JS.API.DIRECT.GET.COPY.{subject}", b"", timeout=5)
                if (answer.headers or {}).get("Nats-Subject") == subject:
                    return bytes(answer.data)


async def _over_http(node: Node, user: str) -> tuple[Client, Sender]:
    """The connection that the façade has for a user, whose batches HTTP callers share."""
    client = await login_to(node.hub)(user, user[0], "", "")
    received: asyncio.Queue[bytes] = asyncio.Queue()

    def take(messages: list[Msg]) -> None:
        for message in messages:
            received.put_nowait(message.payload)

    async def send(subject: str, body: str, headers: dict[str, str], fast: str = "") -> bytes:
        inbox = client.new_inbox()
        client.subscribe(inbox + b".>", take)
        block = header_blocks.build((k.encode(), v.encode()) for k, v in headers.items())
        client.publish(
            subject.encode(),
            body.encode(),
            reply=inbox + b"." + (fast.encode() or b"1"),
            headers=block if headers else b"",
        )
        async with asyncio.timeout(20):
            return await received.get()

    return client, send


async def _check_stored(listener: Nats) -> None:
    """Nothing that is stored names its author."""
    boss = await listener.client("boss")
    async for msg in _messages(boss):
        assert "Nats-Batch-Author" not in (msg.headers or {}), msg


async def _messages(boss: Any) -> AsyncIterator[Any]:
    info = json.loads((await boss.request("$JS.API.STREAM.INFO.WORK", b"", timeout=20)).data)
    for seq in range(1, info["state"]["last_seq"] + 1):
        body = json.dumps({"seq": seq}).encode()
        yield await boss.request("$JS.API.DIRECT.GET.WORK", body, timeout=20)


def test_nats_server_checks_no_author() -> None:
    permissions = [
        f'{{user: {u.name}, password: "{u.password}"'
        + (
            f", permissions: {{publish: {json.dumps(u.permissions.publish.allow)},"
            f" subscribe: {json.dumps(u.permissions.subscribe.allow)}}}}}"
            if u.permissions
            else "}"
        )
        for u in USERS.users
    ]

    async def run(server: NatsServer) -> None:
        listener = Nats("nats://{}:{}".format(*server.address))
        await _create(listener)
        assert await _outcomes(listener) == ALLOWED
        assert (
            await _batches(await _over_nats(listener, "ann"), await _over_nats(listener, "bob"))
            == SHARED
        )
        await listener.close()

    with NatsServer({"authorization": f"{{ users: [{', '.join(permissions)}] }}"}) as server:
        asyncio.run(run(server))


def test_over_http_authors_are_asked_and_over_nats_they_are_not(database: str) -> None:
    """As it is without a setting."""

    async def run() -> None:
        async with _served(database, ServerOptions().author_connection_types) as (
            over_nats,
            over_http,
            node,
        ):
            assert await _outcomes(over_nats) == ALLOWED
            assert await _outcomes(over_http) == REFUSED_OVER_HTTP
            assert await over_http.lines() == REFUSED_OVER_HTTP
            assert (await over_http.atomic())[0] == 403
            ann, bob = await _over_nats(over_nats, "ann"), await _over_nats(over_nats, "bob")
            assert await _batches(ann, bob) == SHARED
            client, ann = await _over_http(node, "ann")
            assert await _batches(ann, bob) == BOUND
            await _check_stored(over_nats)
            await client.close()
            assert await _made_by_who_may_create(over_nats) == [b"secret", b"made"]

    asyncio.run(run())


def test_authors_are_asked_over_nats_and_not_over_http(database: str) -> None:
    async def run() -> None:
        async with _served(database, AUTHORS_OVER_NATS) as (over_nats, over_http, node):
            assert {
                name: (stored, refused.lower())
                for name, (stored, refused) in (await _outcomes(over_nats)).items()
            } == REFUSED
            assert await _outcomes(over_http) == ALLOWED
            seen = await (await over_nats.client("boss")).subscribe("ann.>")
            ann, bob = await _over_nats(over_nats, "ann"), await _over_nats(over_nats, "bob")
            assert await _batches(ann, bob) == BOUND
            client, ann = await _over_http(node, "ann")
            assert await _batches(ann, bob) == BOUND
            await _check_stored(over_nats)
            for _ in range(8):
                headers = (await seen.next_msg(timeout=20)).headers or {}
                assert "Nats-Batch-Author" not in headers
            await client.close()

    asyncio.run(run())


def test_a_batch_belongs_to_a_connection_and_not_to_its_user(database: str) -> None:
    async def run() -> None:
        async with _served(database, AUTHORS_OVER_NATS) as (over_nats, _, node):
            first = await _over_nats(over_nats, "ann")
            another = Nats(node.nats_address)
            second = await _over_nats(another, "ann")

            async def as_ann(subject: str, *message: Any) -> bytes:
                return await second(subject.replace("bob", "ann"), *message)

            assert await _batches(first, as_ann) == BOUND
            await another.close()

    asyncio.run(run())
