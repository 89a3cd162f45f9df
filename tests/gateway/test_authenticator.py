"""The door as endpoints use it: tickets, revocation, changed permissions, very many identities."""

# Subject: HTTP sign-in, HTTP

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, NotPermitted, Options, attach, connect
from core.client import link as links
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from core.transport.loopback import connect_trusted
from core.units import Seconds
from gateway.app import create_app
from gateway.auth.authenticator import Authenticator
from gateway.auth.credentials import Credentials, from_subprotocols
from gateway.auth.revocation import RevocationReason
from gateway.http.problems import Problem
from gateway.settings import Settings
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS
from tests.gateway.web import basic
from tests.support.eventually import observed
from tests.support.sessions import ManualClock

PAGE = "https://chat.example"
ANN, BOB = User("ann", "a"), User("bob", "b")


def _unreachable(receive: links.Receive, closed: links.Closed) -> links.Link:
    raise AssertionError("nobody connects without saying who they are")


@asynccontextmanager
async def _authenticator(
    *users: User, settings: Settings = SETTINGS, clock: ManualClock | None = None
) -> AsyncIterator[tuple[Hub, Authenticator]]:
    """A door before a hub without streams, as the process has it."""
    hub = Hub(LoopTick(), SystemClock(), users=Users(users=users or (ANN, BOB)), jetstream=False)
    server = await connect(attach(partial(connect_trusted, hub)))
    app = create_app(
        settings,
        Client(attach(_unreachable), Options()),
        login=login_to(hub),
        rights=rights_in(hub),
        server=server,
        clock=clock,
    )
    authenticator: Authenticator = app.authenticator
    hub.users_changed.subscribe(authenticator.users_changed)
    async with asyncio.timeout(60):
        yield hub, authenticator
    await authenticator.close()
    await server.close()


def _scope(user: str = "", *, origin: str = "", kind: str = "websocket") -> dict[str, Any]:
    headers = [(b"host", b"localhost")]
    if user:
        headers.append((b"authorization", basic(user, user[0]).encode()))
    if origin:
        headers.append((b"origin", origin.encode()))
    return {"type": kind, "headers": headers, "client": ("127.0.0.1", 1)}


async def _ticket(authenticator: Authenticator, user: str, origin: str = "") -> str:
    asking = _scope(user, origin=origin, kind="http") | {"method": "POST", "path": "/v1/tickets"}
    async with authenticator.authenticated(asking) as caller:
        return caller.auth.tickets.issue(caller.credentials, caller.session, origin)


async def _refusal(authenticator: Authenticator, scope: dict[str, Any], **given: Any) -> str:
    with pytest.raises(Problem) as caught:
        await authenticator.authenticate(scope, **given)
    return caught.value.kind


def test_a_ticket_admits_its_caller_once() -> None:
    async def run() -> None:
        async with _authenticator() as (_, authenticator):
            ticket = await _ticket(authenticator, "ann")
            async with authenticator.authenticated(_scope(), ticket=ticket) as caller:
                assert caller.name == "ann"
            assert await _refusal(authenticator, _scope(), ticket=ticket) == "bad-ticket"
            assert await _refusal(authenticator, _scope(), ticket=ticket[:-1]) == "bad-ticket"
            assert await _refusal(authenticator, _scope(), ticket="\udc80") == "bad-ticket"
            assert await _refusal(authenticator, _scope()) == "unauthorized"

    asyncio.run(run())


def test_a_ticket_is_for_the_page_that_asked() -> None:
    async def run() -> None:
        async with _authenticator() as (_, authenticator):
            for origin in ("", "null", "https://evil.example"):
                ticket = await _ticket(authenticator, "ann", PAGE)
                scope = _scope(origin=origin)
                assert await _refusal(authenticator, scope, ticket=ticket) == "bad-ticket"
                scope = _scope(origin=PAGE)
                assert await _refusal(authenticator, scope, ticket=ticket) == "bad-ticket", (
                    "it was used up"
                )
            ticket = await _ticket(authenticator, "ann", PAGE)
            async with authenticator.authenticated(_scope(origin=PAGE), ticket=ticket) as caller:
                assert caller.name == "ann"

    asyncio.run(run())


