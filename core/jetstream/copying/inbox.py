"""The session with which a stream reads another: an ordinary client of the account, in process.

The server writes to it what it would write to a socket; a flush of the turn is read at once. So
an origin may be a stream of this server or whoever else answers its API prefix.
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

log = logging.getLogger("jetgate.copying")

_ANSWERS = b"1"
_CONTROL = b"NATS/1.0 100"


class Reader(Protocol):
    """Who reads."""

    def on_messages(self, columns: MessageColumns) -> None:
        """Take messages in order; `columns.replies` are their ack subjects."""
        ...

    def on_control(self, reply: bytes, headers: bytes) -> None:
        """Take a heartbeat or a flow-control request; what was sent before it was handed over."""
        ...

    def on_answer(self, headers: bytes, payload: bytes) -> None:
        """Take the answer to the last request."""
        ...

    def on_broken(self) -> None:
        """Something could not be read; what was sent is incomplete."""
        ...


class Inbox:
    """A session of the account whose output goes to a reader."""

    def __init__(self, account: Account, reader: Reader) -> None:
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
        self._asked = 0
        self._prefix = b"_INBOX.%b." % nuid().encode()
        self._answers = self._subscribe(self._prefix + b"*", _ANSWERS)
        self._watched: Subscription | None = None
        self._watched_sid = b""

    def _subscribe(self, subject: bytes, sid: bytes) -> Subscription:
        subscription = Subscription(self, subject, b"", sid)
        self._account.add(subscription)
        return subscription

    # -- what the reader asks for ------------------------------------------------------------

    def watch(self, subject: bytes) -> None:
        """Read messages sent to a subject, and no longer those of the subject before."""
        self.unwatch()
        self._sid += 1
        self._watched_sid = b"%d" % self._sid
        self._watched = self._subscribe(subject, self._watched_sid)

    def unwatch(self) -> None:
        """Read no messages; those under way are dropped."""
        watched, self._watched = self._watched, None
        self._watched_sid = b""
        self._columns = MessageColumns()
        if watched is not None:
            self._account.remove(watched)

    def ask(self, subject: bytes, headers: bytes, body: bytes) -> bool:
        """Send a request; False when nobody would take it. A later one makes it forgotten."""
        self._asked += 1
        if not self._account.has_interest(subject):
            return False
        self._account.publish(subject, self._prefix + b"%d" % self._asked, headers, body)
        return True

    def close(self) -> None:
        """End every subscription."""
        self.closed = True
        self.unwatch()
        self._account.remove(self._answers)
        self.out.clear()

    # -- the session -------------------------------------------------------------------------

    def flush(self) -> None:
        """Read what the turn has written here."""
        data = b"".join(self.out)
        self.out.clear()
        if self.closed:
            return
        try:
            self._parser.feed(data)
            self._hand_over()
        except Exception:
            # Whoever has a turn after this session must not suffer from what it cannot read.
            log.exception("what an origin sent cannot be read")
            self._parser = ClientParser(self)
            self._reader.on_broken()

    def forget(self, subscription: Subscription) -> None:
        """No subscription here has a limit."""

    def _hand_over(self) -> None:
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
                self._hand_over()
                if sid == self._watched_sid:
                    self._reader.on_control(reply, headers)
                return
            self._columns.add(subject, reply, headers, payload)
        elif sid == _ANSWERS and subject == self._prefix + b"%d" % self._asked:
            self._hand_over()
            self._reader.on_answer(headers, payload)

    def on_info(self, body: bytes) -> None:
        """Not sent to sessions in the process."""

    def on_ping(self) -> None:
        """Not sent to sessions in the process."""

    def on_pong(self) -> None:
        """Not sent to sessions in the process."""

    def on_ok(self) -> None:
        """Not sent to sessions in the process."""

    def on_err(self, text: bytes) -> None:
        """Not sent to sessions in the process."""
