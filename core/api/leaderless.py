"""Error answers for streams whose leader this node cannot reach: JSClusterNotAvail (10008).

Without them a publisher would receive "no responders", which means that no such stream exists. The
streams are those of this node's copy of the stream directory (`core.cluster.directory`). Pull
requests get "no responders", as from nats-server without a leader: a client would take any answer
for a message. Direct Get gets "no responders" too, unless storage can answer it
(`core.jetstream.direct.stored_get`). Other API requests are answered here only while this node has
no JetStream runtime; otherwise `core.api.dispatcher` answers them.

Only clients of this node get these answers, and only for messages with a reply subject.
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
from core.pubsub.receivers import ServiceCall, Session
from core.rules.stream.texts import json_text, refusal
from core.runtime.subscribers import Subscribers
from core.units import LeaseGroup


class Leaderless:
    """Answers publishes and API requests for streams without a reachable leader by an error.

    The error is JSClusterNotAvail (10008). Life cycle: `answer` whenever the set of lease groups
    without a leader changes, then `close`. A lease group is a set of streams with one leader.

    Args:
        account: The account of the requesters.
        directory: The streams of all nodes.
        stored_get: Answers Direct Get from storage; None: Direct Get gets "no responders".

    Attributes:
        learned: Called when the directory is loaded or has changed.
    """

    def __init__(
        self, account: Account, directory: StreamDirectory, stored_get: StoredGet | None = None
    ) -> None:
        self.learned: Subscribers[[]] = Subscribers()
        self._account = account
        self._directory = directory
        self._stored_get = stored_get
        directory.changed.subscribe(self._learn)
        self._groups: frozenset[LeaseGroup] = frozenset()
        self._answers_requests = False
        self._held: tuple[tuple[frozenset[LeaseGroup], int], HeldSubjects] | None = None
        self._table = RouteTable((*ROUTES, *OWN_ROUTES))
        self._subscriptions: list[ServiceSubscription] = []

    @property
    def is_known(self) -> bool:
        """True once the stream directory (the list of all streams) is loaded."""
        return self._directory.is_known

    def groups(self) -> Collection[LeaseGroup]:
        """Return the lease groups that contain at least one stream."""
        return self._directory.groups()

    def answer(self, groups: Collection[LeaseGroup], *, requests: bool) -> None:
        """Refuse publishes to the streams of these lease groups, and of no others, from now on.

        `requests`: also refuse API requests. Empty `groups` and False end all subscriptions.
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

    def held(
        self, groups: Collection[LeaseGroup], refusable: Collection[LeaseGroup]
    ) -> HeldSubjects:
        """Return the rule that decides which publishes wait for a leader of these groups' streams.

        `refusable`: groups whose streams may refuse publishes when too many bytes are held. Returns
        the same object, with its counts, as long as groups and streams stay the same.
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
        """End all subscriptions, and stop answering Direct Get."""
        self.answer((), requests=False)
        if self._stored_get is not None:
            await self._stored_get.close()

    def _learn(self, _changes: object) -> None:
        """Subscribe again to the streams' subjects, after a change of the stream directory."""
        if self._groups:
            self._subscribe()
        self.learned()

    def _subscribe(self) -> None:
        gone, self._subscriptions = self._subscriptions, []
        for subscription in gone:
            self._account.unsubscribe(subscription)
        if self._answers_requests:
            self._subscriptions += (
                self._account.subscribe(subject, self._refuse_request, local_only=True)
                for subject in API_SUBJECTS
            )
        for stream in self._directory.of(self._account.name).values():
            if stream.lease_group in self._groups and not stream.config.no_ack:
                call = self._refuser(stream.name)
                self._subscriptions += (
                    self._account.subscribe(each.encode(), call, local_only=True)
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
