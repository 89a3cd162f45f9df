"""What a node answers while it can reach no leader: that JetStream is not available (10008).

Without this a publisher would be told that nobody listens, which means to him that there is no such
stream. The streams are those of the catalogue as this node knows it (`core.cluster.catalogue`).
Requests of consumers for messages have no responders then, as in the reference without a leader: to
their clients an answer is a message. So has Direct Get, but for what storage answers
(`core.jetstream.direct.stored_get`).

Only requests are answered, and only those of clients of this node. Others reach it over a link, by
mistake, just after it has led: then those too.
"""

from collections.abc import Callable

from core.api.dispatcher import API_SUBJECTS
from core.api.route_table import RouteTable
from core.api.routes import OWN_ROUTES, ROUTES
from core.cluster.catalogue import Catalogue
from core.jetstream.direct.stored_get import StoredGet
from core.model import codec
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.pubsub.account import Account, ServiceSubscription
from core.pubsub.route import ServiceCall, Session
from core.stream.texts import json_text, refusal

_PREFIX = b"$J"


class Leaderless:
    """Life cycle: `start` and `stop` in turns, `close`.

    Args:
        account: whose requests are answered.
        catalogue: the streams that there are.
        stored_get: answers Direct Get from storage; None: nobody does.

    Attributes:
        has_led: whether this node was the last leader that it knows of.
        on_learned: called when the streams are known, or others than before.
    """

    def __init__(
        self, account: Account, catalogue: Catalogue, stored_get: StoredGet | None = None
    ) -> None:
        self.has_led = False
        self.on_learned: Callable[[], None] = lambda: None
        self._account = account
        self._catalogue = catalogue
        self._stored_get = stored_get
        catalogue.on_change.append(self._learn)
        self._table = RouteTable((*ROUTES, *OWN_ROUTES))
        self._is_started = False
        self._subscriptions: list[ServiceSubscription] = []

    @property
    def is_known(self) -> bool:
        """Whether the streams are known."""
        return self._catalogue.is_known

    def start(self) -> None:
        """Answer requests from now on."""
        if not self._is_started:
            self._is_started = True
            if self._stored_get is not None:
                self._stored_get.listen()
            self._subscribe()

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
        if self._stored_get is not None:
            await self._stored_get.close()

    def _learn(self) -> None:
        """Answer for other streams than before, or for the first ones."""
        if self._is_started:
            self._unsubscribe()
            self._subscribe()
        self.on_learned()

    def _subscribe(self) -> None:
        def listen(subject: bytes, call: ServiceCall) -> None:
            self._subscriptions.append(self._account.subscribe(subject, call, here=True))

        for subject in API_SUBJECTS:
            listen(subject, self._refuse_request)
        for stream in self._catalogue.of(self._account.name).values():
            if not stream.config.no_ack:
                call = self._refuser(stream.name)
                for each in stream.config.subjects:
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
