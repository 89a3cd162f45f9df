"""The monitoring page `/routez`: the connections to the other servers of the cluster."""

from typing import Any

from core.model.gotime import format_duration
from core.monitor.query import PageQuery
from core.monitor.source import MonitoringSource
from core.monitor.times import age, moment
from core.route.view import RouteInterest, RouteView


def routez(source: MonitoringSource, query: PageQuery) -> dict[str, Any]:
    """Return the JSON object of `/routez`: the routes, on request with their subscriptions.

    Raises BadQuery for an invalid parameter.
    """
    details = query.text("subs").lower() == "detail"
    subs = details or query.flag("subs")
    routes = source.mesh.routes() if source.mesh is not None else ()
    return {
        "server_id": source.hub.server_id,
        "server_name": source.hub.server_name,
        "now": moment(source.clock.now()),
        "num_routes": len(routes),
        "routes": [_described(route, subs=subs, details=details) for route in routes],
    }


def _described(route: RouteView, *, subs: bool, details: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "rid": route.rid,
        "remote_id": route.remote_id,
        "remote_name": route.remote_name,
        "did_solicit": route.did_solicit,
        "is_configured": route.is_configured,
        "ip": route.ip,
        "port": route.port,
        "start": moment(route.start),
        "last_activity": moment(route.last_activity),
        **({"rtt": format_duration(route.rtt)} if route.rtt else {}),
        "uptime": age(route.uptime),
        "idle": age(route.idle),
        "pending_size": route.pending_size,
        "in_msgs": route.in_msgs,
        "out_msgs": route.out_msgs,
        "in_bytes": route.in_bytes,
        "out_bytes": route.out_bytes,
        "subscriptions": route.num_subscriptions,
    }
    if details and route.subscriptions:
        listed = [_interest(route, each) for each in route.subscriptions]
        shown["subscriptions_list_detail"] = listed
    elif subs and route.subscriptions:
        shown["subscriptions_list"] = [each.subject for each in route.subscriptions]
    return shown | {"compression": "off"}


def _interest(route: RouteView, interest: RouteInterest) -> dict[str, Any]:
    queue = {"qgroup": interest.queue} if interest.queue else {}
    names = (interest.account, interest.subject, *queue.values())
    return {
        "subject": interest.subject,
        **queue,
        "sid": " ".join(("R", *names)),
        "msgs": 0,  # not counted
        "cid": route.rid,
    }
