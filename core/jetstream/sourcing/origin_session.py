"""The in-process session with which a stream reads an origin as a client of the account.

The server writes protocol bytes to the session as it writes to a socket. `flush`, at the end of
each pass of the event loop, parses them. So an origin may be a stream of this server, or of any
server that an API prefix reaches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from core.protocol.client_parser import ClientParser
from core.protocol.messages import MessageColumns
from core.pubsub.account import Subscription
from core.runtime.nuid import nuid

if TYPE_CHECKING:
    from core.auth.grant import Guard
    from core.pubsub.account import Account

log = logging.getLogger(__name__)

_ANSWERS = b"1"
_CONTROL = b"NATS/1.0 100"


class OriginReader(Protocol):
    """The receiver of messages and answers of an origin session (`OriginFollower`)."""

    def on_messages(self, columns: MessageColumns) -> None:
        """Process messages of the origin, in order; `columns.replies` are their ack subjects."""
        ...

    def on_control(self, reply: bytes, headers: bytes) -> None:
        """Process a heartbeat or flow-control request, after the messages sent before it."""
        ...

    def on_answer(self, headers: bytes, payload: bytes) -> None:
        """Process the answer to the last consumer request."""
        ...

    def on_broken(self) -> None:
        """Handle bytes that could not be parsed: messages may be missing."""
        ...


class OriginSession:
    """A session (client connection without a socket) of the account, for reading an origin.

    Args:
        account: The account.
        reader: Receives the messages and answers.
    """

    def __init__(self, account: Account, reader: OriginReader) -> None:
        self.out: list[bytes] = []
        self.blocked = False
        self.closed = False
        self.headers = True
        self.echo = True
        self.client_id = 0
        self.user = ""
        self.guard: Guard | None = None
        self.on_writable: list[Callable[[], None]] = []
        self._account = account
        self._reader = reader
        self._parser = ClientParser(self)
        self._columns = MessageColumns()
        self._sid = 1
        self._request_number = 0
        self._prefix = b"_INBOX.%b." % nuid().encode()
        self._answers = self._subscribe(self._prefix + b"*", _ANSWERS)
        self._watched: Subscription | None = None
        self._watched_sid = b""

    def _subscribe(self, subject: bytes, sid: bytes) -> Subscription:
        subscription = Subscription(self, subject, b"", sid)
        self._account.add(subscription)
        return subscription

    # -- for the reader ----------------------------------------------------------------------

    def watch(self, subject: bytes) -> None:
        """Subscribe to a deliver subject, and unsubscribe from the previous one."""
        self.unwatch()
        self._sid += 1
        self._watched_sid = b"%d" % self._sid
        self._watched = self._subscribe(subject, self._watched_sid)

    def unwatch(self) -> None:
        """Unsubscribe from the deliver subject, and drop messages not yet passed on."""
        watched, self._watched = self._watched, None
        self._watched_sid = b""
        self._columns = MessageColumns()
        if watched is not None:
            self._account.remove(watched)

    def request(self, subject: bytes, headers: bytes, body: bytes) -> bool:
        """Send a request to an API subject; return False if the subject has no subscriber.

        Answers to earlier requests are ignored from then on.
        """
        self._request_number += 1
        if not self._account.has_interest(subject):
            return False
        self._account.publish(subject, self._prefix + b"%d" % self._request_number, headers, body)
        return True

    def close(self) -> None:
        """Remove all subscriptions, and drop bytes that are not parsed yet."""
        self.closed = True
        self.unwatch()
        self._account.remove(self._answers)
        self.out.clear()

    # -- the session -------------------------------------------------------------------------

    def flush(self) -> None:
        """Parse the bytes that the server wrote to this session, and pass messages to the reader.

        Called at the end of each pass of the event loop in which bytes were written.
        """
        data = b"".join(self.out)
        self.out.clear()
        if self.closed:
            return
        try:
            self._parser.feed(data)
            self._pass_messages()
        except Exception:
            # An error must not prevent the flushing of other sessions in this loop tick.
            log.exception("what an origin sent cannot be read")
            self._parser = ClientParser(self)
            self._reader.on_broken()

    def forget(self, subscription: Subscription) -> None:
        """Do nothing. Called when a subscription reaches its message limit; these have no limit."""

    def _pass_messages(self) -> None:
        columns = self._columns
        if columns.payloads:
            self._columns = MessageColumns()
            self._reader.on_messages(columns)

    # -- the sink of the parser --------------------------------------------------------------

    def on_msg(
        self, subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        if sid == self._watched_sid:
            if headers and not payload and headers.startswith(_CONTROL):
                self._pass_messages()
                if sid == self._watched_sid:
                    self._reader.on_control(reply, headers)
                return
            self._columns.add(subject, reply, headers, payload)
        elif sid == _ANSWERS and subject == self._prefix + b"%d" % self._request_number:
            self._pass_messages()
            self._reader.on_answer(headers, payload)

    # In-process sessions receive none of the following commands.

    def on_info(self, body: bytes) -> None:
        """Ignore INFO, which the server does not send to in-process sessions."""

    def on_ping(self) -> None:
        """Ignore PING, which the server does not send to in-process sessions."""

    def on_pong(self) -> None:
        """Ignore PONG, which the server does not send to in-process sessions."""

    def on_ok(self) -> None:
        """Ignore +OK, which the server does not send to in-process sessions."""

    def on_err(self, text: bytes) -> None:
        """Ignore -ERR, which the server does not send to in-process sessions."""
