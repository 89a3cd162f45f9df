"""The forwarding of deliveries from consumers there to subjects here.

Every deliver subject here has its own inbox there, because a delivery contains the subject of its
message, not the deliver subject. The inbox has a subscription only while the subject here has one,
so interest in the deliver subject here is visible to the consumer there.
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
    """An inbox at the remote, and the local subject that gets its deliveries.

    Attributes:
        to: The local subject.
        group: The queue group of the consumer; empty: none.
        until: When a pull request has ended, in monotonic nanoseconds.
        without_acks: The consumer has no acknowledgements, so reply subjects are not mapped.
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
        """Forward the messages of one read."""
        self._deliver(self, batch)


class Relays:
    """All relays of one remote.

    Args:
        here: The side that receives the deliveries.
        client: The connection that delivers them.
        names: The map of subjects.
        base: Prefix of the inboxes, with a final dot.
        now: Returns monotonic nanoseconds.

    Attributes:
        messages: Deliveries forwarded since the start.
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
        """Create a relay for a push consumer. Raises ConnectionLost."""
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
        """Create or extend the relay of a pull request, for at most `for_ns` nanoseconds.

        Raises ConnectionLost.
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
        """Unsubscribe and remove a relay."""
        self._unsubscribe(relay)
        if self.pushes.pop(relay.inbox, None) is not None:
            same = self._pushes_by_subject[relay.to]
            same.remove(relay)
            if not same:
                del self._pushes_by_subject[relay.to]
        elif self._pulls.get(relay.to) is relay:
            del self._pulls[relay.to]

    def sweep(self) -> None:
        """Check for changes of interest without a notification, and close relays of ended pulls."""
        now = self._now()
        for relay in list(self.pushes.values()):
            self._follow(relay)
        for relay in list(self._pulls.values()):
            if now > relay.until or not self._here.has_interest(relay.to):
                self.close(relay)

    def on_interest(self, subject: bytes) -> None:
        """Apply a change of interest in a subject here."""
        for relay in self._pushes_by_subject.get(subject, ()):
            self._follow(relay)
        pull = self._pulls.get(subject)
        if pull is not None and not self._here.has_interest(subject):
            self.close(pull)

    def _follow(self, relay: Relay) -> None:
        """Subscribe there if the subject here has a subscription, else unsubscribe."""
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
        """Return the subject here for an inbox in a response, as JSON text without quotes."""
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
