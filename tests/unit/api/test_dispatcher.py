"""The dispatcher: finding routes, order, errors as JSON, silence. Handlers are stand-ins."""

# Subject: API

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from core.api.call import ApiServer, Body, Call, Counters, Nothing
from core.api.dispatcher import PREFIX, SUBJECTS, Dispatcher, is_empty, is_silent
from core.api.routes import OWN_ROUTES, ROUTES, Level, Route
from core.errors import Unavailable
from core.model.api_errors import api_error
from core.model.stream import StreamDeleteResponse, StreamPageRequest
from core.subjects.subject import matches
from tests.support.eventually import observed

AUDIT = b"$JS.EVENT.ADVISORY.API"
SESSION: Any = SimpleNamespace(
    started=1_700_000_000_123_456_789,
    client_ip="127.0.0.1",
    client_id=7,
    rtt=5,
    user="\u00fc<",
    connect=SimpleNamespace(name="n", lang="go", version="1"),
    connection_type="WEBSOCKET",
)


class FakeAccount:
    """Keeps what is published and subscribed."""

    def __init__(self, server: str) -> None:
        self.sent: list[tuple[bytes, Any]] = []
        self.subjects: list[bytes] = []
        self.heard: set[bytes] = set()
        self.name = "$G"
        self.hub = SimpleNamespace(server_name=server)

    def has_interest(self, subject: bytes) -> bool:
        return subject in self.heard

    def subscribe(self, subject: bytes, call: Any, queue: bytes) -> bytes:
        self.subjects.append(subject)
        return subject

    def unsubscribe(self, subject: bytes) -> None:
        self.subjects.remove(subject)

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.sent.append((subject, json.loads(payload)))


PREFIXES = (b"$JS.API.", b"$JG.API.")
"""Below them other nodes send requests on."""


