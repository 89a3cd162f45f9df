"""Publishes a message with a message trace (ADR-41): the usual steps, each recorded as an event.

Such messages are rare and use this path alone: the publishers of `core.transport.publishing` and
the fan-out of an account contain no tracing.
"""

from core.protocol import encoder
from core.protocol import headers as header_blocks
from core.pubsub.account import ACK_PREFIX, Account, message_tail
from core.pubsub.message_trace import DESTINATION, DISABLED, MessageTrace
from core.pubsub.receivers import Member, Receivers, ServiceSubscription, Session, Subscription
from core.pubsub.server import Connection
from core.transport import author_publisher, publishing
from core.transport.error_texts import quoted
from core.transport.traced import ConnectionTrace

_CLOSED = "Not delivered because client is closed"
_NO_ECHO = "Not delivered because of no echo"
_DENIED = "Not delivered because subscription denies this subject"
_EXCEEDED = "Not delivered because auto-unsubscribe exceeded"

_USER_INFO = b"$SYS.REQ.USER.INFO"
_API = b"$JS.API."
_OF_THE_ACCOUNT = (b"$JS.API.DIRECT.GET.", b"$JS.API.CONSUMER.MSG.NEXT.")
"""Prefixes of requests that the account answers itself; all others go to the system account."""


def publish_traced(
    client: Connection,
    log: ConnectionTrace | None,
    subject: bytes,
    reply: bytes,
    headers: bytes,
    payload: bytes,
) -> None:
    """Publish a message whose headers may request a trace.

    Without the header `Nats-Trace-Dest` it is published like any message. A client without
    permission to publish to the destination of the trace gets -ERR. `log` logs the operations of
    the client; None: they are not logged.
    """
    destination = header_blocks.find(headers, DESTINATION)
    if not destination or destination == DISABLED:
        client.publisher.on_pub(subject, reply, headers, payload)
        return
    if log is not None:
        log.received_message(headers, payload)
    destination = destination.strip()
    guard = client.guard
    if guard is not None and guard.grant.limits_publish and not guard.may_publish(destination):
        client.write_line(encoder.error(_violation(f"Publish to {quoted(destination)}")))
        return
    trace = MessageTrace(client.account, destination, headers, len(payload))
    trace.came_in(client.client_id, client.connect.name, subject)
    trace.hold()
    _Publishing(client, trace, reply, headers, payload).publish(subject)
    trace.release()


def _violation(what: str) -> str:
    return f"Permissions Violation for {what}"


class _Publishing:
    """Publishes one message with a message trace (ADR-41), and records each step in the trace."""

    def __init__(
        self, client: Connection, trace: MessageTrace, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        self._client = client
        self._account: Account = client.account
        self._trace = trace
        self._message = (reply, headers, payload)
        self._authored = b""
        self._is_declined = False

    def publish(self, subject: bytes) -> None:
        """Publish the message, with the steps of `core.transport.publishing` in the same order.

        They are: map the subject, check permissions, deliver, answer.
        """
        client, account = self._client, self._account
        reply, headers, payload = self._message
        if account.mappings is not None:
            mapped = account.mappings.of(subject)
            if mapped != subject:
                self._trace.mapped(mapped)
            subject = mapped
        if subject and self._is_refused(subject, reply):
            return
        if client.connect.verbose:
            client.write_line(encoder.OK)
        if subject.startswith(ACK_PREFIX) and account.deliver_ack(
            client, subject, reply, headers, payload
        ):
            return
        if subject and self._deliver(account.receivers(subject), subject):
            return
        if reply and client.no_responders:
            is_declined = self._is_declined
            write = (
                publishing.write_no_responders if is_declined else publishing.answer_no_responders
            )
            write(client, subject, reply)

    def _is_refused(self, subject: bytes, reply: bytes) -> bool:
        client, guard = self._client, self._client.guard
        is_allowed = guard is None or not guard.grant.limits_publish or guard.may_publish(subject)
        publishing.check_subject(client, subject)
        if not is_allowed:
            return self._refuse(publishing.subject_violation(subject))
        if violation := publishing.violation_of(subject, reply):
            return self._refuse(violation)
        if author_publisher.asks_author(client):
            headers = self._message[1]
            missing = author_publisher.missing_permission(client, subject, headers)
            if missing is not None:
                return self._refuse(author_publisher.violation(missing))
            self._authored = author_publisher.authored_block(client, reply, headers)
        return False

    def _refuse(self, what: str) -> bool:
        why = _violation(what)
        self._client.write_line(encoder.error(why))
        self._trace.refused(why)
        return True

    # -- receivers

    def _deliver(self, receivers: Receivers, subject: bytes) -> bool:
        """Offer the message to all its receivers. Return False if there are none."""
        delivered = False
        for target in receivers.targets:
            delivered = self._to_client(target, subject) or delivered
        for target in self._account.denied(subject):
            self._note(target, _DENIED)
        for group in receivers.groups:
            delivered = self._to_one(self._account.offer_order(group), subject) or delivered
        for service in receivers.services:
            delivered = self._to_service(service, subject) or delivered
        return delivered

    def _to_one(self, members: tuple[Member, ...], subject: bytes) -> bool:
        for member in members:
            if isinstance(member, ServiceSubscription):
                return self._to_service(member, subject)
            if self._to_client(member, subject):
                return True
        return False

    def _to_client(self, target: Subscription, subject: bytes) -> bool:
        error = self._hindrance(target, subject)
        if not error and not self._trace.only:
            reply, headers, payload = self._message
            tail = message_tail(reply, headers, payload)
            self._account.deliver_one(target, self._client, subject, tail, headers, payload, reply)
        self._note(target, error)
        return not error

    def _hindrance(self, target: Subscription, subject: bytes) -> str:
        session: Session = target.session
        if session.closed:
            return _CLOSED
        if session is self._client and not session.echo:
            return _NO_ECHO
        if target.limit and target.delivered >= target.limit:
            return _EXCEEDED
        if target.guard is not None and target.guard.denies(subject, target.queue):
            return _DENIED
        return ""

    def _note(self, target: Subscription, error: str) -> None:
        connect = getattr(target.session, "connect", None)  # other sessions have no CONNECT
        self._trace.reached(target, connect.name if connect is not None else "", error)

    def _to_service(self, service: ServiceSubscription, subject: bytes) -> bool:
        """Call a service; call the system account only if the message is not trace-only."""
        reply, headers, payload = self._message
        if self._authored and service.takes_authors:
            headers = self._authored
        if service.traced is not None:
            service.traced(self._trace, subject, reply, headers, payload)
            return True
        to = b""
        if subject == _USER_INFO:
            to = b"$SYS.REQ.USER.%b.INFO" % self._account.name.encode()
        elif subject.startswith(_API) and not subject.startswith(_OF_THE_ACCOUNT):
            to = subject
        if to:
            self._trace.imported(subject, to)
            if self._trace.only:
                self._is_declined = True
                return False
        service.call(self._client, subject, reply, headers, payload)
        return True
