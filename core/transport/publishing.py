"""Publishes a client's messages: each session has one publisher, made of up to four layers.

    MappedPublisher     the account maps subjects                      wraps
    GuardedPublisher    permissions limit the subjects                 wraps
    AuthorPublisher     headers can require further permissions        wraps
    PlainPublisher      CONNECT without verbose and pedantic, with echo: every ordinary client
      or CheckedPublisher   any other CONNECT, and before the first one

`publisher_for` combines them. The parser fetches the session's publisher at the beginning of each
read and after each control line, and calls it directly: a publish of an ordinary client is one
Python call. A publisher contains the rules in force at its creation. A change of the rules gives
the session another one: CONNECT (`ClientSession.authorize`), `Hub.use_users`,
`Hub.use_author_connection_types` and `Account.use_mappings`.

A refused message is answered with nats-server's -ERR, and the connection stays open.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from core.auth.grant import Guard
from core.protocol import encoder
from core.protocol import headers as header_blocks
from core.protocol.messages import Message, MessageColumns
from core.protocol.server_parser import Publisher
from core.pubsub.account import ACK_PREFIX, message_tail
from core.pubsub.authored import deliver_authored
from core.pubsub.batch import deliver_acks, deliver_together
from core.pubsub.publish_rules import RESERVED_REPLY_STARTS, is_reserved, is_system
from core.pubsub.receivers import MESSAGE
from core.pubsub.server import Connection
from core.subjects.subject import can_publish
from core.transport.author_publisher import AuthorPublisher, asks_author
from core.transport.error_texts import permissions_violation, quoted

if TYPE_CHECKING:
    from core.pubsub.mappings import Mappings  # a start without mappings does not load it

# The first five bytes of subjects that are acknowledgements, or refused.
_SPECIAL = frozenset((b"$JS.A", b"$NRG."))

OnPub = Callable[[bytes, bytes, bytes, bytes], None]


def publisher_for(client: Connection) -> Publisher:
    """Return a new publisher for a client, by its CONNECT, its permissions and its account."""
    connect, guard, mappings = client.connect, client.guard, client.account.mappings
    is_plain = connect.echo and not connect.verbose and not connect.pedantic
    publisher: Publisher = PlainPublisher(client) if is_plain else CheckedPublisher(client)
    if asks_author(client):
        publisher = AuthorPublisher(client, publisher, partial(publish_checked, client))
    if guard is not None and guard.grant.limits_publish:
        publisher = GuardedPublisher(client, guard, publisher)
    if mappings is not None:
        publisher = MappedPublisher(client, mappings, publisher)
    return publisher


class PlainPublisher:
    """Publishes the messages of an ordinary client: not verbose, not pedantic, with echo."""

    __slots__ = ("_account", "_client", "_dirty", "_receivers")

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._account = client.account
        self._receivers = client.account.receivers_by_subject
        self._dirty = client.account.loop_tick.dirty

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish one message; answer -ERR for a reserved reply, 503 without a receiver."""
        if reply and reply[:4] in RESERVED_REPLY_STARTS and is_reserved(reply):
            _refuse(self._client, violation_of(subject, reply))
            return
        receivers = self._receivers.get(subject)
        if receivers is None:
            # `$JS.API.` has the same first five bytes as `$JS.ACK.`, but is not special
            if (
                subject[:5] in _SPECIAL
                and subject[4:6] != b"AP"
                and _take_special(self._client, subject, reply, headers, payload)
            ):
                return
            receivers = self._account.resolve(subject)
        only = receivers.only
        if only is not None:
            only(self._client, subject, reply, headers, payload)
            return
        sole = receivers.sole
        if sole is None:
            client = self._client
            delivered = self._account.deliver(receivers, client, subject, reply, headers, payload)
            if reply and not delivered and client.no_responders:
                answer_no_responders(client, subject, reply)
            return
        out = sole.session.out
        if not out:
            self._dirty.append(sole.session)
        if headers:
            sole.sent += MESSAGE + len(headers) + len(payload)
            out += (b"HMSG ", subject, sole.mid, message_tail(reply, headers, payload))
            return
        size = len(payload)
        sole.sent += MESSAGE + size
        if reply:
            tail = b"%b %d\r\n%b\r\n" % (reply, size, payload)
        else:
            tail = b"%d\r\n%b\r\n" % (size, payload)
        if receivers.head:
            out += (receivers.head, tail)
        else:
            out += (b"MSG ", subject, sole.mid, tail)

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish messages with the same subject and size, without reply and headers."""
        if subject[:5] not in _SPECIAL:
            receivers = self._account.receivers(subject)
            if (only := receivers.only) is not None:
                client = self._client
                for payload in payloads:
                    only(client, subject, b"", b"", payload)
                return
            if (
                receivers.targets
                and receivers.plain
                and not receivers.groups
                and not receivers.services
            ):
                self._account.deliver_run(receivers, subject, payloads)
                return
        _publish_each(self.on_pub, subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages, together if all go to one stream or are acknowledgements.

        Return False if they were published one by one.
        """
        account = self._account
        if deliver_together(account, batch) or deliver_acks(
            account, batch, self._client, self.on_pub
        ):
            return True
        return _publish_singly(self.on_pub, batch)


