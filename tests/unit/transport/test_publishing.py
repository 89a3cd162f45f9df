"""What publishes go through, and what a change of the rules does to connected clients."""

# Subject: protocol

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.pubsub.forwarding import Splitter
from core.pubsub.limits import Limits
from core.pubsub.mappings import Destination, Mapping
from core.pubsub.receivers import RemoteInterest
from core.pubsub.server import Hub
from core.transport.publishing import (
    CheckedPublisher,
    GuardedPublisher,
    MappedPublisher,
    PlainPublisher,
)
from core.transport.session import ClientSession
from tests.support.links import ListLink
from tests.support.sessions import IdleTick, ListSession, ManualClock, NotedAcks, listen

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

    def is_closing(self) -> bool:
        return False

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
    return Hub(IdleTick(), ManualClock())


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

    assert listener.drain() == (b"MSG a 1 1\r\n1\r\nMSG b 1 1\r\n2\r\nMSG a 1 1\r\n3\r\n")


def test_permissions_judge_the_subject_that_mappings_made() -> None:
    hub = new_hub()
    session, listener = join(hub), ListSession(client_id=99)
    listen(hub.default_account(), listener, b"*")
    hub.default_account().use_mappings(MAPPINGS)
    hub.use_users(everybody_is(TO_B), None)

    session.data_received(b"PUB a 1\r\n1\r\nPUB c 1\r\n2\r\n")

    assert listener.drain() == b"MSG b 1 1\r\n1\r\n"
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


def test_a_connection_that_new_users_would_refuse_is_closed() -> None:
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


class Acknowledged:
    """A hub with a client; consumers of A are here, those of B and C on two other nodes.

    Of one consumer here the names begin as those of another elsewhere do, with a domain and a hash.

    Attributes:
        here: what the consumers here took.
        links: to the other nodes: B's, which also takes pull requests, and C's.
    """

    def __init__(self) -> None:
        self.hub = new_hub()
        account = self.hub.default_account()
        account.split = Splitter(account).split
        self.here: list[tuple[object, ...]] = []
        for consumer in (b"A.a", b"A.b", LONG):
            account.ack_handlers[b"$JS.ACK." + consumer] = NotedAcks(self.here)
        self.links = ListLink(), ListLink()
        for link, stream in zip(self.links, (b"B", b"C"), strict=True):
            account.add_remote(RemoteInterest(link, b"_JG.ACK." + stream, b"", 0))
        account.add_remote(RemoteInterest(self.links[0], b"next.*", b"", 0))
        self.session = join(self.hub, PLAIN.replace(b"}", b',"no_responders":true}'))
        self.session.data_received(b"SUB in 1\r\n")

    def done(self) -> tuple[object, ...]:
        """All that anybody got, in order."""
        here = [tuple(each for each in taken if each is not self.session) for taken in self.here]
        return here, [link.messages() for link in self.links], b"".join(self.session.out)


PULL = b"PUB next.B in 3\r\n100\r\n"
LONG = b"B.a.A.c"
CONSUMERS = (b"A.a", b"A.b", b"B.a", b"B.b", b"C.a")
NOBODYS = b"PUB $JS.ACK.Z.a.1.5.5.1.0 in 4\r\n+ACK\r\n"


def acknowledgement(
    number: int, chance: Random, consumers: tuple[bytes, ...] = CONSUMERS, asking: float = 0.3
) -> bytes:
    consumer = chance.choice(consumers)
    reply = b"in " if chance.random() < asking else b""
    body = chance.choice((b"+ACK", b"+ACK", b"", b"-NAK"))
    subject = b"$JS.ACK.%b.1.%d.%d.1.0" % (consumer, number, number)
    return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply, len(body), body)


def one_by_one(lines: list[bytes]) -> tuple[object, ...]:
    whole = Acknowledged()
    for line in lines:
        whole.session.data_received(line)
    return whole.done()


@pytest.mark.parametrize("seed", range(4))
def test_acknowledgements_in_one_read_do_what_each_does(seed: int) -> None:
    chance = Random(seed)
    lines = [acknowledgement(number, chance) for number in range(200)]
    for _ in range(seed * 3):
        lines.insert(chance.randrange(200), chance.choice((PULL, NOBODYS)))
    whole = Acknowledged()

    whole.session.data_received(b"".join(lines[:80]))  # of the first read, some as a sample
    before = sum(len(link.out) for link in whole.links)
    whole.session.data_received(b"".join(lines[80:]))

    assert whole.done() == one_by_one(lines)
    sent = sum(len(link.out) for link in whole.links) - before
    assert sent <= 2 + 3 * seed * 3, "those for one node go there together"


@pytest.mark.parametrize("consumers", [(b"A.a",), (b"B.a",), (b"B.a", b"B.b"), (b"B.a", LONG)])
@pytest.mark.parametrize("asking", [0, 0.03, 0.3])
def test_acknowledgements_of_few_consumers_in_one_read_do_what_each_does(
    consumers: tuple[bytes, ...], asking: float
) -> None:
    chance = Random(len(consumers))
    lines = [acknowledgement(number, chance, consumers, asking) for number in range(200)]
    lines[chance.randrange(200)] = PULL
    whole = Acknowledged()

    whole.session.data_received(b"".join(lines[:80]))
    whole.session.data_received(b"".join(lines[80:]))

    assert whole.done() == one_by_one(lines)


def test_a_reply_that_no_client_may_use_is_refused_among_acknowledgements() -> None:
    chance = Random(1)
    lines = [acknowledgement(number, chance) for number in range(50)]
    lines.insert(25, b"PUB $JS.ACK.A.a.1.1.1.1.0 _R_.x 0\r\n\r\n")
    whole = Acknowledged()

    whole.session.data_received(b"".join(lines))

    assert whole.done() == one_by_one(lines)
    assert b"Permissions Violation for Publish with Reply" in b"".join(whole.session.out)


def test_a_subscriber_to_acknowledgements_gets_those_of_one_read() -> None:
    chance = Random(2)
    lines = [acknowledgement(number, chance) for number in range(50)]
    whole = Acknowledged()
    watcher = ListSession()
    listen(whole.hub.default_account(), watcher, b"$JS.ACK.>")

    whole.session.data_received(b"".join(lines))

    assert b"".join(watcher.out).count(b"MSG $JS.ACK.") == 50
