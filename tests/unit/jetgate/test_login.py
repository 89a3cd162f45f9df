"""What the façade knows beforehand that the server would refuse."""

import asyncio

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import NotPermitted
from core.pubsub.mappings import Destination, Mapping
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.turn import Turn
from jetgate.login import login_to

USER = User("ann", "p", Permissions(publish=Rule(("bar", "$JS.API.>"))))


def test_it_is_judged_by_the_subject_that_mappings_make() -> None:
    async def work() -> None:
        hub = Hub(Turn(), SystemClock(), users=Users(users=(USER,)))
        hub.default_account().use_mappings([Mapping("foo", (Destination("bar"),))])
        client = await login_to(hub)("ann", "p", "", "")

        client.check(b"foo")
        client.check(b"bar")
        with pytest.raises(NotPermitted):
            client.check(b"other")
        await client.close()

    asyncio.run(work())
