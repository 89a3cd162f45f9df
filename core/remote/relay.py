"""Deliveries of the other system, on their way to whoever asked for them here.

Every subject here that a consumer there delivers to has an inbox there of its own, because a
delivery shows the subject of its message and not where it was sent to. There is interest in the
inbox while there is interest here: as with a consumer of our own nothing is delivered before
somebody listens, and what a consumer does for a listener ends with it.
"""

from collections.abc import Callable

import msgspec

from core.client.client import Client, Subscription
from core.client.msg import Msg
from core.remote.here import Here, Row
from core.remote.subjects import Names

PULLS_MAX, PUSHES_MAX = 4096, 1024
_CONTROL = b"NATS/1.0 100"


class Relay:
    """One inbox there, one subject here.

    `group` is the queue group of the consumer, if it has one; `until` is when nothing more can
    come for a pull (monotonic nanoseconds); `plain` says that acknowledgements keep their subject,
    because nobody acknowledges.
    """

    __slots__ = ("_deliver", "group", "inbox", "plain", "subscription", "to", "until")

    def __init__(
        self,
        inbox: bytes,
        to: bytes,
        group: bytes,
        deliver: Callable[["Relay", list[Msg]], None],
        *,
        plain: bool,
    ) -> None:
        self.inbox = inbox
        self.to = to
        self.group = group
        self.until = 0
        self.plain = plain
        self.subscription: Subscription | None = None
        self._deliver = deliver

    def on_batch(self, batch: list[Msg]) -> None:
        """Take what one read brought."""
        self._deliver(self, batch)


class Relays:
    """All relays of one remote.

    Args:
        here: where deliveries go.
        client: where they come from.
        names: how subjects are called.
        base: the beginning of the inboxes there, with its dot.
        now: the monotonic clock.
    """

    def __init__(
        self,
        here: Here,
        client: Client,
        names: Names,
        base: bytes,
        now: Callable[[], int],
    ) -> None:
        self.messages = 0
        self.pushes: dict[bytes, Relay] = {}
        self._pulls: dict[bytes, Relay] = {}
        self._listening: dict[bytes, list[Relay]] = {}
        self._here = here
        self._client = client
        self._names = names
        self._base = base
        self._now = now
        self._last = 0

    def __len__(self) -> int:
        relays = (*self.pushes.values(), *self._pulls.values())
        return sum(relay.subscription is not None for relay in relays)

    # -- coming and going

    def push(self, to: bytes, group: bytes, *, plain: bool) -> Relay:
        """Carry what a consumer pushes whenever somebody listens. Raises ConnectionLost."""
        relay = self._make(to, group, plain=plain)
        self.pushes[relay.inbox] = relay
        self._listening.setdefault(to, []).append(relay)
        self._follow(relay)
        if len(self.pushes) > PUSHES_MAX:
            all_of_them = self.pushes.values()
            idle = (relay for relay in all_of_them if relay.subscription is None)
            self.close(next(idle, next(iter(all_of_them))))
        return relay

    def pull(self, to: bytes, for_ns: int) -> Relay:
        """Carry the answers to a pull request, for as long as it may take.

        Raises ConnectionLost.
        """
        relay = self._pulls.pop(to, None) or self._make(to, b"", plain=False)
        self._pulls[to] = relay
        if relay.subscription is None:
            self._subscribe(relay)
        relay.until = max(relay.until, self._now() + for_ns)
        if len(self._pulls) > PULLS_MAX:
            self.close(next(iter(self._pulls.values())))
        return relay

    def _make(self, to: bytes, group: bytes, *, plain: bool) -> Relay:
        self._last += 1
        return Relay(b"%b%d" % (self._base, self._last), to, group, self._deliver, plain=plain)

    def close(self, relay: Relay) -> None:
        """Carry no more, and forget it."""
        self._unsubscribe(relay)
        if self.pushes.pop(relay.inbox, None) is not None:
            same = self._listening[relay.to]
            same.remove(relay)
            if not same:
                del self._listening[relay.to]
        elif self._pulls.get(relay.to) is relay:
            del self._pulls[relay.to]

    def sweep(self) -> None:
        """Follow the listeners that come and go without a word, and forget pulls that are over."""
        now = self._now()
        for relay in list(self.pushes.values()):
            self._follow(relay)
        for relay in list(self._pulls.values()):
            if now > relay.until or not self._here.has_interest(relay.to):
                self.close(relay)

    def on_interest(self, subject: bytes) -> None:
        """A client's subscription here came or went."""
        for relay in self._listening.get(subject, ()):
            self._follow(relay)
        pull = self._pulls.get(subject)
        if pull is not None and not self._here.has_interest(subject):
            self.close(pull)

    def _follow(self, relay: Relay) -> None:
        """Listen there while somebody listens here."""
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
        """What is called `inbox` there, as JSON text without quotes shows it here."""
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
            elif reply and not relay.plain:
                reply = names.ack_here(reply)
            rows.append((subject, reply, headers, msg.payload))
        self.messages += len(rows)
        if not self._here.deliver(to, rows) and relay.inbox in self.pushes:
            self._follow(relay)
        self._here.relieve(self._client)
