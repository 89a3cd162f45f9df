"""The ASGI application of the HTTP server: authentication, dispatch, and error responses.

Each HTTP request is matched with the route table (`gateway.routes`). Each error of a handler
becomes a problem response (RFC 9457).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from core.client import Client, ClientError, JetStream
from core.protocol.hosts import ANY
from core.runtime.clock import Clock, SystemClock
from core.units import NANOS_PER_SECOND
from gateway.auth.authenticator import AuthenticatedCaller, Authenticator
from gateway.auth.caller import Caller
from gateway.auth.cors import Cors
from gateway.auth.credentials import for_scripts, unauthorized
from gateway.auth.forwarding import Forwarding, network_of
from gateway.auth.hosts import Hosts
from gateway.auth.principals import Login
from gateway.auth.revocable_receive import RevocableReceive
from gateway.auth.rights import RightsOf
from gateway.contract.parameters import EXPOSED
from gateway.contract.reference import Reference
from gateway.formats.ack_tokens import AckTokens
from gateway.http.disconnects import Disconnected
from gateway.http.head_limits import check_head
from gateway.http.problems import Problem, no_inbox, problem_of, respond
from gateway.monitoring.events import OperatorEvent, ReportEvent, RequestDone, RequestFailed
from gateway.monitoring.metrics import Metrics
from gateway.readers.shared import Feeds
from gateway.requests.call import Call, read_query
from gateway.requests.operation import Operation
from gateway.requests.route_table import Params, Table
from gateway.requests.write_headers import WriteHeaders
from gateway.routes import ROUTES
from gateway.services import Gateway
from gateway.settings import Settings
from gateway.ws.endpoint import WebSocketEndpoint

_WRITE_HEADERS = {row.id: WriteHeaders.of(row) for row in ROUTES}
_WITHOUT_REPLIES = frozenset(
    (
        "createSession",
        "createTicket",
        "endSession",
        "followAdvisories",
        "listProblems",
        "metrics",
        "openWebSocket",
        "readAsyncApi",
        "readDocs",
        "readOpenApi",
        "readProblem",
        "readSession",
        "tailStream",
        "tailSubject",
    )
)
"""Operations that need no reply from the NATS server to an inbox of the caller.