class FakeRouting:
    """Where requests are served: here, but for those that name what another node leads."""

    def __init__(self, account: FakeAccount) -> None:
        self.account = account
        self.led_elsewhere: set[str] = set()
        self.sent: list[bytes] = []
        self.headers: list[bytes] = []

    def serving_node(self, names: tuple[str, ...], *, is_meta: bool) -> object | None:
        return self if self.led_elsewhere.intersection(names) else None

    def send(
        self, link: object, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.sent.append(subject)
        self.headers.append(headers)

    def listen(self, below: bytes, serve: Any) -> None:
        self.account.subjects.append(below)

    def unlisten(self, below: bytes) -> None:
        if below in self.account.subjects:
            self.account.subjects.remove(below)


class Bench:
    """A dispatcher over one route with a handler of the test's."""

    def __init__(
        self,
        handler: Any,
        body: Body = Body.IGNORED,
        level: Level = Level.BEFORE_BODY,
        *,
        may_wait: bool = False,
        server: str = "server",
    ) -> None:
        self.account = FakeAccount(server)
        request: type[msgspec.Struct] = Nothing
        if body in (Body.JSON, Body.OPTIONAL, Body.NEEDED):
            request = StreamPageRequest
        route = Route(
            "TEST.*", body, request, StreamDeleteResponse, handler, level, may_wait=may_wait
        )
        clock = SimpleNamespace(now=lambda: 0)
        self.elsewhere: set[str] = set()

        async def is_elsewhere(name: str) -> bool:
            return name in self.elsewhere

        registry = SimpleNamespace(is_elsewhere=is_elsewhere)
        self.server = ApiServer(registry, clock, None, None)  # type: ignore[arg-type]  # doubles
        self.routing = FakeRouting(self.account)
        self.dispatcher = Dispatcher(self.account, self.server, self.routing, (route,))  # type: ignore[arg-type]  # doubles

    def request(
        self, name: str, payload: bytes = b"", headers: bytes = b"", reply: bytes = b"r"
    ) -> None:
        self.dispatcher.on_request(
            None, b"$JS.API.TEST.%b" % name.encode(), reply, headers, payload
        )

    async def await_answers(self) -> list[Any]:
        while self.dispatcher._tasks:
            await asyncio.gather(*self.dispatcher._tasks)
        return [answer for _, answer in self.account.sent]


async def _success(server: ApiServer, call: Call[Any]) -> StreamDeleteResponse:
    return StreamDeleteResponse(success=True)


def _run(steps: Any) -> Any:
    return asyncio.run(steps)


def test_requests_of_one_stream_are_served_in_order_and_others_meanwhile() -> None:
    async def steps() -> None:
        gate, served = asyncio.Event(), list[str]()

        async def handler(server: ApiServer, call: Call[Any]) -> StreamDeleteResponse:
            if call.names == ("slow",) and not served:
                await gate.wait()
            served.append(call.names[0])
            if call.names == ("fast",):
                gate.set()
            return StreamDeleteResponse(success=True)

        bench = Bench(handler)
        for name in ("slow", "slow", "fast"):
            bench.request(name)
        await bench.await_answers()

        assert served == ["fast", "slow", "slow"] or served[0] == "fast"

    _run(steps())


def test_requests_that_may_wait_are_served_beside_one_another() -> None:
    async def steps() -> None:
        gate = asyncio.Event()

        async def handler(server: ApiServer, call: Call[Any]) -> StreamDeleteResponse:
            if not gate.is_set():
                gate.set()
                await asyncio.Event().wait()
            return StreamDeleteResponse(success=True)

        bench = Bench(handler, may_wait=True)
        bench.request("S")
        await gate.wait()
        bench.request("S")
        await observed(lambda: bench.account.sent)

        assert bench.dispatcher.waiting == 0
        await bench.dispatcher.stop()

    _run(steps())


def test_an_error_becomes_json_of_the_routes_type() -> None:
    async def refuse(server: ApiServer, call: Call[Any]) -> None:
        raise api_error("JSStreamNotFound")

    async def steps() -> None:
        bench = Bench(refuse)
        bench.request("S")
        (answer,) = await bench.await_answers()

        assert answer["type"] == "io.nats.jetstream.api.v1.stream_delete_response"
        assert answer["error"] == {
            "code": 404,
            "err_code": 10059,
            "description": "stream not found",
        }
        assert bench.server.counters == Counters(total=1, errors=1)
        # A stream that another node leads is not unknown.
        bench.elsewhere.add("S")
        bench.request("S")
        answer = (await bench.await_answers())[-1]
        assert answer["error"]["err_code"] == 10008

    _run(steps())


@pytest.mark.parametrize(
    ("raised", "code"), [(Unavailable("away"), 10008), (RuntimeError("secret"), 10051)]
)
def test_other_failures_are_answered_without_telling_what_went_wrong(
    raised: Exception, code: int
) -> None:
    async def fail(server: ApiServer, call: Call[Any]) -> None:
        raise raised

    async def steps() -> None:
        bench = Bench(fail)
        bench.request("S")
        (answer,) = await bench.await_answers()

        assert answer["error"]["err_code"] == code
        assert "secret" not in json.dumps(answer)

    _run(steps())


def test_a_request_without_reply_is_served_and_not_answered() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        bench.request("S", reply=b"")

        assert await bench.await_answers() == []
        assert bench.server.counters.total == 1

    _run(steps())


def test_unknown_subjects_are_silent() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        for subject in (b"$JS.API.NOPE", b"$JS.API.TEST", b"$JS.API.TEST.a.b", b"$JS.API.TESTS.a"):
            bench.dispatcher.on_request(None, subject, b"r", b"", b"")

        assert await bench.await_answers() == []

    _run(steps())


@pytest.mark.parametrize(
    ("body", "payload", "code"),
    [
        (Body.EMPTY, b"x", 10038),
        (Body.EMPTY, b" {} ", 0),
        (Body.EMPTY, b"null", 10038),
        (Body.NEEDED, b"", 10003),
        (Body.NEEDED, b"{}", 10003),
        (Body.NEEDED, b"x", 10025),
        (Body.OPTIONAL, b"x", 0),
        (Body.OPTIONAL, b" [", 10025),
        (Body.JSON, b"", 0),
        (Body.JSON, b'{"offset":"x"}', 10025),
        (Body.IGNORED, b"x", 0),
    ],
)
def test_bodies_are_judged_by_the_route(body: Body, payload: bytes, code: int) -> None:
    async def steps() -> None:
        bench = Bench(_success, body)
        bench.request("S", payload)
        (answer,) = await bench.await_answers()

        assert answer.get("error", {}).get("err_code", 0) == code

    _run(steps())


@pytest.mark.parametrize(
    ("level", "value", "code"),
    [
        (Level.BEFORE_BODY, b"6", 10185),
        (Level.BEFORE_BODY, b"5", 10038),
        (Level.AFTER_BODY, b"6", 10038),
        (Level.NEVER, b"6", 10038),
    ],
)
def test_the_required_api_level_is_checked_on_marked_routes(
    level: Level, value: bytes, code: int
) -> None:
    async def steps() -> None:
        bench = Bench(_success, Body.EMPTY, level)
        header = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % value
        bench.request("S", b"x", header)
        (answer,) = await bench.await_answers()

        assert answer["error"]["err_code"] == code

    _run(steps())


def test_every_route_is_listened_to_exactly_once() -> None:
    for route in ROUTES:
        subject = PREFIX + route.subject.replace("*", "name").replace(">", "a.b").encode()
        heard = [s for s in SUBJECTS if matches(subject, PREFIX + s.encode())]

        assert len(heard) == 1, (route.subject, heard)


@pytest.mark.parametrize("subject", ["CONSUMER.MSG.NEXT.S.C", "DIRECT.GET.S", "DIRECT.GET.S.a.b"])
def test_requests_to_consumers_and_streams_themselves_are_not_listened_to(subject: str) -> None:
    assert not any(matches(PREFIX + subject.encode(), PREFIX + s.encode()) for s in SUBJECTS)


@pytest.mark.parametrize(
    "subject", ["FOO", "FOO.BAR", "A.B.C.D", "STREAM.FOO.S", "CONSUMER.MSG.NEXT", "SERVER.A.B"]
)
def test_an_unknown_subject_of_the_api_gets_no_answer(subject: str) -> None:
    assert is_silent(PREFIX + subject.encode())


@pytest.mark.parametrize(
    "subject", ["$JS.API.CONSUMER.MSG.NEXT.S", "$JS.API.DIRECT.GET", "$JS.API", "$JS.X.Y", "a"]
)
def test_a_subject_outside_the_api_is_not_silent(subject: str) -> None:
    assert not is_silent(subject.encode())


def test_a_request_for_a_stream_that_another_node_leads_is_sent_there_once() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        bench.routing.led_elsewhere = {"far"}
        bench.request("far")
        bench.request("near")
        assert len(await bench.await_answers()) == 1
        assert bench.routing.sent == [b"$JS.API.TEST.far"]
        bench.dispatcher._on_routed(b"$JS.API.TEST.far", b"r", b"", b"")
        assert len(await bench.await_answers()) == 2

    _run(steps())


def test_stopping_ends_listening() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        bench.dispatcher.start()
        assert len(bench.account.subjects) == len(SUBJECTS) + len(OWN_ROUTES) + len(PREFIXES)

        await bench.dispatcher.stop()

        assert bench.account.subjects == []

    _run(steps())


@pytest.mark.parametrize(
    ("payload", "empty"),
    [
        (b"", True),
        (b"{}", True),
        (b"{ }\n", True),
        (b"null", False),
        (b"{}{}", False),
        (b"[]", False),
    ],
)
def test_an_empty_body_is_nothing_or_an_object_without_members(payload: bytes, empty: bool) -> None:
    assert is_empty(payload) is empty


def test_a_large_body_is_decoded_like_a_small_one() -> None:
    async def steps() -> None:
        bench = Bench(_success, Body.JSON)
        bench.request("S", b'{"subject":"' + b"x" * 100_000 + b'"}')
        bench.request("S", b"[" * 100_000)
        good, bad = await bench.await_answers()

        assert good["success"] is True
        assert bad["error"]["description"] == "invalid JSON: exceeded max depth at offset 10001"

    _run(steps())


def test_when_too_many_wait_all_are_dropped_and_an_advisory_counts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.api.dispatcher.QUEUE_MAX", 3)

    async def steps() -> None:
        bench = Bench(_success)
        limit_reached = b"$JS.EVENT.ADVISORY.API.LIMIT_REACHED"
        bench.account.heard.add(limit_reached)
        for name in ("a", "a", "b", "c"):
            bench.request(name)
        bench.request("d")
        answers = await bench.await_answers()

        assert [subject for subject, _ in bench.account.sent] == [limit_reached, b"r"]
        assert answers[0]["dropped"] == 4
        assert answers[0]["server"] == "server"
        assert bench.server.counters.dropped == 4
        assert bench.dispatcher.waiting == 0

    _run(steps())


def test_an_audit_follows_the_answer_and_is_made_without_one_too() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        bench.request("unheard")
        await bench.await_answers()
        bench.account.heard.add(AUDIT)
        for reply in (b"r", b""):
            bench.dispatcher.on_request(SESSION, b"$JS.API.TEST.S", reply, b"", b"body")
            await bench.await_answers()

        assert [subject for subject, _ in bench.account.sent] == [b"r", b"r", AUDIT, AUDIT]
        event = bench.account.sent[-1][1]
        assert event["subject"] == "$JS.API.TEST.S"
        assert event["request"] == "body"
        assert json.loads(event["response"])["success"] is True
        assert event["client"]["id"] == 7

    _run(steps())


class Pair:
    """Two dispatchers: what the first is asked about the stream `far`, the second serves."""

    def __init__(self) -> None:
        self.served: list[bytes] = []

        async def handler(server: ApiServer, call: Call[Any]) -> StreamDeleteResponse:
            self.served.append(call.headers)
            return StreamDeleteResponse(success=True)

        self.asked, self.leading = Bench(handler, server="asked"), Bench(handler, server="leading")
        self.asked.routing.led_elsewhere = {"far"}
        self.leading.account.heard.add(AUDIT)

    async def request(self, headers: bytes, *, session: Any = SESSION) -> list[Any]:
        """Ask about `far`; return the audits of it."""
        subject = b"$JS.API.TEST.far"
        self.asked.dispatcher.on_request(session, subject, b"r", headers, b"body")
        assert await self.asked.await_answers() == []
        (sent,) = self.asked.routing.headers
        self.leading.dispatcher._on_routed(subject, b"r", sent, b"body")
        await self.leading.await_answers()
        return [event for subject, event in self.leading.account.sent if subject == AUDIT]


FORGED = b'Nats-Request-Info: {"name":"forged"}\r\n'


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"NATS/1.0\r\nA: 1\r\n\r\n",
        b"NATS/1.0 503 Text\r\nA:  1 \r\na: 2\r\n\r\n",
        b"NATS/1.0\r\n" + FORGED + b"A: 1\r\n\r\n",
        b"NATS/1.0\r\nA: 1\r\n" + FORGED + b"\r\n",
    ],
)
def test_the_audit_of_a_request_that_was_sent_on_names_the_client_as_its_own_node_would(
    headers: bytes,
) -> None:
    async def steps() -> None:
        near, pair = Bench(_success, server="asked"), Pair()
        for bench in (near, pair.asked):
            bench.account.heard.add(AUDIT)
        near.dispatcher.on_request(SESSION, b"$JS.API.TEST.far", b"r", b"", b"body")
        expected = (await near.await_answers())[-1]

        (event,) = await pair.request(headers)

        assert event["client"] == expected["client"]
        assert (event["client"]["server"], event["server"]) == ("asked", "leading")
        assert pair.served == [headers]

    _run(steps())