def test_a_ticket_is_good_for_seconds() -> None:
    async def run() -> None:
        clock = ManualClock()
        settings = dataclasses.replace(SETTINGS, tickets_max=2)
        async with _authenticator(settings=settings, clock=clock) as (_, authenticator):
            late, soon = await _ticket(authenticator, "ann"), await _ticket(authenticator, "ann")
            with pytest.raises(Problem, match="too-many-tickets"):
                await _ticket(authenticator, "ann")
            assert await _ticket(authenticator, "bob"), "others have their own"
            clock.advance(29.9)
            async with authenticator.authenticated(_scope(), ticket=soon):
                clock.advance(0.1)
            assert await _refusal(authenticator, _scope(), ticket=late) == "bad-ticket"
            assert await _ticket(authenticator, "ann"), "there is room again"

    asyncio.run(run())


def test_a_ticket_of_a_session_ends_with_it() -> None:
    async def run() -> None:
        async with _authenticator() as (_, authenticator):
            auth = authenticator.auth
            _, session = auth.sessions.begin(Credentials("ann", "a"))
            ticket = auth.tickets.issue(session.credentials, session, "")
            other = auth.tickets.issue(session.credentials, session, "")
            told: list[RevocationReason] = []
            async with authenticator.authenticated(_scope(), ticket=ticket) as caller:
                caller.on_revoked(told.append)
                auth.sessions.end(session, RevocationReason.SIGNED_OUT)
                assert told == [RevocationReason.SIGNED_OUT] == [caller.revocation_reason]
            assert await _refusal(authenticator, _scope(), ticket=other) == "bad-ticket"

    asyncio.run(run())


def test_a_handshake_with_a_cookie_comes_from_a_page_of_ours() -> None:
    async def run() -> None:
        settings = dataclasses.replace(SETTINGS, cors_origins=(PAGE,))
        async with _authenticator(settings=settings) as (_, authenticator):
            value, _ = authenticator.auth.sessions.begin(Credentials("ann", "a"))
            for origin in ("", "null", "https://evil.example", "https://localhost"):
                scope = _scope(origin=origin)
                scope["headers"].append((b"cookie", f"jetgate={value}".encode()))
                assert await _refusal(authenticator, scope) == "cross-site"
            for origin in ("http://localhost", PAGE):
                scope = _scope(origin=origin)
                scope["headers"].append((b"cookie", f"jetgate={value}".encode()))
                async with authenticator.authenticated(scope) as caller:
                    assert caller.name == "ann"

    asyncio.run(run())


def test_a_handshake_with_a_cookie_comes_from_a_page_of_this_server() -> None:
    """A browser adds the password of its own dialog to the handshakes of any page."""

    async def run() -> None:
        settings = dataclasses.replace(SETTINGS, cors_origins=(PAGE,))
        async with _authenticator(settings=settings) as (_, authenticator):
            for origin in ("null", "https://evil.example", "https://localhost"):
                assert await _refusal(authenticator, _scope("ann", origin=origin)) == "cross-site"
            for origin in ("", "http://localhost", PAGE):  # a program, pages
                async with authenticator.authenticated(_scope("ann", origin=origin)) as caller:
                    assert caller.name == "ann"
            evil = "https://evil.example"
            ticket = await _ticket(authenticator, "bob", evil)
            async with authenticator.authenticated(
                _scope("ann", origin=evil), ticket=ticket
            ) as caller:
                assert caller.name == "bob", "who the page's own ticket is of"

    asyncio.run(run())


