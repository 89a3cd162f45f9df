"""Forwards deliveries from consumers of another NATS system to the clients that requested them.

*Here* is the side whose clients sent the requests, *there* the side with the JetStream server.
Every deliver subject here has its own inbox there, because a delivery contains the subject of its
message, not the deliver subject. The inbox has a subscription only while the subject here has one,
so the consumer there sees whether there is interest in its deliver subject.
"""

from collections.abc import Callable

import msgspec

from core.client.client import Client, Subscription
from core.client.msg import Msg
from core.remote.request_side import RequestSide, Row
from core.remote.subject_map import SubjectMap

PULLS_MAX, PUSHES_MAX = 4096, 1024
_CONTROL = b"NATS/1.0 100"


class Relay:
    """Forwards the messages of an inbox in another NATS system to one subject.

    They are the deliveries of a push consumer, or the responses to pull requests. The subject is in
    the system whose client created the consumer or sent the pull requests.

    Attributes:
        inbox: The inbox in the other system.
        to: The subject in the requesting system to which the messages are forwarded.
        group: The queue group of the consumer; empty: none.
        until: Monotonic time at which the pull request has ended, in nanoseconds; 0 for a push
        consumer.
        without_acks: True if the consumer has no acknowledgements, so reply subjects are not
        mapped.
        subscription: The subscription to `inbox`; None while `to` has no subscription.
    """

    __slots__ = ("_deliver", "group", "inbox", "subscription", "to", "until", "without_acks")

    def __init__(
        self,
        inbox: bytes,
        to: bytes,
        group: bytes,
        deliver: Callable[["Relay", list[Msg]], None],
        *,
        without_acks: bool,
    ) -> None:
        self.inbox = inbox
        self.to = to
        self.group = group
        self.until = 0
        self.without_acks = without_acks
        self.subscription: Subscription | None = None
        self._deliver = deliver

    def on_batch(self, batch: list[Msg]) -> None:
        """Forward the deliveries that have arrived with one read."""
        self._deliver(self, batch)


