"""The monitoring page `/connz`: the open and closed client connections."""

from collections.abc import Callable
from typing import Any

from core.goinput import text_of
from core.monitor.connection import describe, describe_subscription
from core.monitor.query import BadQuery, PageQuery
from core.monitor.source import ClosedConnection, MonitoringSource
from core.pubsub.server import Connection
from core.subjects.subject import overlap
from core.transport.session import ClientSession

PAGE = 1024

# sort option -> key of a connection, and True for descending order
_SORTS: dict[str, tuple[Callable[[dict[str, Any]], Any], bool]] = {
    "cid": (lambda c: c["cid"], False),
    "start": (lambda c: c["cid"], False),
    "subs": (lambda c: c["subscriptions"], True),
    "pending": (lambda c: c["pending_bytes"], True),
    "msgs_to": (lambda c: c["out_msgs"], True),
    "msgs_from": (lambda c: c["in_msgs"], True),
    "bytes_to": (lambda c: c["out_bytes"], True),
    "bytes_from": (lambda c: c["in_bytes"], True),
    "last": (lambda c: c["last_activity"], True),
    "idle": (lambda c: c["last_activity"], False),
    "uptime": (lambda c: c["cid"], True),
    "stop": (lambda c: c.get("stop", ""), False),
    "reason": (lambda c: c.get("reason", ""), False),
    "rtt": (lambda c: c.get("rtt", ""), False),
}
_STATES = {"": "open", "open": "open", "closed": "closed", "any": "any", "all": "any"}


def connz(source: MonitoringSource, query: PageQuery) -> dict[str, Any]:
    """Return the JSON object of `/connz`: a page of the connections that the query selects.

    Raises BadQuery for an invalid parameter.
    """
    sort, state = query.text("sort") or "cid", query.text("state").lower()
    (offset, limit), cid = query.page(PAGE), query.unsigned("cid")
    auth = query.flag("auth")
    details = query.text("subs").lower() == "detail"
    subs = details or query.flag("subs")
    if state not in _STATES:
        raise BadQuery(f"Error decoding state for {state}")
    if sort not in _SORTS:
        raise BadQuery(f"invalid sorting option: {sort}")
    if sort in ("stop", "reason") and _STATES[state] == "open":
        raise BadQuery(f"sort by {sort} only valid on closed connections")
    account = query.text("acc")
    if account and account not in source.hub.accounts:
        return _page({"server_id": "", "now": source.head["now"]}, None, 0, offset, limit)
    found: list[dict[str, Any]] = []
    total, now = 0, source.clock.now()
    if _STATES[state] != "closed":
        living = [each for each in source.hub.sessions.values() if _is_of(each, account)]
        total += len(living)
        found += [
            _detailed(session, describe(session, now), auth, subs, details)
            for session in living
            if isinstance(session, ClientSession) and _is_wanted(session, query)
        ]
    if _STATES[state] != "open":
        dead = [each for each in source.closed if not account or each.account == account]
        total += len(dead)
        found += _closed(dead, query, auth)
    if cid:
        found, limit = [shown for shown in found if shown["cid"] == cid], 1
    key, descending = _SORTS[sort]
    found.sort(key=key, reverse=descending)
    return _page(source.head, found[offset : offset + limit], total, offset, limit)


def _page(
    head: dict[str, Any], shown: list[dict[str, Any]] | None, total: int, offset: int, limit: int
) -> dict[str, Any]:
    return {
        **head,
        "num_connections": len(shown or ()),
        "total": total,
        "offset": offset,
        "limit": limit,
        "connections": shown,
    }


def _is_of(session: Connection, account: str) -> bool:
    is_client = isinstance(session, ClientSession)
    return is_client and (not account or session.account.name == account)


def _is_wanted(session: ClientSession, query: PageQuery) -> bool:
    user, subject = query.text("user"), query.text("filter_subject").encode()
    if (user and session.user != user) or query.text("mqtt_client"):
        return False
    return not subject or any(
        overlap(subject, each.subject) for each in session.subscriptions.values()
    )


def _closed(dead: list[ClosedConnection], query: PageQuery, auth: bool) -> list[dict[str, Any]]:
    user = query.text("user")
    found = []
    for closed in dead:
        if (user and closed.user != user) or query.text("mqtt_client"):
            continue
        shown = dict(closed.shown)
        if auth:
            shown |= {"authorized_user": closed.user} if closed.user else {}
            shown["name_tag"] = closed.account
        found.append(shown)
    return found


def _detailed(
    session: ClientSession, shown: dict[str, Any], auth: bool, subs: bool, details: bool
) -> dict[str, Any]:
    if auth and session.user:
        shown["authorized_user"] = session.user
    subscriptions = session.subscriptions.values()
    if details and subscriptions:
        shown["subscriptions_list_detail"] = [describe_subscription(each) for each in subscriptions]
    elif subs and subscriptions:
        shown["subscriptions_list"] = [text_of(each.subject) for each in subscriptions]
    if auth:
        shown["name_tag"] = session.account.name
    return shown
