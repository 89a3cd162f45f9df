"""Serving of API requests: finds the route, decodes the body, calls the handler, sends the answer.

Requests about one stream are served in order, those about different streams concurrently. Only this
module converts errors to JSON. A request whose subject has no route gets no answer at all, although
its subject has a subscription. As with nats-server, the client then times out instead of receiving
the status "no responders".
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from core.api.audit import Audit, without_client
from core.api.call import LARGE_BODY, ApiServer, Body, Call, in_thread_if
from core.api.request_routing import RequestRouting
from core.api.route_table import RouteTable
from core.api.routes import OWN_ROUTES, ROUTES, Level, Route
from core.errors import ApiError, StorageError, Unresolved
from core.jetstream.advisories import Advisories
from core.model import codec, gojson
from core.model.api_errors import api_error
from core.model.gojson import JsonError
from core.model.response import ErrorBody, Response
from core.model.versions import is_level_supported
from core.protocol import headers as header_block
from core.pubsub.account import Account, ServiceSubscription, Session
from core.pubsub.receivers import MEMBERS_GROUP
from core.runtime.tasks import spawn, stop
from core.storage.health import waits

log = logging.getLogger(__name__)

PREFIX = b"$JS.API."
OWN_PREFIX = b"$JG.API."
"""The prefix of requests that only jetgate serves; nats-server answers "no responders"."""
QUEUE_MAX = 10_000
_ELSEWHERE = tuple(
    api_error(name).err_code
    for name in ("JSStreamNotFound", "JSStreamNameExist", "JSClusterNotAvail")
)
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"

SUBJECTS = (
    "*",
    "STREAM.*",
    "STREAM.*.>",
    "META.*.>",
    "SERVER.*",
    "SERVER.*.>",
    "ACCOUNT.*.>",
    "CONSUMER.MSG.*",
    *(
        f"CONSUMER.{verb}.>"
        for verb in (
            "CREATE",
            "DURABLE",
            "NAMES",
            "LIST",
            "INFO",
            "DELETE",
            "PAUSE",
            "UNPIN",
            "RESET",
            "LEADER",
            "PEER",
        )
    ),
)
"""The subscriptions, without the prefix `$JS.API.`. An API request matches exactly one of them.

Pull requests and Direct Get match none: consumers and streams subscribe to their own subjects.
"""

API_SUBJECTS = (
    *(PREFIX + subject.encode() for subject in SUBJECTS),
    *(OWN_PREFIX + route.subject.encode() for route in OWN_ROUTES),
)
"""The full subjects of all API subscriptions, including those of `OWN_ROUTES`."""


_NOT_SERVED_HERE = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.API.DIRECT.GET.")


def is_silent(subject: bytes) -> bool:
    """Return whether a request on a subject without a subscription gets no answer at all.

    Returns False if the request gets the status "no responders" (503): outside `$JS.API.`, for pull
    requests and Direct Get, and for a subject with an empty token.
    """
    if b".." in subject or subject.endswith(b"."):
        return False
    if subject.startswith(_NOT_SERVED_HERE) or subject == b"$JS.API.DIRECT.GET":
        return False
    return subject.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request in the queue of its stream.

    Attributes:
        route: The route of the request.
        names: The names in its subject: stream, then consumer; empty if it has none.
        session: The client's session; None: another node or the server itself sent the request.
    """

    route: Route
    names: tuple[str, ...]
    session: Session | None
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes
    is_routed: bool = False
    """True if another node forwarded the request."""
    client: bytes = b""
    """JSON of the client from the node that forwarded the request, for the audit (empty: none)."""


