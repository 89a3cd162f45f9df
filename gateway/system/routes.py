"""HTTP routes of health checks, metrics, JetStream usage, and the OpenAPI and AsyncAPI files."""

from core.model.account import AccountStats
from gateway.formats import models
from gateway.requests.jetstream_problems import ASKED
from gateway.requests.operation import RAW, Operation
from gateway.system import account, health, reference

_HTML = "text/html"

ACCOUNT_ROUTES: tuple[Operation, ...] = (
    Operation(
        "readAccount",
        "GET",
        "/v1/account",
        account.account,
        None,
        AccountStats,
        shows={200: ("Cache-Control",)},
        problems=ASKED,
    ),
)

DOCUMENT_ROUTES: tuple[Operation, ...] = (
    Operation("readOpenApi", "GET", "/openapi.json", reference.openapi, None, models.OpenApi),
    Operation("readAsyncApi", "GET", "/asyncapi.json", reference.asyncapi, None, models.AsyncApi),
)

REFERENCE_ROUTES: tuple[Operation, ...] = (
    Operation("readDocs", "GET", "/docs", reference.docs, None, RAW, media_type=_HTML),
    Operation(
        "listProblems",
        "GET",
        "/docs/problems",
        reference.list_problems,
        None,
        RAW,
        media_type=_HTML,
    ),
    Operation(
        "readProblem",
        "GET",
        "/docs/problems/{kind}",
        reference.show_problem,
        None,
        RAW,
        media_type=_HTML,
        problems=("no-such-route",),
    ),
)

HEALTH_ROUTES: tuple[Operation, ...] = (
    Operation(
        "healthz",
        "GET",
        "/healthz",
        health.healthz,
        None,
        models.Health,
        query=None,
        is_open=True,
    ),
    Operation(
        "readyz",
        "GET",
        "/readyz",
        health.readyz,
        None,
        models.Health,
        query=None,
        problems=("not-ready", "starting"),
        is_open=True,
    ),
    Operation(
        "metrics", "GET", "/metrics", health.metrics, None, RAW, query=None, media_type="text/plain"
    ),
)
