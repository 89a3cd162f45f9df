"""Interest on other servers of a cluster, and messages on their way to it.

What other servers subscribe to is in the same trie as the subscriptions of clients. A route that
such interest takes part in has one more service, its `Forward`: it is called with each message
like any other service, and puts it once into the output of every link that has to have it. Routes
without such interest are made, and followed, as if there were no cluster.

A message goes one hop: what came over a link reaches what is here, by `deliver_here`.

*Queue groups.* One member in the whole cluster gets a message. Members here are preferred, which
saves the way to another server (nats-server 2.15.1 chooses among all). Among servers where there
are others, chance chooses, weighted by how many members each has. The server it goes to is told
the names of the groups and chooses the members.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from core.protocol.messages import Message, MessageColumns
from core.protocol.routed import Queues, routed_message
from core.pubsub.account import ACK_PREFIX, Account, message_tail
from core.pubsub.authored import AUTHOR_LINE, without_author
from core.pubsub.route import (
    MESSAGE,
    BatchCall,
    Link,
    Member,
    Onward,
    RemoteInterest,
    ServiceSubscription,
    Session,
    Trace,
)

_Groups = dict[bytes, list[RemoteInterest]]


_BATCHES_MAX = 64
_NAMES = 4


class Splitter:
    """Parts what matches a subject of an account into what is here and what is elsewhere."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._batches: dict[tuple[Link, ...], BatchCall] = {}

    def split(self, found: list[Any]) -> tuple[list[Member], Onward | None]:
        """Return the members of a route, and who takes messages to other servers, if anybody."""
        remote = [each for each in found if isinstance(each, RemoteInterest)]
        if not remote:
            return found, None
        here: list[Member] = [each for each in found if not isinstance(each, RemoteInterest)]
        forward = Forward(self._account, remote, {member.queue for member in here})
        if forward.takes_batches:
            forward.batch = self._batch_to(forward.links)
            forward.sole = forward.links[0] if not here and len(forward.links) == 1 else None
        if not any(isinstance(each, ServiceSubscription) and each.instead for each in here):
            here.append(forward)
        return here, forward

    def _batch_to(self, links: tuple[Link, ...]) -> BatchCall:
        """Return what takes batches for these servers, the same for all subjects."""
        if (found := self._batches.get(links)) is None:
            if len(self._batches) >= _BATCHES_MAX:
                self._batches.clear()
            found = partial(send_batch, self._account.name.encode(), links)
            self._batches[links] = found
        return found


