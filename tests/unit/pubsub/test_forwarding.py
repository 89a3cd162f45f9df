"""Messages on their way to other servers: batches and acknowledgements, and what receivers show."""

# Subject: routing

from collections.abc import Callable

import pytest

from core.jetstream.stream.acks import AckEmitter
from core.model.segment import Segment
from core.protocol.gather import CLIENT, gather
from core.protocol.messages import MessageColumns
from core.protocol.routed import routed_message
from core.pubsub.account import Account
from core.pubsub.batch import deliver_together
from core.pubsub.forwarding import Splitter, ack_and_subject
from core.pubsub.receivers import RemoteInterest, bytes_of, messages_of
from core.rules.consumer.delivery.lines import ack_subject, routed_frame, routed_lines
from core.units import ConsumerSeq
from tests.support.links import ListLink
from tests.support.sessions import ListSession, NotedAcks, idle_hub, listen

BLOCK = b"NATS/1.0\r\n\r\n"


@pytest.fixture
def account() -> Account:
    account = idle_hub().default_account()
    account.split = Splitter(account).split
    return account


@pytest.fixture
def link(account: Account) -> ListLink:
    """To a server where somebody listens to `s.>` and to one inbox."""
    link = ListLink()
    account.add_remote(RemoteInterest(link, b"s.>", b"", 0))
    account.add_remote(RemoteInterest(link, b"inbox.*", b"", 0))
    return link


@pytest.mark.parametrize("headers", [b"", BLOCK])
def test_a_batch_goes_as_its_messages_would(
    account: Account, link: ListLink, headers: bytes
) -> None:
    sent = [(b"s.%d" % (n % 3), b"r" * (n % 2), headers * (n % 2), b"x" * n) for n in range(20)]
    data = b"".join(
        b"HPUB %b %b %d %d\r\n%b%b\r\n" % (s, r, len(h), len(h + p), h, p)
        if h
        else b"PUB %b %b %d\r\n%b\r\n" % (s, r, len(p), p)
        for s, r, h, p in sent
    )
    batch, _, end = gather(data, 0, CLIENT, (1000, 1000, 1000))
    assert end == len(data)
    assert deliver_together(account, batch)
    assert len(link.out) == 1
    assert link.messages() == sent
    size = sum(len(h) + len(p) for _, _, h, p in sent)
    assert (messages_of(link.sent), bytes_of(link.sent)) == (20, size)


def test_a_batch_for_others_too_is_taken_apart(account: Account, link: ListLink) -> None:
    listen(account, ListSession(), b"s.1")
    batch, _, _ = gather(b"PUB s.0 0\r\n\r\nPUB s.1 0\r\n\r\n", 0, CLIENT, (9, 99, 9))
    assert not deliver_together(account, batch)
    assert link.out == []


def _acks(count: int) -> MessageColumns:
    lines = b"".join(b"PUB $JS.ACK.S.c.1.%d.1.1.0 4\r\n+ACK\r\n" % n for n in range(count))
    request = b"PUB s.next inbox.1 0\r\n\r\n"
    return gather(lines + request, 0, CLIENT, (99, 99, 999))[0]


def test_acknowledgements_go_with_what_else_is_for_that_server(
    account: Account, link: ListLink
) -> None:
    account.add_remote(RemoteInterest(link, b"$JS.ACK.>", b"", 0))
    assert deliver_together(account, batch := _acks(20))
    assert len(link.out) == 1
    assert link.messages() == list(batch.messages())


def test_acknowledgements_are_looked_at_where_a_consumer_is(
    account: Account, link: ListLink
) -> None:
    account.add_remote(RemoteInterest(link, b"$JS.ACK.>", b"", 0))
    account.ack_handlers[b"$JS.ACK.S.c"] = NotedAcks([])
    assert not deliver_together(account, _acks(20))
    assert link.out == []


def test_deliveries_for_a_subject_elsewhere() -> None:
    segment = Segment((7, 8), (70, 80), [b"s.a", b"s.%d"], None, [b"x", b"yy"])
    routed = routed_frame(b"RMSG $G% ", b"inbox.1", b"$JS.ACK.S%.c")
    lines, size = routed_lines(segment, routed, ConsumerSeq(3), 9)
    assert size == 3
    assert lines == b"".join(
        routed_message(
            *(b"$G%", b"inbox.1", ack_subject(b"$JS.ACK.S%.c", 1, seq, cseq, ts, left)),
            *((), b"", payload),
        ).replace(b" %d\r\n" % len(payload), b"@%b %d\r\n" % (subject, len(payload)), 1)
        for seq, cseq, ts, left, subject, payload in (
            (7, 3, 70, 9, b"s.a", b"x"),
            (8, 4, 80, 8, b"s.%d", b"yy"),
        )
    )


@pytest.mark.parametrize("first", [1, 5, 95])
def test_acknowledgements_of_an_inbox_elsewhere(
    account: Account, link: ListLink, first: int
) -> None:
    account.receivers(b"inbox.0")
    replies = [b"inbox.%d" % n for n in range(20)]
    AckEmitter(account, account.loop_tick, b"S").emit(replies, first)
    assert link.messages() == [
        (reply, b"", b"", b'{"stream":"S","seq":%d}' % seq)
        for seq, reply in enumerate(replies, first)
    ]
    assert messages_of(link.sent) == 20


def test_remote_subscriptions_are_interest(account: Account, link: ListLink) -> None:
    assert account.has_interest(b"s.a")
    told: list[bytes] = []
    call: Callable[[bytes], None] = told.append
    account.on_interest.append(call)
    interest = RemoteInterest(link, b"deliver", b"group", 2)
    account.add_remote(interest)
    forwarder = account.receivers(b"deliver").forwarder
    assert forwarder is not None
    assert not forwarder.subjects
    assert forwarder.grouped == frozenset([(b"group", b"deliver")])
    account.remove_remotes([interest])
    assert account.receivers(b"deliver").forwarder is None
    assert not account.has_interest(b"deliver")
    assert told == [b"deliver", b"deliver"]


@pytest.mark.parametrize(
    ("ack", "subject"),
    [
        (b"$JS.ACK.S.c.1.2.3.4.0", b"a.b"),
        (b"$JS.ACK.S.c.1.2.3.4.0", b"mail.ann@home.com"),
        (b"$JS.ACK.S@home.c.1.2.3.4.0", b"@"),
        (b"$JS.ACK.S.c@S@T.1.2.3.4.0", b"a.b@c@"),
        (b"$JS.ACK.S.c.1.2.3.4.0", b""),
        (b"$JS.ACK.S@home.c@d", b""),
    ],
)
def test_where_the_subject_of_a_delivery_begins(ack: bytes, subject: bytes) -> None:
    reply = ack + b"@" + subject if subject else ack
    assert ack_and_subject(reply) == (ack, subject)


def test_a_message_shows_its_own_subject_by_its_reply(account: Account, link: ListLink) -> None:
    """What a consumer delivers: a client there is shown what follows the `@`."""
    account.send(b"inbox.1", b"s.a", b"$JS.ACK.S.C.1.1.1.1.0", b"", b"x")
    account.send(b"inbox.1", b"inbox.1", b"", BLOCK, b"")
    assert link.messages() == [
        (b"inbox.1", b"$JS.ACK.S.C.1.1.1.1.0@s.a", b"", b"x"),
        (b"inbox.1", b"", BLOCK, b""),
    ]
