"""What a node answers while it can reach no leader: that JetStream is not available (10008).

Without this a publisher would be told that nobody listens, which means to him that there is no such
stream. The streams are those that storage knew last; they are read when a leader is lost, and what
was known before is kept if that fails. Requests of consumers for messages have no responders then,
as in the reference without a leader: to their clients an answer is a message. So has Direct Get,
but for what storage answers (`core.jetstream.direct.stored_get`).

Only requests are answered, and only those of clients of this node. Others reach it over a link, by
mistake, just after it has led: then those too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from core.api.dispatcher import API_SUBJECTS
from core.api.route_table import RouteTable
from core.api.routes import OWN_ROUTES, ROUTES
from core.errors import StorageError
from core.jetstream.direct.stored_get import StoredGet
from core.model import codec
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.pubsub.account import Account, ServiceSubscription
from core.pubsub.route import ServiceCall, Session
from core.runtime.tasks import spawn, stop
from core.storage.interface import StreamSubjects
from core.stream.texts import json_text, refusal

log = logging.getLogger("jetgate.api")

Read = Callable[[], Awaitable[Sequence[StreamSubjects]]]
_PREFIX = b"$J"


class Leaderless:
    """Life cycle: `learn`, then `start` and `stop` in turns, `close`.

    Args:
        account: whose requests are answered.
        read: returns the streams that there are. Raises Unavailable.
        stored_get: answers Direct Get from storage; None: nobody does.

    Attributes:
        has_led: whether this node was the last leader that it knows of.
        on_learned: called when the streams were read.
    """

    def __init__(self, account: Account, read: Read, stored_get: StoredGet | None = None) -> None:
        self.has_led = False
        self.on_learned: Callable[[], None] = lambda: None
        self._account = account
        self._read = read
        self._stored_get = stored_get
        self._streams: Sequence[StreamSubjects] | None = None
        self._table = RouteTable((*ROUTES, *OWN_ROUTES))
        self._is_started = False
        self._subscriptions: list[ServiceSubscription] = []
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_known(self) -> bool:
        """Whether the streams were read once."""
        return self._streams is not None

    def start(self) -> None:
        """Answer requests from now on."""
        if self._is_started:
            return
        self._is_started = True
        if self._stored_get is not None:
            self._stored_get.listen()
        self._subscribe()
        if self._reading is None or self._reading.done():
            self._reading = spawn(self.learn(), name="streams without a leader")

    def stop(self) -> None:
        """Answer nothing: somebody leads. Another node may leave Direct Get to a standby."""
        if self._is_started:
            self._is_started = False
            self._unsubscribe()
        if self._stored_get is not None:
            if self._stored_get.has_standby and not self.has_led:
                self._stored_get.listen()
            else:
                self._stored_get.unlisten()

    async def close(self) -> None:
        """Answer nothing any more."""
        self.stop()
        await stop(self._reading)
        if self._stored_get is not None:
            await self._stored_get.close()

    async def learn(self) -> None:
        """Read which streams there are; keep what is known if that fails."""
        try:
            self._streams = await self._read()
        except StorageError as error:
            log.debug("the streams cannot be read: %s", error)
            return
        if self._is_started:
            self._unsubscribe()
            self._subscribe()
        self.on_learned()

    def _subscribe(self) -> None:
        def listen(subject: bytes, call: ServiceCall) -> None:
            self._subscriptions.append(self._account.subscribe(subject, call, here=True))

        for subject in API_SUBJECTS:
            listen(subject, self._refuse_request)
        for stream in self._streams or ():
            if stream.account == self._account.name and not stream.no_ack:
                call = self._refuser(stream.name)
                for each in stream.subjects:
                    listen(each.encode(), call)

    def _unsubscribe(self) -> None:
        gone, self._subscriptions = self._subscriptions, []
        for subscription in gone:
            self._account.unsubscribe(subscription)

    def _refuse_request(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        found = self._table.find(subject) if self._is_for_us(session, reply) else None
        if found is not None:
            response = found[0].response(error=ErrorBody.of(api_error("JSClusterNotAvail")))
            self._account.publish(reply, b"", response.headers(), codec.encode(response))

    def _refuser(self, name: str) -> ServiceCall:
        body = refusal(api_error("JSClusterNotAvail"), json_text(name))

        def refuse(
            session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            if self._is_for_us(session, reply) and not subject.startswith(_PREFIX):
                self._account.publish(reply, b"", b"", body)

        return refuse

    def _is_for_us(self, session: Session | None, reply: bytes) -> bool:
        return bool(reply) and (session is not None or self.has_led)