class Relays:
    """Forwards the deliveries of another NATS system (a remote) to the clients that want them.

    Args:
        here: The side that receives the deliveries.
        client: The connection that delivers them.
        names: The map of subjects.
        base: Prefix of the inboxes, with a final dot.
        now: Returns the monotonic time in nanoseconds.

    Attributes:
        messages: Number of deliveries forwarded since the start.
        pushes: Relays of push consumers by inbox.
    """

    def __init__(
        self,
        here: RequestSide,
        client: Client,
        names: SubjectMap,
        base: bytes,
        now: Callable[[], int],
    ) -> None:
        self.messages = 0
        self.pushes: dict[bytes, Relay] = {}
        self._pulls: dict[bytes, Relay] = {}
        self._pushes_by_subject: dict[bytes, list[Relay]] = {}
        self._here = here
        self._client = client
        self._names = names
        self._base = base
        self._now = now
        self._last = 0

    def __len__(self) -> int:
        relays = (*self.pushes.values(), *self._pulls.values())
        return sum(relay.subscription is not None for relay in relays)

    # -- creating and closing

    def push(self, to: bytes, group: bytes, *, without_acks: bool) -> Relay:
        """Create the relay for a push consumer with the deliver subject `to`.

        Above 1,024 relays, one without a subscription is closed, else the oldest. Raises
        ConnectionLost if there is no connection.
        """
        relay = self._make(to, group, without_acks=without_acks)
        self.pushes[relay.inbox] = relay
        self._pushes_by_subject.setdefault(to, []).append(relay)
        self._follow(relay)
        if len(self.pushes) > PUSHES_MAX:
            all_of_them = self.pushes.values()
            idle = (relay for relay in all_of_them if relay.subscription is None)
            self.close(next(idle, next(iter(all_of_them))))
        return relay

    def pull(self, to: bytes, for_ns: int) -> Relay:
        """Create or extend the relay for pull requests with the reply subject `to`.

        It is closed `for_ns` nanoseconds from now unless a later call extends it; above 4,096
        relays, the oldest is closed. Raises ConnectionLost if there is no connection.
        """
        relay = self._pulls.pop(to, None) or self._make(to, b"", without_acks=False)
        self._pulls[to] = relay
        if relay.subscription is None:
            self._subscribe(relay)
        relay.until = max(relay.until, self._now() + for_ns)
        if len(self._pulls) > PULLS_MAX:
            self.close(next(iter(self._pulls.values())))
        return relay

    def _make(self, to: bytes, group: bytes, *, without_acks: bool) -> Relay:
        self._last += 1
        return Relay(
            b"%b%d" % (self._base, self._last), to, group, self._deliver, without_acks=without_acks
        )

    def close(self, relay: Relay) -> None:
        """Unsubscribe the inbox of a relay and remove the relay."""
        self._unsubscribe(relay)
        if self.pushes.pop(relay.inbox, None) is not None:
            same = self._pushes_by_subject[relay.to]
            same.remove(relay)
            if not same:
                del self._pushes_by_subject[relay.to]
        elif self._pulls.get(relay.to) is relay:
            del self._pulls[relay.to]

    def sweep(self) -> None:
        """Check interest in all deliver subjects, and close the relays of ended pull requests.

        Called every second, for changes of interest that `on_interest` is not called for.
        """
        now = self._now()
        for relay in list(self.pushes.values()):
            self._follow(relay)
        for relay in list(self._pulls.values()):
            if now > relay.until or not self._here.has_interest(relay.to):
                self.close(relay)

    def on_interest(self, subject: bytes) -> None:
        """Subscribe or unsubscribe inboxes after a change of the subscriptions to `subject`."""
        for relay in self._pushes_by_subject.get(subject, ()):
            self._follow(relay)
        pull = self._pulls.get(subject)
        if pull is not None and not self._here.has_interest(subject):
            self.close(pull)

    def _follow(self, relay: Relay) -> None:
        """Subscribe to the inbox of a relay in the other system, or unsubscribe from it.

        It is subscribed while clients of the requesting system subscribe to the relay's subject.
        Nothing is done without a connection.
        """
        if not self._client.connected:
            return
        if not self._here.has_interest(relay.to):
            self._unsubscribe(relay)
        elif relay.subscription is None:
            self._subscribe(relay)

    def _subscribe(self, relay: Relay) -> None:
        relay.subscription = self._client.subscribe(relay.inbox, relay.on_batch, queue=relay.group)

    def _unsubscribe(self, relay: Relay) -> None:
        if relay.subscription is not None:
            relay.subscription.unsubscribe()
            relay.subscription = None

    # -- names

    def shown(self, inbox: bytes) -> bytes:
        """Return the deliver subject that an inbox replaces, as JSON text without quotes.

        The bridge puts it in place of the inbox into responses to clients. If no relay has this
        inbox, the inbox itself is returned.
        """
        relay = self.pushes.get(inbox)
        name = inbox if relay is None else relay.to
        return msgspec.json.encode(name.decode(errors="replace"))[1:-1]

    # -- messages

    def _deliver(self, relay: Relay, batch: list[Msg]) -> None:
        names, to = self._names, relay.to
        rows: list[Row] = []
        for msg in batch:
            subject, reply, headers = msg.subject, msg.reply, msg.headers
            if subject == relay.inbox:
                subject = to
            if headers and headers.startswith(_CONTROL):
                reply, headers = names.flow_here(reply), names.stalled_here(headers)
            elif reply and not relay.without_acks:
                reply = names.ack_here(reply)
            rows.append((subject, reply, headers, msg.payload))
        self.messages += len(rows)
        if not self._here.deliver(to, rows) and relay.inbox in self.pushes:
            self._follow(relay)
        self._here.throttle(self._client)
