"""The monitoring page `/varz`: general information and statistics of the server."""

import os
import resource
from typing import Any

from core.model.release import API_LEVEL, FEATURE_FLAGS, SERVER_VERSION
from core.monitor.source import MonitoringSource
from core.monitor.times import age, moment
from core.pubsub.server import Traffic
from core.transport.info import GO_VERSION
from core.units import NANOS_PER_SECOND

_KINDS = ("clients", "routes", "gateways", "leafs")


def varz(source: MonitoringSource) -> dict[str, Any]:
    """Return the JSON object of `/varz`."""
    hub, limits, about = source.hub, source.hub.limits, source.about
    now = source.clock.now()
    auth_required = {"auth_required": True} if hub.authenticator is not None else {}
    shown: dict[str, Any] = {
        "server_id": hub.server_id,
        "server_name": hub.server_name,
        "version": SERVER_VERSION,
        "proto": 1,
        "git_commit": "jetgate",
        "go": GO_VERSION,
        "host": hub.host,
        "port": hub.port,
        **auth_required,
        **({"connect_urls": list(hub.connect_urls)} if hub.connect_urls else {}),
        "max_connections": limits.max_connections,
        **({"max_subscriptions": limits.max_subscriptions} if limits.max_subscriptions else {}),
        "ping_interval": round(limits.ping_interval * NANOS_PER_SECOND),
        "ping_max": limits.ping_max,
        "http_host": about.http_host,
        "http_port": about.http_port,
        "http_base_path": about.http_base_path,
        "https_port": 0,
        "auth_timeout": _short(about.auth_timeout),
        "max_control_line": limits.max_control_line,
        "max_payload": limits.max_payload,
        "max_pending": limits.max_pending,
        "cluster": ({"name": hub.cluster} if hub.cluster else {}) | about.cluster,
        **{name: {} for name in ("gateway", "leaf", "mqtt")},
        "websocket": about.websocket,
        "jetstream": jetstream(source),
        "tls_timeout": 2,
        "write_deadline": round(limits.write_deadline * NANOS_PER_SECOND),
        "start": moment(source.started),
        "now": moment(now),
        "uptime": age(now - source.started),
        **_machine(source),
    }
    shown |= _counts(source)
    shown |= {
        "http_req_stats": dict(sorted(source.requests.items())),
        "config_load_time": moment(source.config_loaded),
        "config_digest": about.config_digest,
        **({"tags": hub.tags} if hub.tags else {}),
        **({"metadata": about.metadata} if about.metadata else {}),
        "feature_flags": FEATURE_FLAGS,
        "system_account": "$SYS",
        "slow_consumer_stats": _by_kind(hub.slow_consumers, hub.slow_routes),
        "stale_connection_stats": _by_kind(hub.stale_connections, hub.stale_routes),
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }
    return shown


def _counts(source: MonitoringSource) -> dict[str, Any]:
    hub, traffic = source.hub, source.hub.totals()
    mesh = source.mesh
    routes, routed = ((), Traffic()) if mesh is None else (mesh.routes(), mesh.totals())
    return {
        "connections": len(hub.sessions),
        "total_connections": hub.connections_total,
        "routes": len(routes),
        "remotes": len({route.remote_id for route in routes}),
        "leafnodes": 0,
        "in_msgs": traffic.in_msgs + routed.in_msgs,
        "in_bytes": traffic.in_bytes + routed.in_bytes,
        "in_client_msgs": traffic.in_msgs,
        "in_client_bytes": traffic.in_bytes,
        "out_msgs": traffic.out_msgs + routed.out_msgs,
        "out_bytes": traffic.out_bytes + routed.out_bytes,
        "out_client_msgs": traffic.out_msgs,
        "out_client_bytes": traffic.out_bytes,
        "slow_consumers": hub.slow_consumers,
        "stale_connections": hub.stale_connections,
        "stalled_clients": 0,
        "subscriptions": sum(account.subscription_counts()[0] for account in hub.accounts.values()),
    }


def summary(source: MonitoringSource) -> dict[str, Any]:
    """Return the statistics that a server reports over NATS (`STATSZ`), as a JSON object."""
    hub, machine = source.hub, _machine(source)
    routes = () if source.mesh is None else source.mesh.routes()
    counts = _counts(source)
    sent = {"msgs": counts["out_msgs"], "bytes": counts["out_bytes"]}
    received = {"msgs": counts["in_msgs"], "bytes": counts["in_bytes"]}
    return {
        "start": moment(source.started),
        **{name: machine[name] for name in ("mem", "cores", "cpu")},
        "connections": counts["connections"],
        "total_connections": counts["total_connections"],
        "active_accounts": 1,
        "subscriptions": counts["subscriptions"],
        "sent": sent,
        "received": received,
        "slow_consumers": hub.slow_consumers,
        "routes": [
            {
                "rid": route.rid,
                "name": route.remote_name,
                "sent": {"msgs": route.out_msgs, "bytes": route.out_bytes},
                "received": {"msgs": route.in_msgs, "bytes": route.in_bytes},
                "pending": route.pending_size,
            }
            for route in routes
        ],
        "active_servers": 1 + len({route.remote_id for route in routes}),
    }


def jetstream(source: MonitoringSource) -> dict[str, Any]:
    """Return the member `jetstream` of `/varz`; empty if JetStream is off."""
    if source.jetstream is None or source.about.jetstream is None:
        return {}
    return {
        "config": source.about.jetstream,
        "stats": stats(source),
        "limits": {"default_max_consumers": 1000},
    }


def stats(source: MonitoringSource) -> dict[str, Any]:
    """Return the JetStream statistics: stored and reserved bytes, and counts of API requests.

    JetStream must be on.
    """
    assert source.jetstream is not None
    usage, api = source.jetstream.registry.usage(), source.jetstream.api
    return {
        "memory": usage.memory,
        "storage": usage.storage,
        "reserved_memory": usage.reserved_memory,
        "reserved_storage": usage.reserved_storage,
        "accounts": 1,
        "ha_assets": 0,
        "api": {"level": API_LEVEL, "total": api.total, "errors": api.errors},
    }


def _machine(source: MonitoringSource) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, now = used.ru_utime + used.ru_stime, source.clock.monotonic()
    before, seconds_before = source.cpu_seen
    source.cpu_seen = (now, seconds)
    passed = (now - before) / NANOS_PER_SECOND
    cores = os.cpu_count() or 1
    return {
        "mem": _resident(),
        "cores": cores,
        "gomaxprocs": cores,
        "cpu": _short(round(100 * (seconds - seconds_before) / passed, 2) if passed > 0 else 0.0),
    }


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _by_kind(total: int, routes: int) -> dict[str, int]:
    return dict.fromkeys(_KINDS, 0) | {"clients": total - routes, "routes": routes}


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value
