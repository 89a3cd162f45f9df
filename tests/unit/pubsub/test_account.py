"""The flow of messages within an account: cached, deliveries, groups, services, acks."""

# Subject: routing

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.pubsub.account import RECEIVERS_MAX, Account, Session
from core.subjects.subject import matches
from tests.support.sessions import ListSession, NotedAcks, idle_hub, listen

Call = tuple[bytes, bytes, bytes, bytes]


class Service:
    """An in-process subscriber that writes down its calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.calls.append((subject, reply, headers, payload))


@pytest.fixture
def account() -> Account:
    return idle_hub().default_account()


def publish(
    account: Account,
    subject: bytes,
    payload: bytes = b"x",
    *,
    source: ListSession | None = None,
    reply: bytes = b"",
    headers: bytes = b"",
) -> bool:
    receivers = account.receivers(subject)
    return account.deliver(receivers, source, subject, reply, headers, payload)


def test_a_message_reaches_every_matching_subscription(account: Account) -> None:
    session = ListSession()
    listen(account, session, b"a.*", b"1")
    listen(account, session, b"a.b", b"2")
    listen(account, session, b"c", b"3")

    assert publish(account, b"a.b")

    lines = session.drain().split(b"\r\n")
    assert sorted(lines[0::2]) == [b"", b"MSG a.b 1 1", b"MSG a.b 2 1"]


def test_reply_and_headers_are_passed_on(account: Account) -> None:
    modern, old = ListSession(), ListSession(headers=False)
    listen(account, modern, b"a")
    listen(account, old, b"a")

    publish(account, b"a", b"xy", reply=b"r", headers=b"NATS/1.0\r\n\r\n")

    assert modern.drain() == b"HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nxy\r\n"
    assert old.drain() == b"MSG a 1 r 2\r\nxy\r\n"


def test_the_sessions_of_a_delivery_become_dirty_once(account: Account) -> None:
    session = ListSession()
    listen(account, session, b"a")

    publish(account, b"a")
    publish(account, b"a")

    assert account.loop_tick.dirty == [session]


def test_no_echo_for_clients_that_disabled_it(account: Account) -> None:
    me, other = ListSession(echo=False), ListSession()
    listen(account, me, b"a")

    assert not publish(account, b"a", source=me)
    listen(account, other, b"a")
    assert publish(account, b"a", source=me)

    assert me.drain() == b""
    assert other.drain() == b"MSG a 1 1\r\nx\r\n"


def test_each_queue_group_gets_one_copy(account: Account) -> None:
    session = ListSession()
    for sid in (b"1", b"2", b"3"):
        listen(account, session, b"a.*", sid, b"workers")
    listen(account, session, b"a.b", b"4", b"others")
    for _ in range(300):
        publish(account, b"a.b")

    lines = session.drain().split(b"\r\n")[0:-1:2]
    counts = Counter(line.split(b" ")[2] for line in lines)
    assert counts.pop(b"4") == 300
    assert sum(counts.values()) == 300
    assert min(counts.values()) > 50


def test_a_group_passes_over_a_member_that_may_not_have_it(account: Account) -> None:
    me, other = ListSession(echo=False), ListSession()
    listen(account, me, b"a", b"1", b"q")
    listen(account, other, b"a", b"1", b"q")

    for _ in range(20):
        assert publish(account, b"a", source=me)

    assert me.drain() == b""
    assert other.drain().count(b"MSG a 1 1") == 20


def test_a_limit_ends_a_subscription_with_its_last_delivery(account: Account) -> None:
    session = ListSession()
    subscription = listen(account, session, b"a")
    publish(account, b"a", b"1")
    subscription.limit = 3
    account.changed(subscription)

    for body in (b"2", b"3", b"4"):
        publish(account, b"a", body)

    assert session.drain().count(b"MSG") == 3
    assert session.forgotten == [subscription]
    assert not account.has_interest(b"a")


def test_services_are_called_and_count_as_interest(account: Account) -> None:
    service = Service()
    subscription = account.subscribe(b"orders.>", service)

    assert publish(account, b"orders.new", b"1", reply=b"r")
    assert service.calls == [(b"orders.new", b"r", b"", b"1")]
    assert account.has_interest(b"orders.x")

    account.unsubscribe(subscription)
    assert not publish(account, b"orders.new")


def test_services_in_a_queue_group_share_with_clients(account: Account) -> None:
    service, session = Service(), ListSession()
    account.subscribe(b"a", service, b"q")
    listen(account, session, b"a", b"1", b"q")

    for _ in range(100):
        publish(account, b"a")

    there = session.drain().count(b"MSG")
    assert len(service.calls) + there == 100
    assert there > 10


def test_send_shows_another_subject_than_it_is_routed_by(account: Account) -> None:
    session = ListSession()
    assert not account.send(b"inbox.1", b"orders", b"ack", b"", b"x")
    listen(account, session, b"inbox.*")

    assert account.send(b"inbox.1", b"orders", b"ack", b"", b"x")
    assert account.send(b"inbox.1", b"orders", b"", b"NATS/1.0\r\n\r\n", b"")

    assert session.drain() == (
        b"MSG orders 1 ack 1\r\nx\r\nHMSG orders 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    )


def test_sole_is_the_one_plain_receiver(account: Account) -> None:
    session, old = ListSession(), ListSession(headers=False)
    subscription = listen(account, session, b"a")
    receivers = account.receivers(b"a")
    assert receivers.sole is subscription
    assert receivers.head == b"MSG a 1 "

    listen(account, old, b"a", b"2")
    assert receivers.stale
    assert account.receivers(b"a").sole is None

    account.remove(subscription)
    assert account.receivers(b"a").sole is None, "a session without headers is not plain"


def test_reply_subjects_of_an_inbox_share_one_route(account: Account) -> None:
    session = ListSession()
    subscription = listen(account, session, b"_INBOX.me.*")

    cached = {id(account.receivers(b"_INBOX.me.%d" % n)) for n in range(1000)}

    assert len(cached) == 1
    assert not account.receivers_by_subject
    receivers = account.receivers(b"_INBOX.me.7")
    assert receivers.sole is subscription
    listen(account, session, b"_INBOX.me.7", b"2")
    assert receivers.stale
    assert len(account.receivers(b"_INBOX.me.7").targets) == 2
    assert len(account.receivers(b"_INBOX.me.8").targets) == 1


def test_broken_subjects_are_not_served_by_the_route_of_their_head(account: Account) -> None:
    listen(account, ListSession(), b"a.>")
    assert account.has_interest(b"a.b")

    for subject in (b"a.", b"a..b", b".a", b"a..", b"a.b."):
        assert not account.has_interest(subject)


def test_the_caches_do_not_grow_without_bound(account: Account) -> None:
    listen(account, ListSession(), b"a.b")
    first = account.receivers(b"a.c")
    for number in range(40_000):
        account.receivers(b"a.%d" % number)
        account.receivers(b"h%d.x" % number)

    assert len(account.receivers_by_subject) <= RECEIVERS_MAX
    assert len(account.receivers_by_prefix) <= RECEIVERS_MAX
    assert first.stale


def test_acks_take_the_short_way(account: Account) -> None:
    seen: list[tuple[Any, ...]] = []
    account.ack_handlers[b"$JS.ACK.S.C"] = NotedAcks(seen)
    subject = b"$JS.ACK.S.C.1.22.333.4444.5"

    assert account.deliver_ack(None, subject, b"", b"", b"+ACK")
    parts = b"$JS.ACK.S.C", b"1", b"22", b"333", b"4444", b"5"
    assert seen == [(*parts, None, b"", b"", b"+ACK")]
    assert not account.deliver_ack(None, b"$JS.ACK.S.D.1.1.1.1.1", b"", b"", b"")

    session = ListSession()
    watcher = listen(account, session, b"$JS.ACK.>")
    assert not account.deliver_ack(None, subject, b"", b"", b"+ACK"), "a client watches"
    assert len(seen) == 2
    account.remove(watcher)
    assert account.deliver_ack(None, subject, b"", b"", b"+ACK")


def test_interest_of_clients_is_announced(account: Account) -> None:
    told: list[bytes] = []
    account.on_interest.append(told.append)
    account.subscribe(b"service", Service())
    subscription = listen(account, ListSession(), b"a.>")

    account.remove(subscription)

    assert told == [b"a.>", b"a.>"]


def test_leaving_with_very_many_wildcards(account: Account) -> None:
    session, stayer = ListSession(), ListSession()
    listen(account, stayer, b"keep")
    subscriptions = [listen(account, session, b"w%d.*" % n, b"%d" % n) for n in range(500)]
    receivers = account.receivers(b"w7.x")

    account.remove_all(subscriptions)

    assert receivers.stale
    assert account.client_subscriptions == 1
    assert not account.has_interest(b"w7.x")
    assert account.has_interest(b"keep")


def test_very_many_filters_do_not_look_at_every_route_again_and_again(account: Account) -> None:
    session = ListSession()
    cached = [account.receivers(b"k%d" % n) for n in range(RECEIVERS_MAX)]

    for n in range(10):
        listen(account, session, b"w%d.*" % n, b"%d" % n)
    assert not any(receivers.stale for receivers in cached)
    for n in range(10, 40):
        listen(account, session, b"w%d.*" % n, b"%d" % n)

    assert all(receivers.stale for receivers in cached)
    assert not account.receivers_by_subject


TOKEN = st.sampled_from([b"a", b"b", b"c"])
LITERAL = st.lists(TOKEN, min_size=1, max_size=3).map(b".".join)
FILTER = st.lists(TOKEN | st.just(b"*"), min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([b".".join(parts), b".".join([*parts, b">"]), b">"])
)
STEP = st.tuples(st.sampled_from(["add", "remove", "look", "look"]), FILTER, LITERAL)


@given(st.lists(STEP, max_size=40))
def test_cached_routes_are_always_true(steps: list[tuple[str, bytes, bytes]]) -> None:
    account = idle_hub().default_account()
    session = ListSession()
    there = []
    held = []
    for number, (what, pattern, literal) in enumerate(steps):
        if what == "add":
            there.append(listen(account, session, pattern, b"%d" % number))
        elif what == "remove" and there:
            account.remove(there.pop(number % len(there)))
        else:
            held.append((literal, account.receivers(literal)))
        for subject, receivers in held:
            if not receivers.stale:
                expected = {s.sid for s in there if matches(subject, s.subject)}
                assert {t.sid for t in receivers.targets} == expected
                assert receivers.interest is bool(expected)
