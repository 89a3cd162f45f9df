"""Forwards messages to the other servers of a cluster that have subscribers for them.

Subscriptions on other servers are in the same trie as those of clients. Receivers that include such
a subscription have one more service, a `ClusterForwarder`. It is called with each message like any
other service, and appends the message once to the output of every link that needs it. Without such
subscriptions, receivers are built and used as if there were no cluster.

A message goes one hop: `deliver_here` delivers a message from a link only to receivers of this
server.

*Queue groups.* One member in the whole cluster gets a message. Members on this server are
preferred, which saves a hop (nats-server 2.15.1 chooses among all). Otherwise a random choice among
the servers is weighted by their number of members. The message names the groups, and the chosen
server selects the members.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from core.protocol.messages import Message, MessageColumns
from core.protocol.routed import Queues, routed_message
from core.pubsub.account import ACK_PREFIX, Account, message_tail
from core.pubsub.authored import AUTHOR_LINE, without_author
from core.pubsub.receivers import (
    MESSAGE,
    BatchCall,
    Member,
    RemoteForwarder,
    RemoteInterest,
    ServerLink,
    ServiceSubscription,
    Session,
    Trace,
)

_Groups = dict[bytes, list[RemoteInterest]]


_BATCHES_MAX = 64
_NAMES = 4


class Splitter:
    """Separates matching subscriptions into those of this server and of other servers."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._batches: dict[tuple[ServerLink, ...], BatchCall] = {}

    def split(self, found: list[Any]) -> tuple[list[Member], RemoteForwarder | None]:
        """Return the receivers on this server, and the forwarder to others (None: none)."""
        remote = [each for each in found if isinstance(each, RemoteInterest)]
        if not remote:
            return found, None
        here: list[Member] = [each for each in found if not isinstance(each, RemoteInterest)]
        forward = ClusterForwarder(self._account, remote, {member.queue for member in here})
        if forward.takes_batches:
            forward.batch = self._batch_to(forward.links)
            forward.sole = forward.links[0] if not here and len(forward.links) == 1 else None
        if not any(isinstance(each, ServiceSubscription) and each.not_forwarded for each in here):
            here.append(forward)
        return here, forward

    def _batch_to(self, links: tuple[ServerLink, ...]) -> BatchCall:
        """Return the function that sends several messages to these servers; it is cached."""
        if (found := self._batches.get(links)) is None:
            if len(self._batches) >= _BATCHES_MAX:
                self._batches.clear()
            found = partial(send_batch, self._account.name.encode(), links)
            self._batches[links] = found
        return found


class ClusterForwarder(RemoteForwarder):
    """A service that sends the messages of a subject to the servers with subscribers.

    Attributes:
        links: Links to the servers with subscriptions in no queue group.
        takes_batches: True if no queue group takes part, so that all messages go to the same
            servers.
        sole, head, subjects, grouped: See `core.pubsub.receivers.RemoteForwarder`.
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
        self.sole: ServerLink | None = None
        self.head = b"RMSG %b " % self._name

    def blocked(self) -> ServerLink | None:
        """Return a link to another server over which messages may be sent and whose output is full.

        None if all these links accept output.
        """
        for link in self._reached:
            if link.blocked:
                return link
        return None

    def forward(self, message: Message, to: bytes, refused: Sequence[bytes]) -> None:
        """Send a message once to each server that has receivers.

        The arguments are those of `core.pubsub.receivers.RemoteForwarder.forward`.
        """
        subject, reply, headers, payload = message
        if to:
            if reply.startswith(ACK_PREFIX):
                reply = b"%b@%b" % (reply, subject)
            subject = to
        wanted = [queue for queue in refused if queue in self._spare]
        size = len(headers) + len(payload)
        if not self._groups and not wanted:
            if not self.links:
                return  # every group with remote members also has members here
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
        """Forward a message that asks for a trace. The trace ends at this server."""
        if not trace.only:
            self._forward(None, subject, reply, headers, payload)

    def _choose(self, wanted: Sequence[bytes]) -> dict[ServerLink, list[bytes]]:
        """Choose the server that gets a message for each queue group; return the groups by link.

        The groups are those without members on this server, and those in `wanted`, whose members on
        this server may not have the message.
        """
        chosen: dict[ServerLink, list[bytes]] = {}
        for queue, members in self._groups.items():
            chosen.setdefault(self._account.choose_link(members), []).append(queue)
        for queue in wanted:
            chosen.setdefault(self._account.choose_link(self._spare[queue]), []).append(queue)
        return chosen


def send_batch(account: bytes, links: tuple[ServerLink, ...], batch: MessageColumns) -> None:
    """Send messages, in columns, to some servers.

    The caller calls `loop_tick.arm` to flush the output.
    """
    if batch.has_headers:
        lines = [routed_message(account, s, r, (), h, p) for s, r, h, p in batch.messages()]
    else:
        lines = [_lines(account, batch, start, stop) for start, stop in batch.rows()]
    data = b"".join(lines)
    for link in links:
        link.send(data, len(batch.subjects) * MESSAGE + batch.nbytes)


def _lines(account: bytes, batch: MessageColumns, start: int, stop: int) -> bytes:
    """Return the lines of messages without headers, as `routed_message` builds them."""
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
    """Split the reply of a delivery from another server into ack subject and message subject.

    The message's subject follows an `@`, as in nats-server; empty if the reply has none. Further
    `@` may occur in the names of stream and consumer and in the subject itself.
    """
    names = names_of_ack(reply)
    numbers, mark, subject = reply[len(names) :].partition(b"@")
    return (names + numbers, subject) if names and mark else (reply, b"")


def names_of_ack(reply: bytes) -> bytes:
    """Return the first four tokens of an ack subject with a final dot.

    They name stream and consumer. Empty if there are not more than four tokens.
    """
    tokens = reply.split(b".", _NAMES)
    return reply[: -len(tokens[-1])] if len(tokens) > _NAMES and tokens[-1] else b""


def deliver_here(
    account: Account, subject: bytes, reply: bytes, queues: Queues, headers: bytes, payload: bytes
) -> None:
    """Deliver a message from another server to the receivers of this server.

    One member of each queue group in `queues` gets the message too. The caller calls
    `loop_tick.arm` to flush the outputs.
    """
    receivers = account.receivers_by_subject.get(subject)
    if receivers is None:
        is_ack = subject.startswith(ACK_PREFIX)
        if is_ack and account.deliver_ack(None, subject, reply, headers, payload):
            return
        receivers = account.resolve(subject)
    authored = headers
    if headers and headers.find(AUTHOR_LINE) >= 0:
        headers = without_author(headers)  # only streams get the author
    shown = b""
    if reply.startswith(ACK_PREFIX):
        reply, shown = ack_and_subject(reply)
        subject = shown or subject
    if receivers.targets:
        tail = message_tail(reply, headers, payload)
        if receivers.plain and not shown:
            account.fan_out(receivers, subject, tail, len(payload), len(headers))
        else:
            for target in receivers.targets:
                account.deliver_one(target, None, subject, tail, headers, payload, reply)
    if queues:
        for group in receivers.groups:
            if group[0].queue in queues:
                account.deliver_group(group, None, subject, reply, headers, payload)
    for service in receivers.services:
        if not (service.local_only or isinstance(service, ClusterForwarder)):
            block = authored if service.takes_authors else headers
            service.call(None, subject, reply, block, payload)