@pytest.mark.parametrize("session", [SESSION, None])
@pytest.mark.parametrize(
    "headers",
    [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n" + FORGED + b"\r\n", b"NATS/1.0\r\n" + FORGED, b"x"],
)
def test_a_header_of_a_client_names_no_client_while_its_node_knows_of_no_listener(
    headers: bytes, session: Any
) -> None:
    async def steps() -> None:
        pair = Pair()

        assert await pair.request(headers, session=session) == []

        assert pair.served == [headers]

    _run(steps())


def test_an_unreadable_request_names_no_client() -> None:
    async def steps() -> None:
        bench = Bench(_success)
        bench.account.heard.add(AUDIT)
        told = b"NATS/1.0\r\nNats-Request-Info: {\r\n\r\n"
        bench.dispatcher._on_routed(b"$JS.API.TEST.far", b"r", told, b"")

        await bench.await_answers()

        assert [subject for subject, _ in bench.account.sent] == [b"r"]

    _run(steps())


def test_a_request_whose_stream_turns_out_to_be_elsewhere_is_sent_on_with_its_client() -> None:
    async def steps() -> None:
        async def handler(server: ApiServer, call: Call[Any]) -> StreamDeleteResponse:
            bench.routing.led_elsewhere = bench.elsewhere = {"far"}
            raise api_error("JSStreamNotFound")

        bench = Bench(handler)
        bench.account.heard.add(AUDIT)
        bench.dispatcher.on_request(SESSION, b"$JS.API.TEST.far", b"r", b"", b"")

        assert await bench.await_answers() == []

        (sent,) = bench.routing.headers
        assert b'"user":"\xc3\xbc\\u003c"' in sent

    _run(steps())
