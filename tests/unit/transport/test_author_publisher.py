"""What authors are asked about, on every way a message can take: in columns, traced, onward."""

# Subject: protocol, permissions

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from core.auth.author import StreamScope
from core.auth.grant import Grant
from core.auth.users import Permissions, Rule, User, Users
from core.protocol import headers as header_blocks
from core.protocol.gather import WORTH_GATHERING
from core.protocol.messages import MessageColumns
from core.pubsub.account import Account
from core.pubsub.authored import with_author, without_author
from core.pubsub.forwarding import Splitter, deliver_here
from core.pubsub.receivers import RemoteInterest
from core.pubsub.server import AUTHORS_OVER_NATS, Hub
from core.transport.author_publisher import AuthorPublisher, author_of
from core.transport.publishing import PlainPublisher
from core.transport.session import ClientSession
from tests.support.links import ListLink
from tests.support.sessions import IdleTick, ListSession, ManualClock, Socket, listen
from tests.unit.transport.test_session import CONNECT
from tests.unit.transport.test_traced_publishing import hpub

ANN = Permissions(Rule(("a.>", "td")), Rule(("a.>",)))
EVERYTHING = b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"
OF_A_BATCH = b"NATS/1.0\r\nNats-Batch-Id: B\r\nNats-Batch-Sequence: 1\r\n\r\n"
VIOLATION = b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.PURGE.S\"'\r\n"


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    asyncio.events._set_running_loop(loop)
    yield
    asyncio.events._set_running_loop(None)
    loop.close()


class Stream:
    """What a stream of subjects takes; those of batches come with their authors."""

    def __init__(self, account: Account, *filters: bytes, copies: bool = False) -> None:
        self.taken: list[tuple[bytes, bytes]] = []
        for subject in filters:
            subscription = account.subscribe(subject, self._receive)
            subscription.batch = self._receive_batch
            subscription.traced = lambda _trace, *message: self._receive(None, *message)
            subscription.takes_authors = True
        account.scopes = lambda _subject: [StreamScope("S", filters, copies)]

    def _receive(
        self, _session: Any, subject: bytes, _reply: bytes, headers: bytes, _payload: bytes
    ) -> None:
        self.taken.append((subject, headers))

    def _receive_batch(self, batch: MessageColumns) -> None:
        self.taken += zip(batch.subjects, batch.headers, strict=True)


def a_hub(permissions: Permissions | None = ANN) -> Hub:
    users = Users(users=(User("ann", "p", permissions),), no_auth_user="ann")
    hub = Hub(IdleTick(), ManualClock(), users=users)
    hub.author_connection_types = AUTHORS_OVER_NATS
    return hub


def join(hub: Hub) -> tuple[ClientSession, Socket]:
    session, socket = ClientSession(hub), Socket()
    session.connection_made(socket)
    session.data_received(CONNECT)
    hub.loop_tick.run()
    socket.drain()
    return session, socket


def _send(session: ClientSession, socket: Socket, *lines: bytes) -> bytes:
    session.data_received(b"".join(lines))
    session.hub.loop_tick.run()
    return socket.drain()


@pytest.mark.parametrize("trace", [b"", b"Nats-Trace-Dest: td\r\n"])
@pytest.mark.parametrize("many", [1, WORTH_GATHERING])
def test_no_way_past_the_permissions(trace: bytes, many: int) -> None:
    """Neither a trace nor a read in columns."""
    hub = a_hub()
    stream = Stream(hub.default_account(), b"a.>", b"sec.>")
    session, socket = join(hub)
    block = EVERYTHING[:-2] + trace + b"\r\n"

    said = _send(session, socket, *[hpub(b"a.x", b"NATS/1.0\r\n\r\n"), hpub(b"a.x", block)] * many)

    assert said == VIOLATION * many
    assert stream.taken == [(b"a.x", b"NATS/1.0\r\n\r\n")] * many


def test_the_setting_holds_for_connected_clients_too() -> None:
    hub = a_hub(None)
    session, _ = join(hub)
    assert isinstance(session.publisher, AuthorPublisher)
    author = author_of(session)

    hub.use_author_connection_types(frozenset())
    assert isinstance(session.publisher, PlainPublisher)
    hub.use_author_connection_types(AUTHORS_OVER_NATS)
    assert isinstance(session.publisher, AuthorPublisher)
    assert author_of(session) == author


