"""The JSON of one connection and of one subscription on the monitoring pages."""

from typing import Any

from core.goinput import text_of
from core.model.gotime import format_duration
from core.monitor.times import age, moment
from core.pubsub.receivers import Subscription
from core.transport.session import ClientSession

_KINDS = {"WEBSOCKET": "websocket"}


def describe(session: ClientSession, now: int, *, stopped: bool = False) -> dict[str, Any]:
    """Return the JSON object of a client connection in /connz.

    `now` is in nanoseconds since the Unix epoch. `stopped`: the connection was closed at `now`.
    """
    traffic, connect = session.count(), session.connect
    read = now - max(session.hub.clock.monotonic() - session.last_read, 0)
    active = now if session.has_read and not stopped else max(read, session.started)
    shown: dict[str, Any] = {
        "cid": session.client_id,
        "kind": "Client",
        "type": _KINDS.get(session.connection_type, "nats"),
        "ip": session.client_ip,
        "port": session.client_port,
        "start": moment(session.started),
        "last_activity": moment(active),
    }
    if stopped:
        shown |= {"stop": moment(now), "reason": session.close_reason}
    if session.rtt:
        shown["rtt"] = format_duration(session.rtt)
    shown |= {
        "uptime": age(now - session.started),
        "idle": age(now - active),
        "pending_bytes": 0 if stopped else session.pending(),
        "in_msgs": traffic.in_msgs,
        "out_msgs": traffic.out_msgs,
        "in_bytes": traffic.in_bytes,
        "out_bytes": traffic.out_bytes,
        "subscriptions": len(session.subscriptions),
    }
    for name in ("name", "lang", "version"):
        if value := getattr(connect, name):
            shown[name] = value
    return shown


def describe_subscription(found: Subscription, account: str = "") -> dict[str, Any]:
    """Return the JSON object of a subscription in /connz and /subsz.

    `account`: name of its account; empty: the object has no account.
    """
    shown: dict[str, Any] = {}
    if account:
        shown |= {"account": account, "account_tag": account}
    shown["subject"] = text_of(found.subject)
    if found.queue:
        shown["qgroup"] = text_of(found.queue)
    shown |= {"sid": text_of(found.sid), "msgs": found.delivered}
    if found.limit:
        shown["max"] = found.limit
    return shown | {"cid": found.session.client_id}
