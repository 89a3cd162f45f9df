"""Three servers of a cluster in memory, joined by the lines they would send, against a naive model.

Whoever subscribes where, whichever server is cut off and comes back: every subscription in no queue
group gets every matching message once, and of every queue group one member of those in reach.
"""

# Subject: routes

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.auth.grant import Grant, Guard
from core.auth.users import Permissions, Rule
from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.pubsub.forwarding import Splitter, deliver_here
from core.pubsub.receivers import Member, RemoteInterest, Subscription
from core.pubsub.remote_delivery import deliver_batch_here
from core.route.interest import LocalInterest
from core.route.remote_subscriptions import RemoteSubscriptions
from core.route.route_parser import RouteParser
from core.subjects.subject import matches
from tests.support.sessions import ListSession, NotedAcks, idle_hub, listen

FILTERS = (b"a", b"a.b", b"a.*", b"*.b", b">", b"b.c")
SUBJECTS = (b"a", b"a.b", b"b.c", b"a.x", b"c")
QUEUES = (b"", b"", b"q", b"r")
SERVERS = st.integers(0, 2)
STEPS = st.lists(
    st.tuples(st.just("subscribe"), SERVERS, st.sampled_from(FILTERS), st.sampled_from(QUEUES))
    | st.tuples(st.just("unsubscribe"), st.integers(0, 99))
    | st.tuples(st.just("publish"), SERVERS, st.sampled_from(SUBJECTS))
    | st.tuples(st.just("disconnect"), SERVERS)
    | st.tuples(st.just("join"), SERVERS),
    max_size=40,
)


class End:
    """A server's end of a connection: what the other end sends is parsed at once."""

    closed = blocked = False
    sent = 0

    def __init__(self, server: "MeshServer") -> None:
        self.on_writable: list[Callable[[], None]] = []
        self._account = server.account
        self._parser = RouteParser(self)  # type: ignore[arg-type]
        self.remote = RemoteSubscriptions(self, {"$G": server.account})
        self.other: End

    def send(self, lines: bytes, sent: int = 0) -> None:
        self.other._parser.feed(lines)

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        assert account == b"$G"
        deliver_here(self._account, subject, reply, queues, headers, payload)

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        assert account == b"$G"
        deliver_batch_here(self._account, batch)

    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None:
        self.remote.add(account, subject, queue, weight)

    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None:
        self.remote.remove(account, subject, queue)


class MeshServer:
    """An account, and the interest that is told of it."""

    def __init__(self) -> None:
        self.account = idle_hub().default_account()
        self.account.split = Splitter(self.account).split
        self.account.watchers.append(self._announce)
        self.interest = LocalInterest()
        self.ends: dict[MeshServer, End] = {}

    def _announce(self, member: Member, is_new: bool) -> None:
        count = self.interest.add if is_new else self.interest.remove
        line = count(b"$G", member.subject, member.queue)
        for end in self.ends.values():
            end.send(line)

    def join(self, other: "MeshServer") -> None:
        if other in self.ends:
            return
        self.ends[other], other.ends[self] = mine, theirs = End(self), End(other)
        mine.other, theirs.other = theirs, mine
        mine.send(self.interest.all_lines())
        theirs.send(other.interest.all_lines())

    def disconnect(self) -> None:
        for other in list(self.ends):
            self.ends.pop(other).remote.clear()
            other.ends.pop(self).remote.clear()


class World:
    """The servers, and who has subscribed where."""

    def __init__(self) -> None:
        self.servers = [MeshServer() for _ in range(3)]
        self.members: list[tuple[MeshServer, Subscription]] = []
        for at in range(3):
            self.join(at)

    def join(self, at: int) -> None:
        for other in self.servers:
            if other is not self.servers[at]:
                self.servers[at].join(other)

    def disconnect(self, at: int) -> None:
        self.servers[at].disconnect()

    def subscribe(self, at: int, subject: bytes, queue: bytes) -> None:
        server = self.servers[at]
        session = ListSession()
        subscription = listen(server.account, session, subject, b"1", queue)
        self.members.append((server, subscription))

    def unsubscribe(self, number: int) -> None:
        if self.members:
            server, subscription = self.members.pop(number % len(self.members))
            server.account.remove(subscription)

    def publish(self, at: int, subject: bytes) -> None:
        server = self.servers[at]
        account = server.account
        account.deliver(account.receivers(subject), None, subject, b"back", b"", b"x")
        reached = {server, *server.ends}
        wanted = [
            member
            for place, member in self.members
            if place in reached and matches(subject, member.subject)
        ]
        got = {id(member): member.delivered for _, member in self.members}
        for _, member in self.members:
            member.sent = 0
            member.session.flush()
        assert all(got[id(member)] == 1 for member in wanted if not member.queue)
        groups = Counter(member.queue for member in wanted if member.queue)
        for queue in groups:
            assert sum(got[id(member)] for member in wanted if member.queue == queue) == 1
        assert sum(got.values()) == sum(not m.queue for m in wanted) + len(groups)
        assert account.has_interest(subject) == bool(wanted)


