"""The services that answer API requests about one account's streams, from clients and peers.

They are independent of the code that acquires lease groups. A request that another node has to
answer is forwarded (`core.api.request_routing`), or sent to all nodes (`core.api.node_queries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.api.call import ApiServer
from core.api.dead_letter_sender import DeadLetterSender
from core.api.dispatcher import Dispatcher
from core.api.domain import serve_domain
from core.api.node_queries import NodeQueries
from core.api.peer_requests import PeerRequests
from core.api.request_routing import GroupOwners, RequestRouting
from core.api.routes import CLUSTER_ROUTES, META_ROUTES, OWN_ROUTES, ROUTES
from core.jetstream.dead_letters.local_streams import LocalDeadLetterStreams
from core.jetstream.dead_letters.storing import DeadLetters

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.jetstream.registry import Registry
    from core.jetstream.transactions.transactions import Transactions
    from core.model.account import ServerLimits
    from core.pubsub.account import Account, ServiceSubscription

_RECONNECTED = b"RECONNECTED"


class Serving:
    """The API services of one JetStream runtime.

    Life cycle: `start`, `unlisten`, `stop`, then `peer_requests.stop`.

    Args:
        registry: The streams of the account that this node leads; its `services.dead_letters` is
            set.
        transactions: The transactions of these streams.
        leaders: The owners of lease groups.
        system: The account in which requests about the cluster are served; None: no such requests.
        limits: Returns the server's own limits.
        strict: True if a request with an unknown JSON member is refused.

    Attributes:
        peer_requests: Requests between nodes; answered until peers no longer send requests here.
        dead_letters: Stores dead letters (messages that consumers could not deliver).
        counters: Counts of API requests.
    """

    def __init__(
        self,
        registry: Registry,
        transactions: Transactions,
        leaders: GroupOwners,
        system: Account | None,
        *,
        limits: Callable[[], ServerLimits],
        strict: bool,
    ) -> None:
        services, account = registry.services, registry.account
        directory = services.directory
        routing = RequestRouting(account, directory, leaders)
        self._registry = registry
        self.peer_requests = PeerRequests(routing)
        self.peer_requests.handle(_RECONNECTED, self._on_reconnected)
        local = LocalDeadLetterStreams(registry.streams, registry.exists)
        self.dead_letters = services.dead_letters = DeadLetters(local)
        self.dead_letters.peers = DeadLetterSender(self.peer_requests, routing, local)
        served = ApiServer(
            registry,
            services.clock,
            transactions,
            NodeQueries(self.peer_requests, registry, routing),
            domain=services.domain,
            strict=strict,
            own=limits,
            trust=services.trust,
        )
        self.counters = served.counters
        if services.cluster is None:
            self._dispatchers = [Dispatcher(account, served, routing)]
        else:
            routes = (*CLUSTER_ROUTES, *ROUTES, *OWN_ROUTES)
            self._dispatchers = [Dispatcher(account, served, routing, routes)]
            if system is not None:
                routing = RequestRouting(system, directory, leaders)
                meta = Dispatcher(system, served, routing, META_ROUTES, is_meta=True)
                self._dispatchers.append(meta)
        self._domain: ServiceSubscription | None = None

    def start(self) -> None:
        """Begin to answer API requests of clients and of other nodes."""
        self.peer_requests.start()
        for dispatcher in self._dispatchers:
            dispatcher.start()
        account, services = self._registry.account, self._registry.services
        self._domain = serve_domain(account, services.domain)

    def unlisten(self) -> None:
        """Receive no more API requests; may be called without `start`."""
        if self._domain is not None:
            self._registry.account.unsubscribe(self._domain)
            self._domain = None
        for dispatcher in self._dispatchers:
            dispatcher.unlisten()

    async def stop(self) -> None:
        """Stop answering API requests and storing dead letters; may be called without `start`."""
        self.unlisten()
        await self.dead_letters.stop()
        for dispatcher in self._dispatchers:
            await dispatcher.stop()

    def reconnected(self, api: str) -> None:
        """Notify mirrors and sources on all nodes that a remote system is reachable again.

        `api` is the API prefix of the remote system.
        """
        self._registry.reconnected(api)
        self.peer_requests.broadcast(_RECONNECTED, api.encode())

    async def _on_reconnected(self, api: bytes) -> bytes:
        self._registry.reconnected(api.decode())
        return b""