def test_a_token_comes_from_any_page() -> None:
    """Scripts alone send one, and say so to the server before (CORS)."""

    async def run() -> None:
        hub = Hub(LoopTick(), SystemClock(), users=Users(token="t"), jetstream=False)
        app = create_app(
            SETTINGS, Client(attach(_unreachable), Options()), login=login_to(hub), clock=None
        )
        authenticator: Authenticator = app.authenticator
        scope = _scope(origin="https://evil.example")
        scope["headers"].append((b"authorization", b"Bearer t"))
        async with authenticator.authenticated(scope) as caller:
            assert caller.name == "token"
        await authenticator.close()

    asyncio.run(run())


def test_a_user_that_was_removed_meanwhile_signs_in_again() -> None:
    """A session that was revoked is not alive again when the same credentials are known again."""

    async def run() -> None:
        async with _authenticator() as (hub, authenticator):
            value, session = authenticator.auth.sessions.begin(Credentials("ann", "a"))
            scope = _scope(kind="http") | {"method": "GET"}
            scope["headers"].append((b"cookie", f"jetgate={value}".encode()))
            async with authenticator.authenticated(scope):
                hub.use_users(Users(users=(BOB,)), None)
                await observed(lambda: session.revocation.reason)
            hub.use_users(Users(users=(ANN, BOB)), None)
            assert await _refusal(authenticator, scope) == "session-ended"

    asyncio.run(run())


def test_credentials_of_a_first_frame_decide_alone() -> None:
    async def run() -> None:
        async with _authenticator() as (_, authenticator):
            async with authenticator.authenticated(
                _scope("ann"), credentials=Credentials("bob", "b")
            ) as caller:
                assert caller.name == "bob"
            wrong = Credentials(token="x")
            assert await _refusal(authenticator, _scope("ann"), credentials=wrong) == "unauthorized"

    asyncio.run(run())


def test_a_subprotocol_carries_a_token() -> None:
    assert from_subprotocols(["js.v1.json", "bearer.cyNjcmV0"]) == Credentials(token="s#cret")
    assert from_subprotocols(["js.v1.json"]) is None
    for bad in (["bearer."], ["bearer.a"], ["bearer._w"], ["bearer.YQ", "bearer.YQ"]):
        with pytest.raises(Problem, match="unauthorized"):
            from_subprotocols(bad)


def test_a_removed_user_gets_401() -> None:
    async def run() -> None:
        async with _authenticator() as (hub, authenticator):
            value, session = authenticator.auth.sessions.begin(Credentials("ann", "a"))
            ended: dict[str, RevocationReason] = {}
            async with (
                authenticator.authenticated(_scope("ann")) as ann,
                authenticator.authenticated(_scope("bob")) as bob,
            ):
                ann.on_revoked(partial(ended.__setitem__, "ann"))
                bob.on_revoked(partial(ended.__setitem__, "bob"))
                ann.on_revoked(partial(ended.__setitem__, "nobody"))()
                hub.use_users(Users(users=(BOB, User("ann", "another"))), None)
                await observed(lambda: ended)
                await observed(lambda: ann.gateway.client.closed)
            assert ended == {"ann": RevocationReason.REVOKED}
            scope = _scope(origin="http://localhost")
            scope["headers"].append((b"cookie", f"jetgate={value}".encode()))
            assert await _refusal(authenticator, scope) == "session-ended"
            assert session.revocation.reason is RevocationReason.REVOKED
            assert await _refusal(authenticator, _scope("ann")) == "unauthorized"

    asyncio.run(run())


def test_other_permissions_end_what_lasts_and_hold_at_once() -> None:
    async def run() -> None:
        async with _authenticator() as (hub, authenticator):
            told: list[RevocationReason] = []
            async with (
                authenticator.authenticated(_scope("ann")) as ann,
                authenticator.authenticated(_scope("bob")) as bob,
            ):
                ann.on_revoked(told.append)
                bob.on_revoked(lambda _: told.append(RevocationReason.CLOSED))
                ann.gateway.client.check(b"x")
                hub.use_users(Users(users=(BOB, User("ann", "a", Permissions(Rule(()))))), None)
                assert told == [RevocationReason.CHANGED]
                with pytest.raises(NotPermitted):
                    ann.gateway.client.check(b"x")
                assert not ann.gateway.client.closed, "what it does is finished"
                async with authenticator.authenticated(_scope("ann")) as again:
                    assert again.gateway.client is not ann.gateway.client
            await observed(lambda: ann.gateway.client.closed)

    asyncio.run(run())