@given(STEPS)
def test_any_history_of_subscriptions(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    for at in range(3):
        for subject in SUBJECTS:
            world.publish(at, subject)


Message = tuple[bytes, bytes, bytes, bytes]
REPLIES = (
    *(b"", b"back", b"$JS.ACK.S.c.1@shown", b"$JS.ACK.S.c.2@a%d", b"$JS.ACK.x", b"$JS.ACK.S.c."),
    *(b"$JS.ACK.S.c.3@a@b.c", b"$JS.ACK.S@T.c.1@shown", b"$JS.ACK.S.c@d.1@a@b", b"$JS.ACK.S.c.4"),
)
GOING = (
    *(b"inbox.1", b"inbox.2", b"inbox.2.3", b"inbox.", b"one", b"two.1", b"limited.1"),
    *(b"guarded.1", b"guarded.no", b"group.1", b"far.1", b"here.1", b"s.1", b"s.2", b"nobody"),
    *(b"$JS.ACK.S.c.1.1.1.1.1", b"$JS.ACK.S.c.1.2.1.1.1", b"$JS.ACK.T.c.1.1.1.1.1"),
)
RUN = st.tuples(
    st.sampled_from(GOING),
    st.sampled_from(REPLIES),
    st.sampled_from((b"", b"", b"", b"NATS/1.0\r\n\r\n")),
    st.sampled_from((b"", b"+ACK", b"payload")),
)


class Receivers:
    """Clients, streams and consumers of one server, and what they got of it."""

    def __init__(self, *, watches_acks: bool) -> None:
        self.account = account = idle_hub().default_account()
        account.split = Splitter(account).split
        self.got: list[tuple[Any, ...]] = []
        self.sessions = [ListSession() for _ in range(3)]
        first, second, third = self.sessions
        self.subscriptions = [
            listen(account, first, b"inbox.*", b"1%d"),
            listen(account, first, b"one", b"2"),
            listen(account, first, b"two.*", b"3"),
            listen(account, second, b"two.1", b"1"),
            listen(account, second, b"group.*", b"2", b"q"),
            listen(account, second, b"far.*", b"3"),
            listen(account, second, b"here.*", b"4"),
        ]
        limited = listen(account, third, b"limited.*", b"1")
        limited.limit = 3
        account.changed(limited)
        guarded = listen(account, third, b"guarded.*", b"2")
        rules = Permissions(subscribe=Rule(deny=("guarded.no", "shown")))
        account.guard(guarded, Guard(Grant(rules), account.hub.clock.monotonic))
        self.subscriptions += [limited, guarded]
        if watches_acks:
            self.subscriptions.append(listen(account, third, b"$JS.ACK.>", b"3"))
        link: Any = End(MeshServer())
        account.add_remote(RemoteInterest(link, b"far.*", b"", 0))
        account.subscribe(b"here.*", self._note)
        account.subscribe(b"s.*", self._note).batch = self._note_all
        account.ack_handlers[b"$JS.ACK.S.c"] = NotedAcks(self.got)

    def _note(self, _source: Any, *message: bytes) -> None:
        self.got.append(message)

    def _note_all(self, batch: MessageColumns) -> None:
        self.got += batch.messages()

    def told(self) -> tuple[Any, ...]:
        written = [session.drain() for session in self.sessions]
        return written, [each.sent for each in self.subscriptions], self.got


def check_columns(messages: list[Message], *, watches_acks: bool) -> None:
    """Deliver messages together and one by one, and compare what everybody got."""
    together, singly = (Receivers(watches_acks=watches_acks) for _ in range(2))
    batch = MessageColumns()
    for subject, reply, headers, payload in messages:
        batch.add(subject, reply, headers, payload)
        deliver_here(singly.account, subject, reply, (), headers, payload)
    deliver_batch_here(together.account, batch)
    assert together.told() == singly.told()


@given(st.lists(st.tuples(RUN, st.integers(1, 20)), min_size=1, max_size=6), st.booleans())
def test_messages_in_columns_reach_the_same_receivers_as_one_by_one(
    runs: list[tuple[Message, int]], watches_acks: bool
) -> None:
    messages = [message for message, count in runs for _ in range(count)]
    check_columns(messages, watches_acks=watches_acks)


@pytest.mark.parametrize("reply", REPLIES)
def test_after_a_run_in_columns_comes_anything(reply: bytes) -> None:
    for subject, other in product(GOING, GOING):
        run = [(subject, reply, b"", b"x")] * 8
        check_columns([*run, (other, reply, b"", b"x")], watches_acks=False)