class CheckedPublisher:
    """Publishes the messages of a client that is verbose or pedantic, or has echo off."""

    __slots__ = ("_client",)

    def __init__(self, client: Connection) -> None:
        self._client = client

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message with all checks, and answer it with +OK if the client is verbose."""
        publish_checked(self._client, (subject, reply, headers, payload))

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish messages with the same subject and size, without reply and headers."""
        _publish_each(self.on_pub, subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages one by one, since each may be answered. Return False."""
        return _publish_singly(self.on_pub, batch)


class GuardedPublisher:
    """Refuses messages to subjects without permission; passes the others to the next publisher."""

    __slots__ = ("_client", "_guard", "_next", "_publish", "_publishable")

    def __init__(self, client: Connection, guard: Guard, wrapped: Publisher) -> None:
        self._client = client
        self._guard = guard
        self._publishable = guard.grant.publishable
        self._next = wrapped
        self._publish = wrapped.on_pub

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message if the client may publish to its subject; else send -ERR."""
        if subject in self._publishable or self._may_publish(subject):
            self._publish(subject, reply, headers, payload)

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish messages with the same subject and size, without reply and headers."""
        if subject in self._publishable:
            self._next.on_run(subject, payloads)
        else:  # each is refused, or counts against `allow_responses`
            _publish_each(self.on_pub, subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages, together if all subjects are known to be permitted.

        Return False if they were published one by one.
        """
        if self._publishable.issuperset(batch.subjects):
            return self._next.on_batch(batch)
        return _publish_singly(self.on_pub, batch)

    def _may_publish(self, subject: bytes) -> bool:
        if self._guard.may_publish(subject):
            return True
        check_subject(self._client, subject)
        _refuse(self._client, subject_violation(subject))
        return False


class MappedPublisher:
    """Maps the subjects of messages as the account requires, then publishes them."""

    __slots__ = ("_client", "_mappings", "_publish")

    def __init__(self, client: Connection, mappings: "Mappings", wrapped: Publisher) -> None:
        self._client = client
        self._mappings = mappings
        self._publish = wrapped.on_pub

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message to the subject that the mapping gives, or drop it if there is none."""
        mapped = self._mappings.of(subject)
        if mapped:
            self._publish(mapped, reply, headers, payload)
            return
        client = self._client
        if client.connect.verbose:
            client.write_line(encoder.OK)
        if reply and client.no_responders:
            answer_no_responders(client, mapped, reply)

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish several messages one by one: a mapping may choose their subjects at random."""
        _publish_each(self.on_pub, subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages one by one, each to its mapped subject. Return False."""
        return _publish_singly(self.on_pub, batch)


def publish_checked(client: Connection, message: Message, authored: bytes = b"") -> None:
    """Publish a message with all checks; answer it with +OK, -ERR or a 503 (no responders).

    `authored`: the header block that streams get instead of the message's own
    (`core.pubsub.authored`); empty: none.
    """
    subject, reply, headers, payload = message
    check_subject(client, subject)
    if violation := violation_of(subject, reply):
        _refuse(client, violation)
        return
    if client.connect.verbose:
        client.write_line(encoder.OK)
    if _take_special(client, subject, reply, headers, payload):
        return
    account = client.account
    receivers = account.receivers(subject)
    if authored:
        delivered = deliver_authored(account, receivers, client, message, authored)
    else:
        delivered = account.deliver(receivers, client, subject, reply, headers, payload)
    if reply and not delivered and client.no_responders:
        answer_no_responders(client, subject, reply)


def _publish_each(publish: OnPub, subject: bytes, payloads: list[bytes]) -> None:
    for payload in payloads:
        publish(subject, b"", b"", payload)


def _publish_singly(publish: OnPub, batch: MessageColumns) -> bool:
    """Publish the messages of a batch one by one. Always return False."""
    for message in batch.messages():
        publish(*message)
    return False


def _take_special(
    client: Connection, subject: bytes, reply: bytes, headers: bytes, payload: bytes
) -> bool:
    """Handle an acknowledgement or a system subject. Return False if normal delivery follows."""
    if subject.startswith(ACK_PREFIX):
        return client.account.deliver_ack(client, subject, reply, headers, payload)
    if is_system(subject):
        _refuse(client, subject_violation(subject))
        return True
    return False


def check_subject(client: Connection, subject: bytes) -> None:
    """Send -ERR to a pedantic client if the subject of its publish is invalid.

    The message is published nevertheless.
    """
    if client.connect.pedantic and not can_publish(subject):
        client.write_line(encoder.error("Invalid Publish Subject"))


def violation_of(subject: bytes, reply: bytes) -> str:
    """Return the text of the -ERR if a publish breaks a rule for all clients; empty if it does not.

    The rules are in `core.pubsub.publish_rules`.
    """
    if is_reserved(reply):
        return f"Publish with Reply of {quoted(reply)}"
    return subject_violation(subject) if is_system(subject) else ""


def subject_violation(subject: bytes) -> str:
    """Return the text of the -ERR for a subject to which the client may not publish."""
    return f"Publish to {quoted(subject)}"


def _refuse(client: Connection, violation: str) -> None:
    client.write_line(permissions_violation(violation))


def answer_no_responders(client: Connection, subject: bytes, reply: bytes) -> None:
    """Send a 503 (no responders) to a client whose request has no receiver.

    Nothing is sent for subjects of which the account does not expect a receiver
    (`Account.is_silent`).
    """
    account = client.account
    if account.is_silent is None or not account.is_silent(subject):
        write_no_responders(client, subject, reply)


def write_no_responders(client: Connection, subject: bytes, reply: bytes) -> None:
    """Send a 503 (no responders) to the client's subscription to its reply subject."""
    for target in client.account.receivers(reply).targets:
        if target.session is client:
            block = header_blocks.build(((b"Nats-Subject", subject),), 503)
            client.write_line(encoder.message(reply, target.sid, b"", block, b""))
            return
