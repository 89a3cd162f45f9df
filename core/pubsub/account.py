"""One account: its subscriptions, and the delivery of messages between them. No I/O, no JetStream.

*Cache.* The subscriptions that match a subject are found once; the result (`Receivers`) is cached
in `receivers_by_subject`. If no matching subscription depends on the last token, it is cached in
`receivers_by_prefix` instead, under the subject without that token: all one-time reply subjects of
an inbox share one entry. A new or removed subscription drops exactly the entries that it could
change.

*Acknowledgements.* Every acknowledgement (`$JS.ACK.>`) has its own subject, so a cache by subject
does not help: `ack_handlers` maps the leading part of the subject, which names the consumer, to the
handler of its acknowledgements. An acknowledgement is delivered like any other message too, but
only while a client subscribes to such subjects. If another server of the cluster serves the
consumer, and no client subscribes, one cached entry per consumer serves all its acknowledgements.

Permissions that deny part of a subscription are applied when receivers are looked up. In a cluster,
`watchers` are called for every subscription, and `split` finds the subscriptions on other servers
(`core.pubsub.forwarding`).
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from core.auth.author import StreamScope
from core.auth.grant import Guard
from core.pubsub.hub_view import HubView
from core.pubsub.receivers import (
    MESSAGE,
    AckHandler,
    Member,
    Receivers,
    RemoteForwarder,
    RemoteInterest,
    ServerLink,
    ServiceCall,
    ServiceSubscription,
    Session,
    Subscription,
    Target,
    heads_of,
)
from core.subjects.subject import fixed_prefix, has_wildcard, overlap
from core.subjects.sublist import Sublist

if TYPE_CHECKING:
    from core.pubsub.mappings import Mapping, Mappings

__all__ = [
    "Account",
    "AckHandler",
    "Receivers",
    "ServiceCall",
    "ServiceSubscription",
    "Session",
    "Subscription",
    "Target",
    "message_tail",
]

RECEIVERS_MAX = 16384
_SEARCH_MAX = 16 * RECEIVERS_MAX
_FEW = 8
ACK_PREFIX = b"$JS.ACK."
_NOBODY = Receivers([], None)
_LEADS = b"_JG.ACK."
"""Prefix of subjects between nodes; the rest of the subject is the name of a stream.

A node that subscribes to such a subject gets the acknowledgements of the stream.
"""
_SHORT_ACK = 9
_ACK_FILTER_STARTS = frozenset((b"$", b"*", b">"))

NODES = b"_JG."
"""Prefix that marks messages between nodes: it precedes the name of their account on a route.

