"""Forwards JetStream API requests to another NATS system, and responses and deliveries back.

    here, any client                   the bridge                     there
    PUB $JS.<name>.API.X  r  ──▶  PUB $JS.API.X  <inbox>.R.r    ──▶  JetStream
    MSG r                 ◀──     MSG <inbox>.R.r               ◀──
    MSG <deliver>         ◀──     MSG <inbox>.D.7               ◀──  consumer

*Here* is the side that sends requests, *there* the side with the JetStream server. The subject of a
response contains the reply subject of its request, so the bridge stores nothing per request. Only
deliveries need a `Relay`: for the deliver subject of a consumer, which is replaced in the request
that creates the consumer, and for the reply subject of a pull request. While there is no connection
the API prefix has no subscription: requests get "no responders".
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from core.client.client import Client
from core.client.errors import ConnectionLost
from core.client.msg import Msg, status_of
from core.protocol import encoder
from core.remote.relay import Relay, Relays
from core.remote.request_side import RequestSide
from core.remote.subject_map import SubjectMap
from core.subjects.subject import is_valid_literal

_CREATES = (b"CONSUMER.CREATE.", b"CONSUMER.DURABLE.CREATE.")
_NEXT = b"CONSUMER.MSG.NEXT."
_NXT = b"+NXT"
_GROUP = "deliver_group"
_POLICIES_WITHOUT_ACKS = (None, "none", "flow_control")
_PULL_NS = 300_000_000_000  # relay time of a pull request without expiry, in nanoseconds

EVERYTHING = (b">",)
READING = (
    b"INFO",
    b"STREAM.INFO.*",
    b"STREAM.NAMES",
    b"STREAM.LIST",
    b"STREAM.MSG.GET.*",
    b"CONSUMER.>",
    b"DIRECT.GET.>",
)
"""The API requests that are needed to read streams; none of them changes a stream."""


class Bridge:
    """Forwards JetStream API requests to one other NATS system, and responses and deliveries back.

    Life cycle: `open` after each connect, `close` after each disconnect, `end` when the remote is
    removed.

    Args:
        here: The side where requests come from.
        client: The connection to the JetStream server; its subscriptions outlive a reconnect.
        name: The name of the remote.
        now: Returns the monotonic time in nanoseconds.
        verbs: The requests to forward, as subject filters behind the API prefix.

    Attributes:
        requests: Number of requests forwarded since the start.
        relays: Forwards the deliveries of consumers.
    """

    def __init__(
        self,
        here: RequestSide,
        client: Client,
        name: str,
        now: Callable[[], int],
        *,
        verbs: tuple[bytes, ...] = EVERYTHING,
    ) -> None:
        self.requests = 0
        self._here = here
        self._verbs = verbs
        self._client = client
        self._names = SubjectMap(name)
        base = client.new_inbox()
        self._answers = base + b".R."
        self._creations = base + b".C."
        self._inbox_text = re.compile(re.escape(base) + rb"\.D\.\d+")
        self._inboxes = base + b".D."
        self.relays = Relays(here, client, self._names, self._inboxes, now)
        self._services: list[Callable[[], None]] = []
        self._is_subscribed = False

    # -- opening and closing

    def open(self) -> None:
        """Subscribe to the API prefix `$JS.<name>.API`.

        Call it when the connection is established.
        """
        if not self._is_subscribed:
            self._is_subscribed = True
            self._client.subscribe(self._answers + b">", self._on_answers)
            self._client.subscribe(self._creations + b">", self._on_creations)
            self._here.on_interest.append(self.relays.on_interest)
        if not self._services:
            names, serve = self._names, self._here.serve
            self._services = [serve(names.api + verb, self._on_request) for verb in self._verbs]
            self._services += [
                serve(names.ack + b">", self._on_ack),
                serve(names.fc + b">", self._on_flow),
            ]

    def close(self) -> None:
        """Refuse requests of this system (no responders) until the next `open`.

        Subscriptions at the remote system stay in its client, which renews them when it reconnects.
        """
        services, self._services = self._services, []
        for end in services:
            end()

    def end(self) -> None:
        """Close the bridge when the remote is removed; it must not be opened again."""
        self.close()
        if self.relays.on_interest in self._here.on_interest:
            self._here.on_interest.remove(self.relays.on_interest)

    # -- from here to there

    def _on_request(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.requests += 1
        there = self._names.there(subject)
        verb = there[8:]
        answer = self._answers + reply if reply else b""
        try:
            if verb.startswith(_CREATES):
                payload, answer = self._creation(reply, payload)
            elif reply and verb.startswith(_NEXT):
                answer = self.relays.pull(reply, _pull_time(payload)).inbox
        except ConnectionLost:
            return
        self._send(there, answer, headers, payload)

    def _creation(self, reply: bytes, payload: bytes) -> tuple[bytes, bytes]:
        """Prepare a request that creates a consumer; return its payload and reply subject to send.

        The deliver subject of a push consumer is replaced by an inbox of the bridge, whose messages
        the bridge forwards to the original deliver subject. The payload of any other request is not
        changed. `reply` and `payload` are those of the client's request.
        """
        answer = self._answers + reply if reply else b""
        request = _members(payload)
        config = request.get("config")
        if not isinstance(config, dict):
            return payload, answer
        to, group = (str(config.get(key) or "").encode() for key in ("deliver_subject", _GROUP))
        # Both become part of protocol lines; the other system refuses an invalid subject.
        if not is_valid_literal(to) or (group and not is_valid_literal(group)):
            return payload, answer
        without_acks = config.get("ack_policy") in _POLICIES_WITHOUT_ACKS
        relay = self.relays.push(to, group, without_acks=without_acks)
        config["deliver_subject"] = relay.inbox.decode()
        number = relay.inbox[len(self._inboxes) :]
        return msgspec.json.encode(request), b"%b%b.%b" % (self._creations, number, reply or b"_")

    def _on_ack(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        there = self._names.ack_there(subject)
        if not there:
            return
        answer = self._answers + reply if reply else b""
        if reply and payload.startswith(_NXT):
            try:
                answer = self.relays.pull(reply, _pull_time(payload[4:])).inbox
            except ConnectionLost:
                return
        self._send(there, answer, headers, payload)

    def _on_flow(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self._send(self._names.flow_there(subject), b"", headers, payload)

    def _send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        # Drop requests if the server is too slow or the request too large; requesters retry.
        client = self._client
        fits = len(headers) + len(payload) <= client.info.max_payload
        if client.connected and not client.paused and fits:
            client.write(encoder.publish(subject, reply, headers, payload))

    # -- from there to here

    def _on_answers(self, batch: list[Msg]) -> None:
        start = len(self._answers)
        for msg in batch:
            self._answer(msg.subject[start:], msg)
        self._here.throttle(self._client)

    def _on_creations(self, batch: list[Msg]) -> None:
        start = len(self._creations)
        for msg in batch:
            number, _, reply = msg.subject[start:].partition(b".")
            if reply != b"_":
                self._answer(reply, msg)
            relay = self.relays.pushes.get(self._inboxes + number)
            if relay is not None:
                self._created(relay, msg)

    def _created(self, relay: Relay, msg: Msg) -> None:
        if status_of(msg.headers)[0] or "error" in _members(msg.payload):
            self.relays.close(relay)

    def _answer(self, reply: bytes, msg: Msg) -> None:
        payload = msg.payload
        if self._inboxes in payload:
            payload = self._inbox_text.sub(lambda found: self.relays.shown(found[0]), payload)
        self._here.publish(reply, b"", msg.headers, payload)


def _members(payload: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _pull_time(payload: bytes) -> int:
    """Return the time in nanoseconds for which deliveries to a pull request are forwarded."""
    asked = _members(payload).get("expires")
    return asked + _PULL_NS // 60 if isinstance(asked, int) and asked > 0 else _PULL_NS