class Forward(Onward):
    """Sends messages of one route to the servers that have subscribers.

    Attributes:
        links: to the servers where there are subscriptions in no queue group.
        takes_batches: whether there is no queue group, so that all messages go the same way.
        sole, head, subjects, grouped: as `core.pubsub.route.Onward` says.
    """

    __slots__ = (
        "_account",
        "_groups",
        "_name",
        "_reached",
        "_spare",
        "links",
        "takes_batches",
    )

    def __init__(
        self, account: Account, remote: list[RemoteInterest], groups_here: set[bytes]
    ) -> None:
        super().__init__(b"", self._forward, b"")
        self.traced = self._forward_traced
        self._account = account
        self._name = account.name.encode()
        self.subjects = frozenset(each.subject for each in remote if not each.queue)
        self.grouped = frozenset((each.queue, each.subject) for each in remote if each.queue)
        self.links = tuple(dict.fromkeys(each.link for each in remote if not each.queue))
        self._reached = tuple(dict.fromkeys(each.link for each in remote))
        self.takes_authors = all(each.is_of_node for each in remote)
        self._groups: _Groups = {}
        self._spare: _Groups = {}
        for each in remote:
            if each.queue:
                groups = self._spare if each.queue in groups_here else self._groups
                groups.setdefault(each.queue, []).append(each)
        self.takes_batches = not self.grouped
        self.sole: Link | None = None
        self.head = b"RMSG %b " % self._name

    def blocked(self) -> Link | None:
        """Return a link that takes no more for now, if a message may go over one."""
        for link in self._reached:
            if link.blocked:
                return link
        return None

    def forward(self, message: Message, to: bytes, refused: Sequence[bytes]) -> None:
        """Send a message to the servers that have receivers, once to each."""
        subject, reply, headers, payload = message
        if to:
            if reply.startswith(ACK_PREFIX):
                reply = b"%b@%b" % (reply, subject)
            subject = to
        wanted = [queue for queue in refused if queue in self._spare]
        size = len(headers) + len(payload)
        if not self._groups and not wanted:
            if not self.links:
                return  # the groups have members here
            line = routed_message(self._name, subject, reply, (), headers, payload)
            for link in self.links:
                link.send(line, MESSAGE + size)
            return
        chosen = self._choose(wanted)
        for link in dict.fromkeys((*self.links, *chosen)):
            queues = tuple(chosen.get(link, ()))
            line = routed_message(self._name, subject, reply, queues, headers, payload)
            link.send(line, MESSAGE + size)

    def _forward(
        self, source: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.forward((subject, reply, headers, payload), b"", ())

    def _forward_traced(
        self, trace: Trace, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Forward a message that asks for a trace: its way is told no further than this server."""
        if not trace.only:
            self._forward(None, subject, reply, headers, payload)

    def _choose(self, wanted: Sequence[bytes]) -> dict[Link, list[bytes]]:
        """Choose a server for each queue group: those without members here, and `wanted`."""
        chosen: dict[Link, list[bytes]] = {}
        for queue, members in self._groups.items():
            chosen.setdefault(self._account.one_of(members), []).append(queue)
        for queue in wanted:
            chosen.setdefault(self._account.one_of(self._spare[queue]), []).append(queue)
        return chosen


def send_batch(account: bytes, links: tuple[Link, ...], batch: MessageColumns) -> None:
    """Send messages in columns to some servers; the caller arms the turn."""
    if batch.has_headers:
        lines = [routed_message(account, s, r, (), h, p) for s, r, h, p in batch.messages()]
    else:
        lines = [_lines(account, batch, start, stop) for start, stop in batch.rows()]
    data = b"".join(lines)
    for link in links:
        link.send(data, len(batch.subjects) * MESSAGE + batch.nbytes)


def _lines(account: bytes, batch: MessageColumns, start: int, stop: int) -> bytes:
    """Return the lines of messages without headers, as `routed_message` makes them."""
    subjects, payloads = batch.subjects[start:stop], batch.payloads[start:stop]
    replies = batch.replies[start:stop]
    head, payload = b"RMSG %b " % account, payloads[0]
    if payloads.count(payload) == len(payloads) and not any(replies):
        tail = b" %d\r\n%b\r\n" % (len(payload), payload)  # acknowledgements, as a rule
        return head + (tail + head).join(subjects) + tail
    replies = [b" " + reply if reply else b"" for reply in replies]
    line = head.replace(b"%", b"%%") + b"%b%b %d\r\n%b\r\n"
    columns = zip(subjects, replies, map(len, payloads), payloads, strict=True)
    return b"".join(map(line.__mod__, columns))


def ack_and_subject(reply: bytes) -> tuple[bytes, bytes]:
    """Part what a delivery has for a reply on its way here: what to acknowledge to, its subject.

    The subject stands behind an `@`, as nats-server has it. There may be others in the names of
    stream and consumer, and in the subject itself. It is empty where it is not told.
    """
    names = names_of_ack(reply)
    numbers, mark, subject = reply[len(names) :].partition(b"@")
    return (names + numbers, subject) if names and mark else (reply, b"")


def names_of_ack(reply: bytes) -> bytes:
    """Return the four tokens of an ack subject that name a consumer, with the dot behind them."""
    tokens = reply.split(b".", _NAMES)
    return reply[: -len(tokens[-1])] if len(tokens) > _NAMES and tokens[-1] else b""


def deliver_here(
    account: Account, subject: bytes, reply: bytes, queues: Queues, headers: bytes, payload: bytes
) -> None:
    """Deliver a message that came from another server; the caller arms the turn.

    Besides those in no queue group one member of each group in `queues` gets it.
    """
    route = account.routes.get(subject)
    if route is None:
        is_ack = subject.startswith(ACK_PREFIX)
        if is_ack and account.take_ack(None, subject, reply, headers, payload):
            return
        route = account.resolve(subject)
    authored = headers
    if headers and headers.find(AUTHOR_LINE) >= 0:
        headers = without_author(headers)  # for streams alone
    shown = b""
    if reply.startswith(ACK_PREFIX):
        reply, shown = ack_and_subject(reply)
        subject = shown or subject
    if route.targets:
        tail = message_tail(reply, headers, payload)
        if route.plain and not shown:
            account.fan_out(route, subject, tail, len(payload), len(headers))
        else:
            for target in route.targets:
                account.deliver_one(target, None, subject, tail, headers, payload, reply)
    if queues:
        for group in route.groups:
            if group[0].queue in queues:
                account.deliver_group(group, None, subject, reply, headers, payload)
    for service in route.services:
        if not (service.here or isinstance(service, Forward)):
            block = authored if service.takes_authors else headers
            service.call(None, subject, reply, block, payload)