Clients cannot send such messages.
"""
NodeCall = Callable[[bytes, bytes, bytes, bytes], None]
"""Called with subject, reply, headers and payload of a message from another node."""
Scopes = Callable[[bytes], Iterable[StreamScope]]
Watch = Callable[[Member, bool], None]
"""Called with a subscription, and True when it begins or False when it ends."""
Split = Callable[[list[Any]], tuple[list[Member], RemoteForwarder | None]]
"""Separates subscriptions into those of this server and a forwarder to other servers (or None)."""


class Account:
    """The subscriptions of one account. Messages do not cross from one account to another.

    Attributes:
        name: Name of the account.
        hub: The state that all connections of this node share.
        receivers_by_subject, receivers_by_prefix: Cached receivers, see the module.
        ack_handlers: Handlers of acknowledgements, by the leading part of their subjects.
        on_interest: Functions called with the subject when a client or another server subscribes or
            unsubscribes.
        client_subscriptions: Number of subscriptions of clients.
        watchers: Functions called when a subscription of this server begins or ends.
    """

    def __init__(
        self, name: str, hub: HubView, *, chance: Callable[[], float] = random.random
    ) -> None:
        self.name = name
        self.hub = hub
        self.loop_tick = hub.loop_tick
        self.receivers_by_subject: dict[bytes, Receivers] = {}
        self.receivers_by_prefix: dict[bytes, Receivers] = {}
        self.ack_handlers: dict[bytes, AckHandler] = {}
        self.on_interest: list[Callable[[bytes], None]] = []
        self.client_subscriptions = 0
        self.is_silent: Callable[[bytes], bool] | None = None
        """Returns True for subjects that get no 503 (no responders) without a receiver."""
        self.scopes: Scopes = _no_scopes
        """Returns the streams that store a subject, whichever node leads them."""
        self.watchers: list[Watch] = []
        self.node_calls: dict[bytes, NodeCall] = {}
        """The receivers of messages from other nodes, by prefix of their subjects."""
        self.split: Split | None = None
        self._mappings: Mappings | None = None
        self._sublist: Sublist[Any] = Sublist()
        self._ack_watchers = self._ack_services = 0
        self._ack_receivers: dict[bytes, Receivers] = {}
        self._guarded = 0
        self._searched = 0
        self._chance = chance

    # -- mappings

    @property
    def mappings(self) -> "Mappings | None":
        """The mappings of the subjects that clients publish to; None if there are none."""
        return self._mappings

    def use_mappings(self, mappings: "Sequence[Mapping]") -> None:
        """Set the mappings of the subjects that clients publish to.

        They apply to connected clients too.
        """
        self._mappings = None
        if mappings:
            from core.pubsub.mappings import Mappings  # a start without mappings does not load it

            self._mappings = Mappings(mappings, self._chance, self.hub.cluster)
        self.hub.choose_publishers(self.name)

    # -- subscriptions inside the process

    def subscribe(
        self,
        subject: bytes,
        call: ServiceCall,
        queue: bytes = b"",
        *,
        local_only: bool = False,
        not_forwarded: bool = False,
    ) -> ServiceSubscription:
        """Subscribe a function of this process to `subject`, which may have wildcards.

        Args:
            subject: The subject filter.
            call: Called for each message.
            queue: Queue group; empty: none.
            local_only: Receive only messages that clients of this server publish.
            not_forwarded: Messages for this subscription are not forwarded to other servers.
        """
        subscription = ServiceSubscription(subject, call, queue, local_only, not_forwarded)
        self._ack_services += _may_watch_acks(subject)
        self._sublist.insert(subject, subscription)
        self._touch(subject)
        for watch in self.watchers:
            watch(subscription, True)
        return subscription

    def unsubscribe(self, subscription: ServiceSubscription) -> None:
        """End a subscription of `subscribe`. A subscription that has ended already is ignored."""
        if self._sublist.remove(subscription.subject, subscription):
            self._ack_services -= _may_watch_acks(subscription.subject)
            self._touch(subscription.subject)
            for watch in self.watchers:
                watch(subscription, False)

    def withdraw(self, subscription: ServiceSubscription) -> None:
        """Announce to other servers that a subscription has ended, but keep it on this server.

        Messages that other servers have already sent are still delivered.
        """
        if not subscription.withdrawn:
            for watch in self.watchers:
                watch(subscription, False)
            subscription.withdrawn = True

    def subscription_counts(self) -> tuple[int, int]:
        """Return the number of subscriptions now, and the number added since the start.

        Subscriptions inside the process are included.
        """
        return self._sublist.count, self._sublist.inserts

    # -- subscriptions of clients

    def add(self, subscription: Subscription) -> None:
        """Add a subscription of a client, and notify other servers of the cluster."""
        subject = subscription.subject
        self._sublist.insert(subject, subscription)
        self.client_subscriptions += 1
        if _may_watch_acks(subject):
            self._ack_watchers += 1
        if subscription.guard is not None:
            self._guarded += 1
        self._touch(subject)
        for watch in self.watchers:
            watch(subscription, True)
        for call in self.on_interest:
            call(subject)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription of a client, and notify other servers of the cluster."""
        self.remove_all((subscription,))

    def remove_all(self, subscriptions: Iterable[Subscription]) -> None:
        """Remove several subscriptions of clients, and notify other servers of the cluster."""
        wild = 0
        gone = [s for s in subscriptions if self._sublist.remove(s.subject, s)]
        for subscription in gone:
            subject = subscription.subject
            self.client_subscriptions -= 1
            if _may_watch_acks(subject):
                self._ack_watchers -= 1
            if subscription.guard is not None:
                self._guarded -= 1
            wild += has_wildcard(subject)
        if wild > _FEW or len(gone) > RECEIVERS_MAX:
            self.drop_receivers()
        else:
            for subscription in gone:
                self._touch(subscription.subject)
        for watch in self.watchers:
            for subscription in gone:
                watch(subscription, False)
        for call in self.on_interest:
            for subscription in gone:
                call(subscription.subject)

    def changed(self, subscription: Subscription) -> None:
        """Drop cached receivers after the limit or session of a subscription has changed."""
        self._touch(subscription.subject)

    def guard(self, subscription: Subscription, guard: Guard | None) -> None:
        """Set the permissions that are checked per delivery to a subscription.

        None: deliver everything.
        """
        self._guarded += (guard is not None) - (subscription.guard is not None)
        subscription.guard = guard
        self._touch(subscription.subject)

    # -- subscriptions on other servers

    def add_remote(self, interest: RemoteInterest) -> None:
        """Add a subscription of another server of the cluster, so that messages are forwarded to
        it.
        """
        self._sublist.insert(interest.subject, interest)
        if _may_watch_acks(interest.subject):
            self._ack_watchers += 1
        self._touch(interest.subject)
        for call in self.on_interest:
            call(interest.subject)

    def remove_remotes(self, interests: Sequence[RemoteInterest]) -> None:
        """Remove subscriptions of another server of the cluster."""
        for interest in interests:
            self._sublist.remove(interest.subject, interest)
            if _may_watch_acks(interest.subject):
                self._ack_watchers -= 1
        if len(interests) > _FEW:
            self.drop_receivers()
        else:
            for interest in interests:
                self._touch(interest.subject)
        for call in self.on_interest:
            for interest in interests:
                call(interest.subject)

    # -- receivers

    def receivers(self, subject: bytes) -> Receivers:
        """Return the receivers of a subject without wildcards, from the cache if possible."""
        receivers = self.receivers_by_subject.get(subject)
        return self.resolve(subject) if receivers is None else receivers

    def resolve(self, subject: bytes) -> Receivers:
        """Find and cache the receivers of a subject that is not in `receivers_by_subject`."""
        if subject.startswith(ACK_PREFIX):
            return self._resolve_ack(subject)
        head, _, last = subject.rpartition(b".")
        if last and (receivers := self.receivers_by_prefix.get(head)) is not None:
            return receivers
        members, last_matters = self._sublist.match(subject)
        if self._guarded and any(isinstance(m, Subscription) and m.guard for m in members):
            last_matters = True  # permissions may differ between the subjects of one inbox
            members = [m for m in members if not _is_denied(m, subject)]
        if not members and b"" in subject.split(b"."):
            return _NOBODY
        forwarder = None
        if self.split is not None:
            members, forwarder = self.split(members)
        if head and not last_matters:
            if len(self.receivers_by_prefix) >= RECEIVERS_MAX:
                _drop(self.receivers_by_prefix)
            receivers = self.receivers_by_prefix[head] = Receivers(members, None, forwarder)
        else:
            if len(self.receivers_by_subject) >= RECEIVERS_MAX:
                _drop(self.receivers_by_subject)
            receivers = self.receivers_by_subject[subject] = Receivers(members, subject, forwarder)
        return receivers

    def _resolve_ack(self, subject: bytes) -> Receivers:
        """Return the receivers of an acknowledgement, except its consumer on this server.

        These are subscribers to acknowledgements, and the node that leads the stream. Each
        acknowledgement has its own subject, so the result is cached per consumer while there are no
        subscribers.
        """
        head = subject.rsplit(b".", 5)[0]
        if (receivers := self._ack_receivers.get(head)) is not None:
            return receivers
        is_watched = self._ack_watchers or self._ack_services
        members = self._sublist.match(subject)[0] if is_watched else []
        if head not in self.ack_handlers:
            leaders = self._sublist.match(_LEADS + stream_of_ack(subject))[0]
            members = [*members, *(each for each in leaders if isinstance(each, RemoteInterest))]
        forwarder = None
        if self.split is not None:
            members, forwarder = self.split(members)
        receivers = Receivers(members, None, forwarder)
        if not is_watched:
            if len(self._ack_receivers) >= RECEIVERS_MAX:
                _drop(self._ack_receivers)
            self._ack_receivers[head] = receivers
        return receivers

    def announce_acks_of(self, stream: str) -> ServiceSubscription:
        """Make other servers send the acknowledgements of a stream to this server.

        End it by `unsubscribe` with the returned subscription.
        """
        return self.subscribe(_LEADS + stream.encode(), _nothing)

    def has_interest(self, subject: bytes) -> bool:
        """Return whether a message on `subject` would have a receiver on any server."""
        return self.receivers(subject).interest

    def denied(self, subject: bytes) -> list[Subscription]:
        """Return the clients' subscriptions that match a subject but may not receive from it.

        Their permissions deny the subject.
        """
        if not self._guarded:
            return []
        members, _ = self._sublist.match(subject)
        return [m for m in members if isinstance(m, Subscription) and _is_denied(m, subject)]

    def offer_order(self, group: tuple[Member, ...]) -> tuple[Member, ...]:
        """Return the members of a queue group in the order in which to try delivery.

        The first is random.
        """
        first = int(self._chance() * len(group))
        return group[first:] + group[:first]

    def choose_link(self, members: Sequence[RemoteInterest]) -> ServerLink:
        """Choose at random, by weight, the server whose queue group member gets a message.

        Return its link.
        """
        place = self._chance() * sum(each.weight for each in members)
        for each in members:
            place -= each.weight
            if place < 0:
                return each.link
        return members[-1].link

    @property
    def watches_acks(self) -> bool:
        """True while clients or other servers subscribe to subjects of acknowledgements."""
        return bool(self._ack_watchers)

    def deliver_ack(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        """Pass an acknowledgement to its consumer on this server.

        Return True if it needs no further delivery; False if this server does not serve the
        consumer, or if there are subscribers to acknowledgements.
        """
        parts = subject.rsplit(b".", 5)
        handler = self.ack_handlers.get(parts[0])
        if handler is None:
            return False
        handler.handle(parts, session, reply, headers, payload)
        return not self._ack_watchers

    # -- messages

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message of the server itself to clients and services.

        Flush it in this loop tick.
        """
        self.deliver(self.receivers(subject), None, subject, reply, headers, payload)
        self.loop_tick.arm()

    def send(self, to: bytes, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bool:
        """Deliver a message to the subscribers of `to`, although its subject is `subject`.

        A consumer uses it to deliver to its deliver subject. Return False if there is no
        subscriber. The output is flushed in this loop tick.
        """
        receivers = self.receivers(to)
        if not receivers.interest:
            return False
        self.loop_tick.arm()
        return self.deliver_as(to, receivers, subject, reply, headers, payload)

    def deliver_as(
        self,
        to: bytes,
        receivers: Receivers,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to `receivers`, the receivers of the subject `to`.

        They see `subject` as its subject. Return False if there are no receivers. The caller calls
        `loop_tick.arm` to flush the output.
        """
        if subject == to:
            return self.deliver(receivers, None, subject, reply, headers, payload)
        return self.deliver(receivers, None, subject, reply, headers, payload, to=to)

    def deliver(
        self,
        receivers: Receivers,
        source: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
        *,
        to: bytes = b"",
    ) -> bool:
        """Append a message to the outputs of its receivers. Return False if there are none.

        The caller calls `loop_tick.arm` to flush the outputs.

        Args:
            receivers: The receivers of the message.
            source: Session of the publisher; None if no client of this server has published it.
            subject: Subject that receivers see.
            reply: Reply subject; empty: none.
            headers: Header block; empty: none.
            payload: Payload.
            to: The subject of `receivers` if it is not `subject`.
        """
        delivered = False
        refused: list[bytes] = []  # queue groups whose members here may not have the message
        if receivers.targets:
            tail = message_tail(reply, headers, payload)
            if to or not receivers.plain or not (source is None or source.echo):
                for target in receivers.targets:
                    if self.deliver_one(target, source, subject, tail, headers, payload, reply):
                        delivered = True
            else:
                self.fan_out(receivers, subject, tail, len(payload), len(headers))
                delivered = True
        for group in receivers.groups:
            if self.deliver_group(group, source, subject, reply, headers, payload):
                delivered = True
            elif receivers.forwarder is not None:
                refused.append(group[0].queue)
        forwarder = receivers.forwarder if to or refused else None
        for service in receivers.services:
            if forwarder is not None and service is forwarder:
                forwarder.forward((subject, reply, headers, payload), to, refused)
            else:
                service.call(source, subject, reply, headers, payload)
            delivered = True
        return delivered

    def deliver_run(self, receivers: Receivers, subject: bytes, payloads: list[bytes]) -> None:
        """Deliver several payloads of one size, without reply and headers, on one subject.

        `receivers.plain` must be True: every receiver gets every message, without checks.
        """
        assert receivers.plain, "no target needs looking at one by one"
        size = b"%d\r\n" % len(payloads[0])
        sent = len(payloads) * (MESSAGE + len(payloads[0]))
        for target, session, out, head in receivers.heads or heads_of(receivers.targets, subject):
            if not out:
                self.loop_tick.dirty.append(session)
            line = head + size
            target.sent += sent
            out += (line, (b"\r\n" + line).join(payloads), b"\r\n")

    def fan_out(
        self, receivers: Receivers, subject: bytes, tail: bytes, size: int, header_size: int
    ) -> None:
        """Append a message to the outputs of all client subscriptions of `receivers`.

        `receivers.plain` must be True: every receiver gets every message, without checks. `tail` is
        the end of the MSG or HMSG with the payload (`message_tail`), `size` the bytes of the
        payload, `header_size` those of the headers.
        """
        dirty = self.loop_tick.dirty
        sent = MESSAGE + size + header_size
        verb = b"HMSG " if header_size else b"MSG "
        if receivers.heads is None or header_size:
            begin = verb + subject
            for target in receivers.targets:
                out = target.session.out
                if not out:
                    dirty.append(target.session)
                target.sent += sent
                out += (begin, target.mid, tail)
            return
        for target, session, out, head in receivers.heads:
            if not out:
                dirty.append(session)
            target.sent += sent
            out += (head, tail)

    def deliver_one(
        self,
        target: Subscription,
        source: Session | None,
        subject: bytes,
        tail: bytes,
        headers: bytes,
        payload: bytes,
        reply: bytes,
    ) -> bool:
        """Deliver a message to one subscription.

        `tail` is the end of the MSG or HMSG with the payload (`message_tail`). Return False if the
        limit, echo setting or permissions of the subscription forbid the delivery.
        """
        session = target.session
        if session.closed or (session is source and not session.echo):
            return False
        if target.limit and target.delivered >= target.limit:
            return False  # an earlier delivery of this fan-out was its last
        guard = target.guard
        if guard is not None and not guard.allow_delivery(subject, target.queue, reply):
            return False
        out = session.out
        if not out:
            self.loop_tick.dirty.append(session)
        target.sent += MESSAGE + len(payload)
        if not headers:
            out += (b"MSG ", subject, target.mid, tail)
        elif session.headers:
            target.sent += len(headers)
            out += (b"HMSG ", subject, target.mid, tail)
        else:
            self.hub.stripped_bytes += len(headers)
            out += (b"MSG ", subject, target.mid, message_tail(reply, b"", payload))
        if target.limit and target.delivered >= target.limit:
            self.remove(target)
            session.forget(target)
        return True

    def deliver_group(
        self,
        group: tuple[Member, ...],
        source: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to one member of a queue group, chosen at random.

        If that member may not have the message, the next one is tried. Return False if no member
        may.
        """
        count = len(group)
        first = int(self._chance() * count)
        tail = message_tail(reply, headers, payload)
        for offset in range(count):
            member = group[(first + offset) % count]
            if isinstance(member, ServiceSubscription):
                member.call(source, subject, reply, headers, payload)
                return True
            if self.deliver_one(member, source, subject, tail, headers, payload, reply):
                return True
        return False

    # -- invalidation of cached receivers

    def _touch(self, subject: bytes) -> None:
        """Drop the cached receivers that a subscription to `subject` can change."""
        if self._ack_receivers and (subject.startswith(_LEADS) or _may_watch_acks(subject)):
            _drop(self._ack_receivers)
        if not has_wildcard(subject):
            _discard(self.receivers_by_subject, subject)
            _discard(self.receivers_by_prefix, subject.rpartition(b".")[0])
            return
        # Limit the cost of many wildcard filters: each one scans all cached receivers.
        self._searched += len(self.receivers_by_subject) + len(self.receivers_by_prefix)
        if self._searched > _SEARCH_MAX:
            self.drop_receivers()
            return
        prefix = fixed_prefix(subject)
        for key in [key for key in self.receivers_by_subject if key.startswith(prefix)]:
            _discard(self.receivers_by_subject, key)
        for key in [key for key in self.receivers_by_prefix if (key + b".").startswith(prefix)]:
            _discard(self.receivers_by_prefix, key)

    def drop_receivers(self) -> None:
        """Drop all cached receivers.

        They are looked up again for the next message of each subject.
        """
        _drop(self.receivers_by_subject)
        _drop(self.receivers_by_prefix)
        _drop(self._ack_receivers)
        self._searched = 0


def _no_scopes(_subject: bytes) -> Iterable[StreamScope]:
    return ()


def _discard(cached: dict[bytes, Receivers], key: bytes) -> None:
    receivers = cached.pop(key, None)
    if receivers is not None:
        receivers.stale = True


def _drop(cached: dict[bytes, Receivers]) -> None:
    for receivers in cached.values():
        receivers.stale = True
    cached.clear()


def stream_of_ack(subject: bytes) -> bytes:
    """Return the name of the stream in the subject of an acknowledgement.

    Empty if it is too short.
    """
    tokens = subject.split(b".", 11)
    place = 2 if len(tokens) == _SHORT_ACK else 4
    return tokens[place] if len(tokens) >= _SHORT_ACK else b""


def _nothing(
    session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
) -> None:
    """Ignore a message: the subscription only has to be visible to other servers."""


def message_tail(reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return the end of a MSG or HMSG with the payload: everything that follows subject and sid."""
    address = reply + b" " if reply else b""
    if not headers:
        return b"%b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"%b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def _is_denied(member: Member, subject: bytes) -> bool:
    if not isinstance(member, Subscription) or member.guard is None:
        return False
    return member.guard.denies(subject, member.queue)


def _may_watch_acks(subject: bytes) -> bool:
    return subject[:1] in _ACK_FILTER_STARTS and overlap(subject, b"$JS.ACK.>")
