"""The monitoring pages over NATS: requests on `$SYS.REQ.SERVER.>` in the system account.

The subject `PING.<page>` addresses all servers of a cluster, `<server id>.<page>` one of them;
`PING` and `STATSZ` request a summary. Each server answers for itself. The body of a request is a
JSON object with the parameters of the page, and optionally filters that select servers.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from core.errors import ApiError
from core.goinput import folded
from core.model.tags import clean_tag
from core.monitor.pages import page_of
from core.monitor.query import PageQuery
from core.monitor.source import About, JetStreamSource, MonitoringSource
from core.monitor.times import moment
from core.monitor.varz import summary
from core.pubsub.receivers import Session
from core.pubsub.server import SYSTEM_ACCOUNT, Hub
from core.pubsub.user_info import server_json
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.cluster.view import ClusterView
    from core.route.mesh import Mesh

_PREFIX = "$SYS.REQ.SERVER."
_SUMMARY = "STATSZ"
_PAGES = {
    name.upper(): f"/{name}"
    for name in ("varz", "connz", "routez", "subsz", "jsz", "accountz", "healthz")
}
_NAMES = {"account": "acc", "consumer": "consumers", "leader_only": "leader-only"}
_SKIPPED = "filtered response"


class SystemServices:
    """Answers requests on `$SYS.REQ.SERVER.` with monitoring pages.

    Life cycle: `start`, then `show` whenever this node begins or ends to lead streams, then `stop`.

    Args:
        hub: The server that the pages describe; it has a system account.
        clock: The clock for times on the pages.
        mesh: The links to other servers; None: there is no cluster.
        cluster: The nodes that can lead.
    """

    def __init__(self, hub: Hub, clock: Clock, mesh: Mesh | None, cluster: ClusterView) -> None:
        about = About(jetstream={"max_memory": 0, "max_storage": 0, "strict": True})
        self._source = source = MonitoringSource(about, hub, clock)
        source.mesh, source.cluster = mesh, cluster
        self._account = hub.accounts[SYSTEM_ACCOUNT]
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered = 0

    def start(self) -> None:
        """Subscribe to the requests in the system account."""
        own = self._source.hub.server_id
        for place in ("PING", "PING.*", f"{own}.*"):
            self._account.subscribe(f"{_PREFIX}{place}".encode(), self._asked)

    def show(self, led: JetStreamSource | None) -> None:
        """Show the streams that this node leads; None: it leads no stream."""
        self._source.jetstream = led

    async def stop(self) -> None:
        """Cancel the answers in progress."""
        await stop(*self._tasks)

    def _asked(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        if not reply:
            return
        kind = subject.decode("utf-8", "replace").removeprefix(_PREFIX).partition(".")[2]
        task = spawn(self._answer(kind or "", reply, payload), name="system request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, kind: str, reply: bytes, payload: bytes) -> None:
        try:
            asked = json.loads(payload) if payload.strip() else {}
        except (ValueError, RecursionError) as error:
            self._answer_json(reply, {"error": {"code": 400, "description": str(error)}})
            return
        if not isinstance(asked, dict):
            return
        asked = {folded(name): value for name, value in asked.items()}
        if not self._is_meant(asked):
            return
        if kind in ("", _SUMMARY):
            values = summary(self._source)
            self._answer_json(reply, {"statsz": values} if not kind else {"data": values})
        elif kind in _PAGES:
            await self._answer_page(_PAGES[kind], reply, asked)

    async def _answer_page(self, path: str, reply: bytes, asked: dict[str, Any]) -> None:
        values = {_NAMES.get(name, name): _text(value) for name, value in asked.items()}
        try:
            page = await page_of(self._source, path, PageQuery(values))
        except ApiError as error:  # storage is unavailable
            self._answer_json(
                reply, {"error": {"code": error.code, "description": error.description}}
            )
            return
        text = page.body.decode()
        if text.startswith(_SKIPPED):
            return
        is_json = text.startswith("{")
        if is_json:
            self._answer_json(reply, {"data": json.loads(text)})
        else:
            self._answer_json(reply, {"error": {"code": page.status, "description": text.strip()}})

    def _is_meant(self, asked: dict[str, Any]) -> bool:
        hub = self._source.hub
        own = {"server_name": hub.server_name, "cluster": hub.cluster, "host": hub.host}
        is_exact = asked.get("exact_match", False)
        for name, value in own.items():
            wanted = asked.get(name)
            if wanted and (value != wanted if is_exact else str(wanted) not in value):
                return False
        tags = asked.get("tags") or []
        if not isinstance(tags, list) or any(clean_tag(str(tag)) not in hub.tags for tag in tags):
            return False
        return asked.get("domain", "") in ("", hub.domain)

    def _answer_json(self, reply: bytes, values: dict[str, Any]) -> None:
        self._answered += 1
        hub = self._source.hub
        server = server_json(hub, self._answered)
        if hub.cluster:
            server["cluster"] = hub.cluster
        server["time"] = moment(hub.clock.now())
        self._account.publish(reply, b"", b"", json.dumps({"server": server, **values}).encode())


def _text(value: Any) -> str:
    """Return a JSON parameter in the form of a URL parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
