"""The pages of the monitoring port by path, and their encoding.

Pages are JSON with an indentation of two blanks; `/healthz` has no indentation. An invalid
parameter is answered with status 400 and a text.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from core.monitor.connection import describe_subscription
from core.monitor.connz import PAGE, connz
from core.monitor.jsz import jsz
from core.monitor.query import BadQuery, PageQuery
from core.monitor.routez import routez
from core.monitor.source import LedElsewhere, MonitoringSource
from core.monitor.times import moment
from core.monitor.varz import varz
from core.pubsub.account import Account
from core.pubsub.server import Traffic
from core.subjects.subject import is_valid_literal, matches
from core.transport.session import ClientSession

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """The HTTP response to one request for a monitoring page.

    `status` is the HTTP status, `kind` the content type.
    """

    body: bytes
    status: int = 200
    kind: str = _JSON


async def serve(source: MonitoringSource, path: str, query: PageQuery) -> Page:
    """Return the page for a request, and count the request for /varz.

    `path` is the path of the URL without the configured base path.
    """
    if path in _PAGES and path not in _UNCOUNTED:
        source.requests["/subsz" if path == "/subscriptionsz" else path] += 1
    return await page_of(source, path, query)


async def page_of(source: MonitoringSource, path: str, query: PageQuery) -> Page:
    """Return the page for a path without counting the request.

    An unknown path has status 404, an invalid parameter status 400.
    """
    page = _PAGES.get(path)
    if page is None:
        return Page(b"404 page not found\n", 404, _TEXT)
    try:
        return await page(source, query)
    except BadQuery as error:
        return Page(str(error).encode(), 400, _TEXT)


def _pretty(values: dict[str, Any]) -> Page:
    return Page(_escaped(json.dumps(values, indent=2, ensure_ascii=False)))


def _escaped(text: str) -> bytes:
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "replace")


async def _varz(source: MonitoringSource, query: PageQuery) -> Page:
    return _pretty(varz(source))


async def _connz(source: MonitoringSource, query: PageQuery) -> Page:
    return _pretty(connz(source, query))


async def _jsz(source: MonitoringSource, query: PageQuery) -> Page:
    return _pretty(await jsz(source, query))


async def _subsz(source: MonitoringSource, query: PageQuery) -> Page:
    wanted, test = query.text("acc"), query.text("test")
    offset, limit = query.page(PAGE)
    subs = query.flag("subs")
    if test and not is_valid_literal(test.encode()):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {test}")
    accounts = [a for name, a in source.hub.accounts.items() if wanted in ("", name)]
    found = [
        (session.account.name, each)
        for session in source.hub.sessions.values()
        if isinstance(session, ClientSession) and session.account in accounts
        for each in session.subscriptions.values()
    ]
    shown: dict[str, Any] = {**source.head, **_sublist_stats(accounts)}
    listed = [
        describe_subscription(each, name)
        for name, each in found
        if not test or matches(test.encode(), each.subject)
    ]
    if not subs:
        listed = []
    shown |= {"total": len(listed), "offset": offset, "limit": limit}
    if page := listed[offset : offset + limit]:
        shown["subscriptions_list"] = page
    return _pretty(shown)


def _sublist_stats(accounts: list[Account]) -> dict[str, Any]:
    """Return the numbers of subscriptions, and of subjects with cached receivers.

    The cache hit rate is not measured, and always 0.
    """
    counts = [account.subscription_counts() for account in accounts]
    count, inserts = sum(now for now, _ in counts), sum(ever for _, ever in counts)
    cached = [found for account in accounts for found in account.receivers_by_subject.values()]
    fanouts = [len(r.targets) + len(r.groups) + len(r.services) for r in cached]
    return {
        "num_subscriptions": count,
        "num_cache": len(cached),
        "num_inserts": inserts,
        "num_removes": inserts - count,
        "num_matches": len(cached),
        "cache_hit_rate": 0,
        "max_fanout": max(fanouts, default=0),
        "avg_fanout": sum(fanouts) / len(fanouts) if fanouts else 0,
    }


async def _accountz(source: MonitoringSource, query: PageQuery) -> Page:
    shown: dict[str, Any] = {**source.head, "system_account": "$SYS"}
    name = query.text("acc")
    if not name:
        return _pretty(shown | {"accounts": sorted({*source.hub.accounts, "$SYS"})})
    account = source.hub.accounts.get(name)
    if account is None:
        raise BadQuery(f"Account {name} does not exist")
    clients = sum(1 for session in source.hub.sessions.values() if session.account is account)
    detail = {
        "account_name": name,
        "update_time": moment(source.started),
        "expired": False,
        "complete": True,
        "jetstream_enabled": source.jetstream is not None,
        "leafnode_connections": 0,
        "client_connections": clients,
        "subscriptions": account.subscription_counts()[0],
        "name_tag": name,
        "sublist_stats": _sublist_stats([account]),
    }
    return _pretty(shown | {"account_detail": detail})


async def _accstatz(source: MonitoringSource, query: PageQuery) -> Page:
    unused = query.flag("unused")
    found = []
    for name, account in sorted(source.hub.accounts.items()):
        sessions = [each for each in source.hub.sessions.values() if each.account is account]
        if not (sessions or unused):
            continue
        clients, routes = Traffic(), Traffic()
        for session in sessions:
            clients.add(session.count())
        if source.mesh is not None and account is source.hub.default_account():
            routes = source.mesh.totals()
        found.append(
            {
                "acc": name,
                "name": name,
                "conns": len(sessions),
                "leafnodes": 0,
                "total_conns": len(sessions),
                "num_subscriptions": account.subscription_counts()[0],
                "sent": _flow(
                    (clients.out_msgs, clients.out_bytes), (routes.out_msgs, routes.out_bytes)
                ),
                "received": _flow(
                    (clients.in_msgs, clients.in_bytes), (routes.in_msgs, routes.in_bytes)
                ),
                "slow_consumers": 0,
            }
        )
    return _pretty({**source.head, "account_statz": found})


def _flow(clients: tuple[int, int], routes: tuple[int, int]) -> dict[str, Any]:
    """Return messages and bytes in total and by kind of connection.

    `clients` and `routes` are pairs (messages, bytes); the total contains both.
    """
    none = {"msgs": 0, "bytes": 0}
    return {
        "msgs": clients[0] + routes[0],
        "bytes": clients[1] + routes[1],
        "gateways": none,
        "routes": {"msgs": routes[0], "bytes": routes[1]},
        "leafs": none,
    }


async def _healthz(source: MonitoringSource, query: PageQuery) -> Page:
    for name in ("js-enabled-only", "js-enabled", "js-server-only", "js-meta-only", "details"):
        query.flag(name)
    problem = _health_problem(source, query)
    if problem is None:
        return Page(b'{"status":"ok"}')
    status, kind, error = problem
    body: dict[str, Any]
    if query.flag("details"):
        named = {} if status == 400 else {n: v for n in _HEALTH_PARAMETERS if (v := query.text(n))}
        body = {"status": "error", "errors": [{"type": kind, **named, "error": error}]}
    else:
        body = {"status": "error" if status == 400 else "unavailable", "error": error}
    return Page(_escaped(json.dumps(body, separators=(",", ":"))), status)


_HEALTH_PARAMETERS = ("account", "stream", "consumer")


def _health_problem(source: MonitoringSource, query: PageQuery) -> tuple[int, str, str] | None:
    """Return HTTP status, type and text of a health problem; None if there is none."""
    account, stream, consumer = (query.text(name) for name in _HEALTH_PARAMETERS)
    if (stream or consumer) and not account:
        return 400, "BAD_REQUEST", '"account" must not be empty when checking stream health'
    if consumer and not stream:
        return 400, "BAD_REQUEST", '"stream" must not be empty when checking consumer health'
    if source.jetstream is None:
        return None
    if not source.has_leader():
        return 503, "JETSTREAM", "JetStream has not established contact with a meta leader"
    registry = source.jetstream.registry
    if account and account != registry.account.name:
        return 404, "ACCOUNT", f'JetStream account "{account}" not found'
    if isinstance(registry, LedElsewhere):
        return None  # only the leader of the streams can check them
    runner = registry.streams.get(stream)
    where = f'on account "{account}"'
    if stream and runner is None:
        return 404, "STREAM", f'JetStream stream "{stream}" not found {where}'
    if consumer and runner.consumers.get(consumer) is None:
        lost = f'JetStream consumer "{consumer}" not found for stream "{stream}" {where}'
        return 404, "CONSUMER", lost
    return None


def _empty_page(
    flag: str, **fields: Any
) -> Callable[[MonitoringSource, PageQuery], Awaitable[Page]]:
    """Return the page function for a feature that this server lacks.

    The page accepts one boolean parameter, named `flag`.
    """

    async def page(source: MonitoringSource, query: PageQuery) -> Page:
        query.flag(flag)
        return _pretty({**source.head, **fields})

    return page


async def _routez(source: MonitoringSource, query: PageQuery) -> Page:
    return _pretty(routez(source, query))


async def _raftz(source: MonitoringSource, query: PageQuery) -> Page:
    return Page(b"No Raft nodes registered", 404, _TEXT)


async def _ipqueuesz(source: MonitoringSource, query: PageQuery) -> Page:
    return Page(b"{}")


async def _index(source: MonitoringSource, query: PageQuery) -> Page:
    links = "".join(
        f"<a href=.{path}>{title}<span class='endpoint'> {path}</span></a><br/>\n"
        for path, title in _TITLES.items()
    )
    body = f'<html lang="en">\n<head><title>jetgate</title></head>\n<body>\n{links}</body>\n</html>'
    return Page(body.encode(), 200, "text/html; charset=utf-8")


_TITLES = {
    "/varz": "General",
    "/jsz": "JetStream",
    "/connz": "Connections",
    "/accountz": "Accounts",
    "/accstatz": "Account Stats",
    "/subsz": "Subscriptions",
    "/routez": "Routes",
    "/leafz": "LeafNodes",
    "/gatewayz": "Gateways",
    "/healthz": "Health Probe",
}

_UNCOUNTED = ("/ipqueuesz", "/raftz")

_PAGES: dict[str, Callable[[MonitoringSource, PageQuery], Awaitable[Page]]] = {
    "/": _index,
    "/varz": _varz,
    "/connz": _connz,
    "/subsz": _subsz,
    "/subscriptionsz": _subsz,
    "/jsz": _jsz,
    "/accountz": _accountz,
    "/accstatz": _accstatz,
    "/healthz": _healthz,
    "/routez": _routez,
    "/gatewayz": _empty_page("accs", outbound_gateways={}, inbound_gateways={}),
    "/leafz": _empty_page("subs", leafnodes=0, leafs=[]),
    "/raftz": _raftz,
    "/ipqueuesz": _ipqueuesz,
}
