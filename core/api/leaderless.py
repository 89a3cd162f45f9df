"""What a node answers for streams whose leader it cannot reach: JetStream is not available (10008).

Without this a publisher would be told that nobody listens, which means to him that there is no such
stream. The streams are those of the directory as this node knows it (`core.cluster.directory`).
Requests of consumers for messages have no responders then, as in the reference without a leader: to
their clients an answer is a message. So has Direct Get, but for what storage answers
(`core.jetstream.direct.stored_get`). Other requests it answers only while there is no term, which
does it else (`core.api.dispatcher`).

Only requests are answered, and only those of clients of this node.
"""

from collections.abc import Collection

from core.api.dispatcher import API_SUBJECTS
from core.api.held import UNREFUSED, HeldSubjects
from core.api.route_table import RouteTable
from core.api.routes import OWN_ROUTES, ROUTES
from core.cluster.directory import StreamDirectory
from core.jetstream.direct.stored_get import StoredGet
from core.model import codec
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.pubsub.account import Account, ServiceSubscription
from core.pubsub.route import ServiceCall, Session
from core.runtime.subscribers import Subscribers
from core.stream.texts import json_text, refusal


class Leaderless:
    """Life cycle: `answer` for changing groups, `close`.

    Args:
        account: whose requests are answered.
        directory: the streams that there are.
        stored_get: answers Direct Get from storage; None: nobody does.

    Attributes:
        learned: called when the streams are known, or others than before.
    """

    def __init__(
        self, account: Account, directory: StreamDirectory, stored_get: StoredGet | None = None
    ) -> None:
        self.learned: Subscribers[[]] = Subscribers()
        self._account = account
        self._directory = directory
        self._stored_get = stored_get
        directory.changed.subscribe(self._learn)
        self._groups: frozenset[int] = frozenset()
        self._answers_requests = False
        self._held: tuple[tuple[frozenset[int], int], HeldSubjects] | None = None
        self._table = RouteTable((*ROUTES, *OWN_ROUTES))
        self._subscriptions: list[ServiceSubscription] = []

    @property
    def is_known(self) -> bool:
        """Whether the streams are known."""
        return self._directory.is_known

    def groups(self) -> Collection[int]:
        """Return the lease groups that have streams, as far as that is known."""
        return self._directory.groups()

    def answer(self, groups: Collection[int], *, requests: bool) -> None:
        """Answer for the streams of these groups from now on, and for no others.

        `requests`: whether those of the API are answered too.
        """
        before = self._groups, self._answers_requests
        self._groups, self._answers_requests = frozenset(groups), requests
        if before != (self._groups, requests):
            self._subscribe()
        if self._stored_get is None:
            return
        if self._groups or self._stored_get.has_standby:
            self._stored_get.listen()
        else:
            self._stored_get.unlisten()

    def held(self, groups: Collection[int], refusable: Collection[int]) -> HeldSubjects:
        """Return which publishes have to wait for the streams of these groups.

        `refusable`: those of them for which `answer` was called, and of which too much may be kept.
        It is the same object while nothing changes for any publish.
        """
        key, refused = (frozenset(groups), self._directory.version), frozenset(refusable)
        held = None if self._held is None or self._held[0] != key else self._held[1]
        if held is None or (held.full and held.refusable != refused):
            streams = self._directory.of(self._account.name).values()
            held = HeldSubjects(
                ((each.config, each.lease_group) for each in streams if each.lease_group in key[0]),
                (each.name for each in streams if each.lease_group not in key[0]),
            )
        held.refusable = refused
        self._held = key, held
        return held

    async def close(self) -> None:
        """Answer nothing any more."""
        self.answer((), requests=False)
        if self._stored_get is not None:
            await self._stored_get.close()

    def _learn(self, _changes: object) -> None:
        """Answer for other streams than before, or for the first ones."""
        if self._groups:
            self._subscribe()
        self.learned()

    def _subscribe(self) -> None:
        gone, self._subscriptions = self._subscriptions, []
        for subscription in gone:
            self._account.unsubscribe(subscription)
        if self._answers_requests:
            self._subscriptions += (
                self._account.subscribe(subject, self._refuse_request, here=True)
                for subject in API_SUBJECTS
            )
        for stream in self._directory.of(self._account.name).values():
            if stream.lease_group in self._groups and not stream.config.no_ack:
                call = self._refuser(stream.name)
                self._subscriptions += (
                    self._account.subscribe(each.encode(), call, here=True)
                    for each in stream.config.subjects
                )

    def _refuse_request(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        found = self._table.find(subject) if reply and session is not None else None
        if found is not None:
            response = found[0].response(error=ErrorBody.of(api_error("JSClusterNotAvail")))
            self._account.publish(reply, b"", response.headers(), codec.encode(response))

    def _refuser(self, name: str) -> ServiceCall:
        body = refusal(api_error("JSClusterNotAvail"), json_text(name))

        def refuse(
            session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            if reply and session is not None and not subject.startswith(UNREFUSED):
                self._account.publish(reply, b"", b"", body)

        return refuse