class Dispatcher:
    """Serves the API requests of one account. Life cycle: `start`, `unlisten`, `stop`.

    Attributes:
        waiting: Number of requests in all queues.
    """

    def __init__(
        self,
        account: Account,
        server: ApiServer,
        routing: RequestRouting,
        routes: Iterable[Route] = (*ROUTES, *OWN_ROUTES),
        *,
        is_meta: bool = False,
    ) -> None:
        self._account = account
        self._routing = routing
        self._is_meta = is_meta
        self._server = server
        advisories = Advisories(account, server.clock, account.hub.server_name, server.domain)
        self._audit = Audit(account, advisories)
        self._routes = RouteTable(routes)
        self._subscriptions: list[ServiceSubscription] = []
        self._queues: dict[str, deque[QueuedRequest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._alone = 0
        self.waiting = 0

    def start(self) -> None:
        """Subscribe to API requests of clients, and receive those that other nodes forward."""
        self._subscriptions = [
            self._account.subscribe(subject, self.on_request, MEMBERS_GROUP)
            for subject in API_SUBJECTS
        ]
        for prefix in (PREFIX, OWN_PREFIX):
            self._routing.listen(prefix, self._on_routed)
        self._account.is_silent = is_silent

    def unlisten(self) -> None:
        """Receive no more requests; queued ones are still served."""
        self._account.is_silent = None
        for subscription in self._subscriptions:
            self._account.unsubscribe(subscription)
        self._subscriptions.clear()
        for prefix in (PREFIX, OWN_PREFIX):
            self._routing.unlisten(prefix)

    async def stop(self) -> None:
        """Receive no more requests, and drop the queued ones."""
        self.unlisten()
        await stop(*self._tasks)
        self._queues.clear()
        self.waiting = 0

    # -- gathering ---------------------------------------------------------------------------

    def on_request(
        self,
        session: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Queue a request, or forward it to the node that serves it. Ignored if it has no route."""
        found = self.find(subject)
        if found is None:
            return
        link = self._routing.serving_node(found[1], is_meta=self._is_meta)
        if link is not None:
            headers = self._audit.introduce(session, headers)
            self._routing.send(link, subject, reply, headers, payload)
            return
        self._enqueue(QueuedRequest(*found, session, subject, reply, headers, payload))

    def _on_routed(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        found = self.find(subject)
        if found is not None:
            headers, client = without_client(headers)
            request = QueuedRequest(
                *found, None, subject, reply, headers, payload, is_routed=True, client=client
            )
            self._enqueue(request)

    def _enqueue(self, waiting: QueuedRequest) -> None:
        if self.waiting + self._alone >= QUEUE_MAX:
            self._drop_all()
            return
        if waiting.route.may_wait:
            self._spawn(self._serve_alone(waiting), "")
            return
        self.waiting += 1
        key = waiting.names[0] if waiting.names else ""
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(waiting)
            return
        self._queues[key] = deque((waiting,))
        self._spawn(self._drain(key), key)

    def _spawn(self, work: Coroutine[Any, Any, None], key: str) -> None:
        task = spawn(work, name=f"api {key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _drop_all(self) -> None:
        """Drop all queued requests and the newest, as nats-server does above 10,000 requests."""
        dropped = self.waiting + 1
        for queue in self._queues.values():
            queue.clear()
        self.waiting = 0
        self._server.counters.dropped += dropped
        self._audit.dropped(dropped)

    def find(self, subject: bytes) -> tuple[Route, tuple[str, ...]] | None:
        """Return the route of a full subject, and the names in it; None if there is no route."""
        return self._routes.find(subject)

    # -- serving -----------------------------------------------------------------------------

    async def _drain(self, key: str) -> None:
        queue = self._queues[key]
        try:
            while queue:
                waiting = queue.popleft()
                self.waiting -= 1
                response = await self._serve(waiting)
                if response is not None:
                    self._answer(waiting, response)
        finally:
            self.waiting -= len(queue)
            del self._queues[key]

    async def _serve_alone(self, waiting: QueuedRequest) -> None:
        """Serve a request at once, concurrently with the queue of its stream."""
        self._alone += 1
        try:
            response = await self._serve(waiting)
            if response is not None:
                self._answer(waiting, response)
        finally:
            self._alone -= 1

    async def _serve(self, waiting: QueuedRequest) -> Response | None:
        """Call the handler; convert any exception to an error response.

        Returns None if there is no answer.
        """
        route = waiting.route
        if not await self._server.trust.wait_open():
            return route.response(error=ErrorBody.of(api_error("JSClusterNotAvail")))
        if route.exists is not None and not route.exists(self._server, waiting.names):
            return None
        try:
            if route.before is not None:
                route.before(self._server, waiting.names)
            is_large = len(waiting.payload) > LARGE_BODY
            request = await in_thread_if(is_large, _request, waiting, self._server.strict)
            call: Call[Any] = Call(waiting.names, request, waiting.headers)
            return await route.handler(self._server, call)
        except Unresolved:
            return None
        except ApiError as error:
            return await self._refused(waiting, error)
        except StorageError as error:
            waits.warning("%s is not served: %s", route.subject, error)
            return route.response(error=ErrorBody.of(api_error("JSClusterNotAvail")))
        except Exception:
            log.exception("%s failed", route.subject)
            unexpected = api_error("JSStreamGeneral", err="internal error")
            return route.response(error=ErrorBody.of(unexpected))

    async def _refused(self, waiting: QueuedRequest, error: ApiError) -> Response | None:
        """Return the error response, or forward the request to the stream's leader and return None.

        If this node does not know the stream, it first reads the stream directory from storage
        again. Only a request received from a client is forwarded.
        """
        names, route = waiting.names, waiting.route
        if names and error.err_code in _ELSEWHERE:
            is_elsewhere = await self._server.registry.is_elsewhere(names[0])
            link = self._routing.serving_node(names, is_meta=False) if is_elsewhere else None
            if link is not None and not waiting.is_routed:
                headers = self._audit.introduce(waiting.session, waiting.headers)
                self._routing.send(link, waiting.subject, waiting.reply, headers, waiting.payload)
                return None
            if is_elsewhere:
                error = api_error("JSClusterNotAvail")
        return route.response(error=ErrorBody.of(error))

    def _answer(self, waiting: QueuedRequest, response: Response) -> None:
        counters = self._server.counters
        if response.error is not None:
            counters.errors += 1
        if response.error is not None or waiting.route.is_counted:
            counters.total += 1
        audited = self._audit.has_interest()
        if not (waiting.reply or audited):
            return
        answer = codec.encode(response)
        if waiting.reply:
            self._account.publish(waiting.reply, b"", response.headers(), answer)
        if audited:
            self._audit.record(
                waiting.session, waiting.client, waiting.subject, waiting.payload, answer
            )


def _request(waiting: QueuedRequest, strict: bool) -> msgspec.Struct:
    route = waiting.route
    if route.level is Level.BEFORE_BODY:
        _check_level(waiting.headers)
    request = _decode(route, waiting.payload, strict)
    if route.level is Level.AFTER_BODY:
        _check_level(waiting.headers)
    return request


def _check_level(headers: bytes) -> None:
    level = header_block.find(headers, _REQUIRED_LEVEL) if headers else None
    if level and not is_level_supported(level):
        raise api_error("JSRequiredApiLevel")


def _decode(route: Route, payload: bytes, strict: bool) -> msgspec.Struct:
    match route.body:
        case Body.IGNORED:
            return route.request()
        case Body.OPTIONAL:
            if payload.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
                return route.request()
        case Body.EMPTY:
            if not is_empty(payload):
                raise api_error("JSNotEmptyRequest")
            return route.request()
        case Body.LENIENT:
            return _decode_lenient(route, payload) if payload else route.request()
        case Body.NEEDED:
            if is_empty(payload):
                raise api_error("JSBadRequest")
    try:
        return codec.decode(route.request, payload)
    except ApiError:
        if strict:
            raise
        return _decode_lenient(route, payload)


def _decode_lenient(route: Route, payload: bytes) -> msgspec.Struct:
    try:
        return codec.decode_older(route.request, payload)
    except JsonError as error:
        raise api_error("JSInvalidJSON", err=str(error)) from None


def is_empty(payload: bytes) -> bool:
    """Return whether a body is empty, or is one JSON object without members."""
    if not payload:
        return True
    if len(payload) > 1024 and payload.strip(b" \t\r\n{}"):
        return False
    try:
        nodes = list(gojson.parse_all(payload))
    except gojson.JsonError:
        return False
    return len(nodes) == 1 and nodes[0].kind == "object" and not nodes[0].members