@pytest.mark.parametrize(
    ("filters", "copies", "publish", "may"),
    [
        ((b"a.>",), False, ("a.>",), True),
        ((b"a.>",), False, ("a.*",), False),
        ((b"a.*", b"a.b.c"), False, ("a.>",), True),
        ((b"a.>", b"b"), False, ("a.>",), False),
        ((b"a.>",), True, ("a.>",), False),  # and what its sources bring
        ((b"a.>",), True, ("a.>", "$JS.API.STREAM.PURGE.*"), True),
        ((b"a.>", b"b"), False, ("a.>", "$JS.API.STREAM.PURGE.T"), False),
    ],
)
def test_a_client_that_may_purge_or_has_all_subjects_rolls_up_all(
    filters: tuple[bytes, ...], copies: bool, publish: tuple[str, ...], may: bool
) -> None:
    hub = a_hub(Permissions(Rule(publish)))
    stream = Stream(hub.default_account(), *filters, copies=copies)
    said = _send(*join(hub), hpub(b"a.x", EVERYTHING))
    assert (bool(stream.taken), said) == (may, b"" if may else VIOLATION)


def test_a_filter_with_a_denied_part_is_not_wholly_allowed() -> None:
    grant = Grant(Permissions(Rule(("a.>",), ("a.secret",))))
    assert not grant.may_publish_all(b"a.>")
    assert not grant.may_publish_all(b"a.*")
    assert grant.may_publish_all(b"a.b.>")
    assert Grant(Permissions()).may_publish_all(b">")


@pytest.mark.parametrize("asks", [b"", b"Nats-Trace-Dest: td\r\n"])
def test_streams_alone_learn_the_author_of_a_batch(asks: bytes) -> None:
    """Nobody who listens could go on with the batch as its author."""
    hub = a_hub()
    account = hub.default_account()
    stream, listener, member = Stream(account, b"a.>"), ListSession(), ListSession(client_id=2)
    listen(account, listener, b"a.x")
    listen(account, member, b"a.*", b"group")
    session, _ = join(hub)
    block = OF_A_BATCH[:-2] + asks + b"\r\n"

    session.data_received(hpub(b"a.x", block))

    assert stream.taken == [(b"a.x", with_author(block, author_of(session)))]
    for each in (listener, member):
        got = each.drain()
        assert block in got
        assert author_of(session) not in got


def test_a_message_of_a_fast_batch_has_an_author_too() -> None:
    hub = a_hub()
    stream = Stream(hub.default_account(), b"a.>")
    session, socket = join(hub)
    line = b"PUB a.x i.B.10.ok.%d.1.$FI 1\r\nx\r\n"

    assert _send(session, socket, *(line % n for n in range(1, 200))) == b""

    assert {headers for _, headers in stream.taken} == {with_author(b"", author_of(session))}
    assert without_author(with_author(b"", author_of(session))) == b""


def test_an_author_header_sent_by_a_client_is_ignored() -> None:
    hub = a_hub()
    stream = Stream(hub.default_account(), b"a.>")
    session, socket = join(hub)
    forged = with_author(OF_A_BATCH, b"somebody")

    _send(session, socket, hpub(b"a.x", forged))

    [(_, headers)] = stream.taken
    assert header_blocks.find(headers, header_blocks.BATCH_AUTHOR) == author_of(session)
    assert without_author(headers) == OF_A_BATCH


@pytest.mark.parametrize("is_node", [True, False])
def test_only_nodes_of_the_database_get_the_author(is_node: bool) -> None:
    hub, link = a_hub(), ListLink()
    account = hub.default_account()
    account.split = Splitter(account).split
    account.add_remote(RemoteInterest(link, b"a.>", b"", 0, is_node))
    session, socket = join(hub)

    _send(session, socket, hpub(b"a.x", OF_A_BATCH))

    sent = with_author(OF_A_BATCH, author_of(session)) if is_node else OF_A_BATCH
    assert link.messages() == [(b"a.x", b"", sent, b"x")]


def test_a_message_of_another_node_has_its_author_for_the_stream_alone() -> None:
    account = a_hub().default_account()
    stream, listener = Stream(account, b"a.>"), ListSession()
    listen(account, listener, b"a.x")
    authored = with_author(OF_A_BATCH, b"secret")

    deliver_here(account, b"a.x", b"", (), authored, b"x")

    assert stream.taken == [(b"a.x", authored)]
    got = listener.drain()
    assert OF_A_BATCH in got
    assert b"secret" not in got
