"""The ASGI application: every request through one table, every error through one translator."""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from core.client import Client, ClientError, JetStream
from core.runtime.clock import Clock, SystemClock
from gateway.call import Call, Disconnected, Gateway, read_query
from gateway.identities import Identities, Login
from gateway.metrics import Metrics, Snapshot
from gateway.observations import Observation, Observe, RequestDone, RequestFailed
from gateway.problems import Problem, problem_of, respond
from gateway.routes import ROUTES
from gateway.routing import Table
from gateway.settings import Settings
from gateway.tokens import AckTokens

_BILLION = 1_000_000_000
_OPEN = frozenset(("healthz",))
"""Operations that ask for no credentials."""


def create_app(
    settings: Settings,
    client: Client,
    *,
    login: Login | None = None,
    observe: Observe | None = None,
    snapshot: Callable[[], Snapshot] | None = None,
    clock: Clock | None = None,
) -> Starlette:
    """Build the application over a connected client.

    Args:
        settings: Limits, times and the key of ack tokens.
        client: A connected client; the caller closes it after the server has stopped.
        login: Connects for whoever asks; then nothing but /healthz is served without credentials,
            and `client` need not be connected. The caller closes `app.state.identities`.
        observe: Told of each request and of each failure that is ours.
        snapshot: What the node says of itself, for /metrics; None leaves that out.
        clock: Where request times are taken from.
    """
    metrics = Metrics(snapshot)

    def tell(observation: Observation) -> None:
        metrics.observe(observation)
        if observe is not None:
            observe(observation)

    gateway = Gateway(
        settings=settings,
        client=client,
        js=JetStream(client, timeout=settings.api_timeout),
        publisher=JetStream(client, timeout=settings.publish_timeout),
        tokens=AckTokens(settings.ack_key),
        metrics=metrics,
        observe=tell,
    )

    def serve(client: Client) -> Gateway:
        js = JetStream(client, timeout=settings.api_timeout)
        publisher = JetStream(client, timeout=settings.publish_timeout)
        return replace(gateway, client=client, js=js, publisher=publisher)

    identities = None if login is None else Identities(login, serve)
    route = TableRoute(gateway, Table(ROUTES), clock or SystemClock(), identities)
    app = Starlette(routes=[route])
    app.state.identities = identities
    return app


class TableRoute(BaseRoute):
    """Takes every HTTP request."""

    def __init__(
        self, gateway: Gateway, table: Table, clock: Clock, identities: Identities | None
    ) -> None:
        self._gateway = gateway
        self._identities = identities
        self._table = table
        self._clock = clock

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """HTTP, all of it; anything else is refused by the framework."""
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begin = self._clock.monotonic()
        async with AsyncExitStack() as lent:
            name, response = await self._answer(scope, receive, lent)
            if response is None:
                return
            seconds = (self._clock.monotonic() - begin) / _BILLION
            done = RequestDone(name, scope["method"], response.status_code, seconds)
            self._gateway.observe(done)
            with suppress(Disconnected, ClientError, Problem):  # too late for another answer
                await response(scope, receive, send)

    async def _answer(
        self, scope: Scope, receive: Receive, lent: AsyncExitStack
    ) -> tuple[str, Response | None]:
        name = "none"
        try:
            _check_size(self._gateway.settings, scope)
            found = self._table.find(scope["method"], scope["raw_path"])
            operation, params, allow = found
            if operation is None:
                return "options", Response(None, 204, headers={"Allow": allow})
            name = operation.id
            gateway = self._gateway
            if self._identities is not None and name not in _OPEN:
                who = self._identities.use(Headers(scope=scope))
                gateway = await lent.enter_async_context(who)
            query = read_query(scope["query_string"], operation.query)
            return name, await operation.handler(Call(gateway, scope, receive, params, query))
        except Disconnected:
            return name, None
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 500:
                self._gateway.observe(RequestFailed(name, error))
            return name, respond(problem, scope["raw_path"].decode("latin-1"))


def _check_size(settings: Settings, scope: Scope) -> None:
    target = len(scope["raw_path"]) + len(scope["query_string"])
    if target > settings.target_bytes_max:
        raise Problem(
            414, "target-too-long", f"path and query: more than {settings.target_bytes_max} bytes"
        )
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > settings.header_count_max or size > settings.header_bytes_max:
        limits = f"{settings.header_count_max}, {settings.header_bytes_max} bytes"
        raise Problem(431, "headers-too-large", f"headers: more than {limits}")
