"""What publishes go through, and what a change of the rules does to connected clients."""

import asyncio
from collections.abc import Iterator

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.pubsub.limits import Limits
from core.pubsub.mappings import Destination, Mapping
from core.pubsub.server import Hub
from core.transport.publishing import (
    CheckedPublisher,
    GuardedPublisher,
    MappedPublisher,
    PlainPublisher,
)
from core.transport.session import ClientSession
from tests.support.sessions import IdleTurn, ListSession, ManualClock, listen

PLAIN = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
SILENT = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
MAPPINGS = [Mapping("a", (Destination("b"),))]
TO_B = Permissions(publish=Rule(("b",)), subscribe=Rule(("b",)))


class Nowhere(asyncio.Transport):
    """A transport that takes everything."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    asyncio.events._set_running_loop(loop)
    yield
    asyncio.events._set_running_loop(None)
    loop.close()


def new_hub() -> Hub:
    return Hub(IdleTurn(), ManualClock())


def everybody_is(permissions: Permissions | None) -> Users:
    return Users(users=(User("ann", "p", permissions),), no_auth_user="ann")


def join(hub: Hub, connect: bytes = PLAIN) -> ClientSession:
    session = ClientSession(hub)
    session.connection_made(Nowhere())
    session.data_received(connect)
    return session


def test_a_client_has_the_layers_that_its_connect_and_its_permissions_and_its_account_ask_for() -> (
    None
):
    hub = new_hub()
    before_connect = ClientSession(hub)
    plain, silent = join(hub), join(hub, SILENT)

    hub.use_users(everybody_is(Permissions(subscribe=Rule(("b",)))), None)
    free_to_publish = join(hub)
    hub.use_users(everybody_is(TO_B), None)
    guarded = join(hub)

    assert isinstance(before_connect.publisher, CheckedPublisher)
    assert isinstance(silent.publisher, GuardedPublisher)
    assert isinstance(plain.publisher, GuardedPublisher)
    assert isinstance(guarded.publisher, GuardedPublisher)
    hub.use_users(None, None)
    assert isinstance(silent.publisher, CheckedPublisher)
    assert isinstance(free_to_publish.publisher, PlainPublisher)
    hub.default_account().use_mappings(MAPPINGS)
    assert isinstance(plain.publisher, MappedPublisher)


def test_new_mappings_hold_for_the_next_publish_of_a_connected_client() -> None:
    hub = new_hub()
    session, listener = join(hub), ListSession(client_id=99)
    listen(hub.default_account(), listener, b"*")

    session.data_received(b"PUB a 1\r\n1\r\n")
    hub.default_account().use_mappings(MAPPINGS)
    session.data_received(b"PUB a 1\r\n2\r\n")
    hub.default_account().use_mappings([])
    session.data_received(b"PUB a 1\r\n3\r\n")

    assert listener.take() == (b"MSG a 1 1\r\n1\r\nMSG b 1 1\r\n2\r\nMSG a 1 1\r\n3\r\n")


def test_permissions_judge_the_subject_that_mappings_made() -> None:
    hub = new_hub()
    session, listener = join(hub), ListSession(client_id=99)
    listen(hub.default_account(), listener, b"*")
    hub.default_account().use_mappings(MAPPINGS)
    hub.use_users(everybody_is(TO_B), None)

    session.data_received(b"PUB a 1\r\n1\r\nPUB c 1\r\n2\r\n")

    assert listener.take() == b"MSG b 1 1\r\n1\r\n"
    assert b"".join(session.out) == b"-ERR 'Permissions Violation for Publish to \"c\"'\r\n"


def test_new_permissions_end_the_subscriptions_that_they_do_not_allow() -> None:
    hub = new_hub()
    session = join(hub, PLAIN + b"SUB a q 1\r\nSUB b 2\r\n")

    hub.use_users(everybody_is(TO_B), None)

    assert list(session.subscriptions) == [b"2"]
    assert b"".join(session.out) == (
        b'-ERR \'Permissions Violation for Subscription to "a" using queue "q" (sid "1")\'\r\n'
    )


def test_new_permissions_hold_for_deliveries_to_subscriptions_that_stay() -> None:
    hub = new_hub()
    session, account = join(hub, PLAIN + b"SUB > 1\r\n"), hub.default_account()
    session.out.clear()

    hub.use_users(everybody_is(Permissions(subscribe=Rule(None, ("secret.>",)))), None)
    account.publish(b"secret.a", b"", b"", b"1")
    account.publish(b"open.a", b"", b"", b"2")
    assert b"".join(session.out) == b"MSG open.a 1 1\r\n2\r\n"

    session.out.clear()
    hub.use_users(everybody_is(None), None)
    account.publish(b"secret.a", b"", b"", b"3")
    assert b"".join(session.out) == b"MSG secret.a 1 1\r\n3\r\n"


def test_who_could_not_connect_under_new_users_is_closed() -> None:
    hub = new_hub()
    session = join(hub)

    hub.use_users(Users(token="t"), None)

    assert session.close_reason == "Authentication Failure"
    assert not hub.sessions


def test_new_limits_hold_for_the_next_publish_of_a_connected_client() -> None:
    hub = new_hub()
    session = join(hub)

    hub.use_limits(Limits(max_payload=1))
    session.data_received(b"PUB a 2\r\n12\r\n")

    assert session.close_reason == "Maximum Message Payload Exceeded"
