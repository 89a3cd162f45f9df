"""What the façade knows beforehand that the server would refuse."""

# Subject: configuration

import asyncio

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import NotPermitted
from core.pubsub.mappings import Destination, Mapping
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from jetgate.login import login_to
from tests.support.eventually import observed

USER = User("ann", "p", Permissions(publish=Rule(("bar", "$JS.API.>"))))


def test_it_is_judged_by_the_subject_that_mappings_make() -> None:
    async def work() -> None:
        hub = Hub(LoopTick(), SystemClock(), users=Users(users=(USER,)))
        hub.default_account().use_mappings([Mapping("foo", (Destination("bar"),))])
        client = await login_to(hub)("ann", "p", "", "")

        client.check(b"foo")
        client.check(b"bar")
        with pytest.raises(NotPermitted):
            client.check(b"other")
        await client.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "subscribe", "inbox", "is_answered"),
    [
        ("ann", Rule(), b"_INBOX.ann.", True),
        ("ann", Rule(("_INBOX.>",)), b"_INBOX.ann.", True),
        ("ann", Rule(("_INBOX.ann.>",)), b"_INBOX.ann.", True),
        ("ann", Rule(("_INBOX.*.>",)), b"_INBOX.ann.", True),
        ("ann", Rule(("_INBOX.*.*",)), b"_INBOX.", True),
        ("ann", Rule(("_INBOX.>",), ("_INBOX.ann.>",)), b"_INBOX.", True),
        ("ann", Rule(("_INBOX.bob.>",)), b"_INBOX.", False),
        ("ann", Rule(("chat.>",)), b"_INBOX.", False),
        ("a.b", Rule(("_INBOX.>",)), b"_INBOX.", True),
        ("*", Rule(("_INBOX.>",)), b"_INBOX.", True),
        (">", Rule(("_INBOX.>",)), b"_INBOX.", True),
        ("a b", Rule(("_INBOX.>",)), b"_INBOX.", True),
        ("ä", Rule(("_INBOX.ä.>",)), "_INBOX.ä.".encode(), True),
    ],
)
def test_a_user_is_answered_on_inboxes_of_its_own_where_it_may_read_them(
    name: str, subscribe: Rule, inbox: bytes, is_answered: bool
) -> None:
    async def work() -> None:
        user = User(name, "p", Permissions(subscribe=subscribe))
        hub = Hub(LoopTick(), SystemClock(), users=Users(users=(user,)))
        hub.default_account().subscribe(
            b"asked", lambda _s, _t, reply, *_: hub.default_account().publish(reply, b"", b"", b"y")
        )
        client = await login_to(hub)(name, "p", "", "")
        await client.flush()

        own, rest = client.inbox_prefix[: len(inbox)], client.inbox_prefix[len(inbox) :]
        assert (own, rest.count(b".")) == (inbox, 1)
        assert client.new_inbox().rpartition(b".")[0] + b"." == inbox
        assert bool(client.last_error) is not is_answered
        if is_answered:
            assert (await client.request(b"asked", within=20)).payload == b"y"
        await client.close()

    asyncio.run(work())


def test_a_token_has_no_inboxes_of_its_own() -> None:
    async def work() -> None:
        hub = Hub(LoopTick(), SystemClock(), users=Users(token="secret"))
        client = await login_to(hub)("", "", "secret", "")
        assert client.inbox_prefix.count(b".") == 2
        await client.close()

    asyncio.run(work())


def test_a_connection_made_anew_is_answered_by_the_permissions_of_then() -> None:
    def users(subscribe: str) -> Users:
        return Users(users=(User("ann", "p", Permissions(subscribe=Rule((subscribe,)))),))

    async def work() -> None:
        hub = Hub(LoopTick(), SystemClock(), users=users("_INBOX.>"))
        client = await login_to(hub)("ann", "p", "", "")
        before = client.inbox_prefix
        hub.use_users(users("_INBOX.*.*"), None)
        hub.sessions[client.info.client_id].close("Stale Connection")
        await observed(lambda: client.connected and client.inbox_prefix != before)
        assert client.inbox_prefix.count(b".") == 2
        await client.close()

    asyncio.run(work())
