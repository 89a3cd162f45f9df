"""Answers `$SYS.REQ.USER.INFO`, by which a client requests its user, account and permissions."""

from typing import Any

import msgspec

from core.auth.users import Permissions, Rule
from core.model.gotime import format_time
from core.model.release import FEATURE_FLAGS, SERVER_VERSION
from core.pubsub.account import Account
from core.pubsub.hub_view import HubView
from core.pubsub.receivers import Session
from core.units import NANOS_PER_SECOND

SUBJECT = b"$SYS.REQ.USER.INFO"
_JETSTREAM_FLAGS = 7


def answer_user_info(account: Account) -> None:
    """Subscribe to `$SYS.REQ.USER.INFO` in an account, and answer each request."""
    asked = 0

    def answer(
        session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        nonlocal asked
        if not reply:
            return
        asked += 1
        server = server_json(account.hub, asked)
        user: dict[str, Any] = {
            "user": session.user if session else "",
            "account": account.name,
            "account_name": account.name,
        }
        if session is not None and session.guard is not None:
            user["permissions"] = permissions_json(session.guard.grant.permissions)
        account.publish(reply, b"", b"", msgspec.json.encode({"server": server, "data": user}))

    account.subscribe(SUBJECT, answer, local_only=True)


def server_json(hub: HubView, number: int) -> dict[str, Any]:
    """Return the `server` object in responses and reports of the system account.

    `number` becomes its `seq`.
    """
    return {
        "name": hub.server_name,
        "host": hub.host,
        "id": hub.server_id,
        **({"domain": hub.domain} if hub.domain else {}),
        "ver": SERVER_VERSION,
        **({"tags": hub.tags} if hub.tags else {}),
        "feature_flags": FEATURE_FLAGS,
        "jetstream": hub.jetstream,
        "flags": _JETSTREAM_FLAGS if hub.jetstream else 0,
        "seq": number,
        "time": format_time(hub.clock.now()),
    }


def permissions_json(permissions: Permissions) -> dict[str, Any]:
    """Return permissions in the JSON form of nats-server's monitoring; times are in nanoseconds."""
    shown: dict[str, Any] = {
        "publish": _rule_json(permissions.publish),
        "subscribe": _rule_json(permissions.subscribe),
    }
    if (responses := permissions.responses) is not None:
        shown["responses"] = {"max": responses.limit, "ttl": int(responses.ttl * NANOS_PER_SECOND)}
    return shown


def _rule_json(rule: Rule) -> dict[str, list[str]]:
    lists = {"allow": list(rule.allow or ()), "deny": list(rule.deny)}
    return {name: entries for name, entries in lists.items() if entries}