All other operations are refused to callers without permission to subscribe to an inbox.
"""


def create_app(
    settings: Settings,
    client: Client,
    *,
    login: Login | None = None,
    rights: RightsOf | None = None,
    server: Client | None = None,
    report_event: ReportEvent | None = None,
    metrics: Metrics | None = None,
    trouble: Callable[[], str] = lambda: "",
    clock: Clock | None = None,
) -> "Facade":
    """Build the ASGI application over a connected NATS client.

    Args:
        settings: Limits, timeouts and the key of ack tokens.
        client: A connected client; the caller closes it after the server has stopped.
        login: Opens a NATS connection for given credentials. If set, every operation except the
            open ones (`Operation.is_open`) needs credentials, `client` need not be connected, and
            the caller closes `Facade.authenticator`. None: the server has no users.
        rights: Returns the permissions of a NATS connection; None: they cannot be read in advance.
        server: A connection with all permissions. /readyz and feeds of callers that `rights`
            permits use it. If it is None and `login` is set, /readyz always reports not ready.
        report_event: Called with each finished request and each internal error.
        metrics: The metrics that /metrics serves, and that count requests; None: metrics of
            requests only.
        trouble: Returns the reason why no message can be stored now, for /readyz; empty: storage
            works. With `login` the reason is not shown, because /readyz needs no credentials and
            the reason may name roles and databases.
        clock: The clock of sessions, rate limits and times in JetStream requests; None: the
            system's clock.
    """
    metrics = metrics or Metrics()
    clock = clock or SystemClock()
    if login is not None:
        trouble = _hide_reason(trouble)
    js = JetStream(client, timeout=settings.api_timeout)
    gateway = Gateway(
        settings=settings,
        client=client,
        js=js,
        feeds=_feeds(client, settings),
        publisher=JetStream(client, timeout=settings.publish_timeout),
        tokens=AckTokens(settings.ack_key),
        metrics=metrics,
        report_event=_both(metrics.record, report_event),
        reference=Reference(),
        clock=clock,
        trouble=trouble,
        server=None if server is None else _feeds(server, settings),
    )

    def serve(client: Client) -> Gateway:
        js = JetStream(client, timeout=settings.api_timeout)
        publisher = JetStream(client, timeout=settings.publish_timeout)
        feeds = _feeds(client, settings)
        return replace(gateway, client=client, js=js, publisher=publisher, feeds=feeds)

    authenticator = Authenticator(gateway, clock, login=login, make=serve, rights=rights)
    requests = RequestDispatcher(authenticator, Table(ROUTES), clock, gateway)
    sockets = WebSocketEndpoint(gateway, authenticator)
    return Facade(authenticator, requests, sockets, _middleware(settings))


def _both(first: ReportEvent, second: ReportEvent | None) -> ReportEvent:
    """Return a function that passes each event to both functions; the first alone if there is no
    second.
    """
    if second is None:
        return first

    def report(event: OperatorEvent) -> None:
        first(event)
        second(event)

    return report


def _hide_reason(why: Callable[[], str]) -> Callable[[], str]:
    """Return a function that replaces a non-empty reason by a general text, and leaves an empty
    one.
    """
    return lambda: "the log of this node says why" if why() else ""


def _feeds(client: Client, settings: Settings) -> Feeds:
    js = JetStream(client, timeout=settings.api_timeout)
    return Feeds(js, settings.tail_messages_max, settings.tail_bytes_max)


class Facade:
    """The ASGI application: passes HTTP requests and WebSockets through the configured middleware.

    Attributes:
        authenticator: Determines the caller of each request; close it after the server has stopped.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        requests: "RequestDispatcher",
        sockets: WebSocketEndpoint,
        middleware: Sequence[Callable[[ASGIApp], ASGIApp]],
    ) -> None:
        """Wrap the two endpoints into the middleware; the first middleware is the outermost."""
        self.authenticator = authenticator

        def dispatch(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            if scope["type"] != "websocket":
                return requests.handle(scope, receive, send)
            return sockets.handle(scope, receive, send)

        app: ASGIApp = dispatch
        for wrap in reversed(middleware):
            app = wrap(app)
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or one WebSocket connection."""
        await self._app(scope, receive, send)


def _middleware(settings: Settings) -> list[Callable[[ASGIApp], ASGIApp]]:
    """Return the middleware that the settings require, outermost first."""
    found: list[Callable[[ASGIApp], ASGIApp]] = []
    if settings.trusted_proxies:  # first: the proxy may report a different Host
        networks = tuple(map(network_of, settings.trusted_proxies))
        found.append(partial(Forwarding, proxies=networks))
    if settings.hosts and ANY not in settings.hosts:
        found.append(partial(Hosts, names=settings.hosts))
    if settings.cors_origins:
        found.append(partial(Cors, origins=settings.cors_origins, exposed=EXPOSED))
    return found


class RequestDispatcher:
    """Dispatches HTTP requests to the handlers of the route table; turns errors into responses."""

    def __init__(
        self, authenticator: Authenticator, table: Table, clock: Clock, gateway: Gateway
    ) -> None:
        self._authenticator = authenticator
        self._table = table
        self._clock = clock
        self._gateway = gateway
        self._open = Caller(gateway, authenticator.auth)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request. Raises RuntimeError if the ASGI scope is not of type `http`.

        A client that disconnects gets no response. Other errors become problem responses.
        """
        if scope["type"] != "http":
            raise RuntimeError(f"nothing serves {scope['type']} here")
        begin = self._clock.monotonic()
        answer = Answer()
        try:
            await self._answer(answer, scope, receive)
            response = answer.response
            if response is None:
                return
            seconds = (self._clock.monotonic() - begin) / NANOS_PER_SECOND
            done = RequestDone(answer.operation, scope["method"], response.status_code, seconds)
            self._gateway.report_event(done)
            if answer.caller is not None and answer.caller.quota is not None:
                response.raw_headers.extend(_quota_lines(answer.caller))
            await response(scope, receive, send)
        except (Disconnected, ClientError, Problem):
            pass  # too late for another response
        finally:
            if answer.caller is not None:
                self._authenticator.release(answer.caller)

    async def _answer(self, answer: "Answer", scope: Scope, receive: Receive) -> None:
        try:
            operation, params, allow = self._found(scope)
            if operation is None:
                answer.operation = "options"
                answer.response = Response(None, 204, headers={"Allow": allow})
                return
            answer.operation = operation.id
            caller: Caller = self._open
            if not operation.is_open:
                caller = answer.caller = await self._authenticator.authenticate(scope)
                if not caller.can_receive_replies and operation.id not in _WITHOUT_REPLIES:
                    raise no_inbox()
                if caller.revocations:
                    receive = RevocableReceive(receive, caller)
                _WRITE_HEADERS[operation.id].check(scope["headers"])
            query = read_query(scope["query_string"], operation.query)
            answer.response = await operation.handler(Call(caller, scope, receive, params, query))
        except Disconnected:
            if answer.caller is not None and (ended := answer.caller.revocation_reason) is not None:
                problem = unauthorized(str(ended), "session-ended", offers_basic=False)
                answer.response = respond(problem, scope["raw_path"].decode("latin-1"))
        except Exception as error:
            self._refuse(answer, scope, error)

    def _refuse(self, answer: "Answer", scope: Scope, error: Exception) -> None:
        """Set the response for an error, and report an internal error (status 500).

        A traceback refers to its frames. If a frame kept the error, both would form a reference
        cycle.
        """
        problem = for_scripts(problem_of(error), scope["headers"])
        if problem.status == 500:
            self._gateway.report_event(RequestFailed(answer.operation, error))
        answer.response = respond(problem, scope["raw_path"].decode("latin-1"))

    def _found(self, scope: Scope) -> tuple[Operation | None, Params, str]:
        """Return the operation for a request, its path parameters and `Allow`, as `Table.find`
        does.

        Raises Problem if the request exceeds a limit of the head, or no route matches.
        """
        try:
            target = len(scope["raw_path"]) + len(scope["query_string"])
            version = scope.get("http_version", "")
            check_head(self._gateway.settings, target, scope["headers"], version)
            return self._table.find(scope["method"], scope["raw_path"])
        except Problem as problem:
            raise self._authenticator.count_refusal(problem, scope) from None


@dataclass(slots=True)
class Answer:
    """The state of one HTTP request between authentication and response.

    Attributes:
        operation: Operation id, the label of metrics; "none" before a route matches.
        caller: The authenticated caller; None for open operations.
        response: The response; None if the client has disconnected.
    """

    operation: str = "none"
    caller: AuthenticatedCaller | None = None
    response: Response | None = None


def _quota_lines(caller: Caller) -> list[tuple[bytes, bytes]]:
    """Return the response headers with the caller's remaining requests (`RateLimit`)."""
    rate_limits, quota = caller.auth.rate_limits, caller.quota
    assert rate_limits is not None
    assert quota is not None
    return [(k.lower().encode(), v.encode()) for k, v in rate_limits.headers(quota).items()]