def test_permissions_that_change_while_a_connection_is_lost_hold_when_it_is_back() -> None:
    async def run() -> None:
        async with _authenticator() as (hub, authenticator):
            told: list[RevocationReason] = []
            async with authenticator.authenticated(_scope("ann")) as ann:
                ann.on_revoked(told.append)
                assert ann.rights is not None
                assert ann.rights.may_read(b"x")
                hub.sessions[ann.gateway.client.info.client_id].close("Stale Connection", "stale")
                assert not ann.rights.may_read(b"x"), "of a connection that is not there"
                may_nothing = Permissions(Rule(()), Rule(("_INBOX.>",)))
                hub.use_users(Users(users=(BOB, User("ann", "a", may_nothing))), None)
                assert told == []
                await observed(lambda: told)
                assert told == [RevocationReason.CHANGED]
                assert not ann.rights.may_read(b"x")

    asyncio.run(run())


def test_hundreds_are_served_at_once_and_idle_ones_are_let_go() -> None:
    async def run() -> None:
        names = [f"u{number}" for number in range(1500)]
        settings = dataclasses.replace(SETTINGS, identities_idle_max=10)
        async with _authenticator(*(User(name, "u") for name in names), settings=settings) as (
            hub,
            authenticator,
        ):
            callers = await asyncio.gather(
                *(authenticator.authenticate(_scope(name)) for name in names)
            )
            assert len({caller.gateway.client for caller in callers}) == len(names)
            assert not any(caller.gateway.client.closed for caller in callers)
            for caller in callers:
                authenticator.release(caller)
            await observed(lambda: len(hub.sessions) == 10 + 1)

    asyncio.run(run())


def test_too_much_at_once_is_refused_by_name() -> None:
    async def run() -> None:
        settings = dataclasses.replace(SETTINGS, identity_requests_max=2, requests_max=3)
        async with _authenticator(settings=settings) as (_, authenticator):
            async with (
                authenticator.authenticated(_scope("ann")),
                authenticator.authenticated(_scope("ann")),
            ):
                assert await _refusal(authenticator, _scope("ann")) == "too-many-waiting"
                async with authenticator.authenticated(_scope("bob")):
                    assert await _refusal(authenticator, _scope("bob")) == "too-many-at-once"
            async with (
                authenticator.authenticated(_scope("ann")),
                authenticator.authenticated(_scope("ann")),
            ):
                pass

    asyncio.run(run())


def test_guesses_at_once_are_as_many_as_one_after_the_other() -> None:
    async def run() -> None:
        settings = dataclasses.replace(SETTINGS, rate_requests=3, rate_seconds=Seconds(3600.0))
        async with _authenticator(settings=settings) as (_, authenticator):
            guesses = (Credentials("ann", str(number)) for number in range(10))
            found = await asyncio.gather(
                *(_refusal(authenticator, _scope(), credentials=guess) for guess in guesses)
            )
            assert sorted(found) == ["quota-exceeded"] * 7 + ["unauthorized"] * 3

    asyncio.run(run())


def test_a_correct_password_uses_up_no_guess() -> None:
    async def run() -> None:
        names = [f"u{number}" for number in range(10)]
        settings = dataclasses.replace(SETTINGS, rate_requests=1, rate_seconds=Seconds(3600.0))
        async with _authenticator(*(User(name, "u") for name in names), settings=settings) as (
            _,
            authenticator,
        ):
            for name in names:
                async with authenticator.authenticated(_scope(name)) as caller:
                    assert caller.name == name

    asyncio.run(run())
