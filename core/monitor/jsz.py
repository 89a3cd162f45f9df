"""The monitoring page `/jsz`: the streams and consumers of JetStream that this node leads."""

import json
from typing import Any

from core.model.release import API_LEVEL
from core.monitor.query import BadQuery, PageQuery
from core.monitor.source import MonitoringSource
from core.monitor.times import moment
from core.monitor.varz import stats

_UNLIMITED = (1 << 64) - 1
_LIMIT = 1024
_NOTHING = dict.fromkeys(
    ("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets"), 0
)
_STREAM = ("config", "state", "mirror", "sources")


async def jsz(source: MonitoringSource, query: PageQuery) -> dict[str, Any]:
    """Return the JSON object of `/jsz`.

    Raises BadQuery for an invalid parameter, or with `leader-only` on a node that is not the leader
    of the cluster.
    """
    wants = {
        name: query.flag(name)
        for name in ("accounts", "streams", "consumers", "config", "leader-only", "raft")
    }
    offset, limit = query.page(_LIMIT)
    cluster = source.cluster
    if wants["leader-only"] and cluster is not None and not cluster.leads:
        raise BadQuery("filtered response: not leader")
    meta = {} if cluster is None else {"meta_cluster": _plain(cluster.meta())}
    if source.jetstream is None:
        return _disabled(source) if cluster is None else _follower(source) | meta | {"total": 1}
    registry, account = source.jetstream.registry, query.text("acc")
    runners = list(registry.streams.values())
    shown: dict[str, Any] = {
        **stats(source),
        **source.head,
        "config": source.about.jetstream,
        "limits": {"default_max_consumers": 1000},
        "streams": len(runners),
        "consumers": sum(runner.consumer_count() for runner in runners),
        "messages": sum(runner.machine.msgs for runner in runners),
        "bytes": sum(runner.machine.bytes for runner in runners),
        **meta,
    }
    is_detailed = wants["accounts"] or wants["streams"] or wants["consumers"] or bool(account)
    if is_detailed and account in ("", registry.account.name):
        details = [await _account(source, wants)]
        shown["account_details"] = details if account else details[offset : offset + limit]
        if not shown["account_details"]:
            del shown["account_details"]
    return shown | {"total": 1}


def _follower(source: MonitoringSource) -> dict[str, Any]:
    """Return the page of a node that leads no stream."""
    return {
        **_NOTHING,
        "api": {"level": API_LEVEL, "total": 0, "errors": 0},
        **source.head,
        "config": source.about.jetstream,
        "limits": {"default_max_consumers": 1000},
        **dict.fromkeys(("streams", "consumers", "messages", "bytes"), 0),
    }


def _disabled(source: MonitoringSource) -> dict[str, Any]:
    return {
        **_NOTHING,
        "api": {"level": 0, "total": 0, "errors": 0},
        **source.head,
        "disabled": True,
        "config": {"max_memory": 0, "max_storage": 0},
        **dict.fromkeys(("streams", "consumers", "messages", "bytes", "total"), 0),
    }


async def _account(source: MonitoringSource, wants: dict[str, bool]) -> dict[str, Any]:
    assert source.jetstream is not None
    registry, api = source.jetstream.registry, source.jetstream.api
    usage = registry.usage()
    shown: dict[str, Any] = {
        "name": registry.account.name,
        "id": registry.account.name,
        "memory": usage.memory,
        "storage": usage.storage,
        "reserved_memory": _UNLIMITED,
        "reserved_storage": _UNLIMITED,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": api.total, "errors": api.errors},
    }
    if (wants["streams"] or wants["consumers"]) and registry.streams:
        shown["stream_detail"] = details = []
        for runner in list(registry.streams.values()):
            if registry.streams.get(runner.name) is runner:  # another node may lead it by now
                details.append(await _stream(source, runner, wants))
    return shown


async def _stream(source: MonitoringSource, runner: Any, wants: dict[str, bool]) -> dict[str, Any]:
    info = _plain(await runner.info())
    shown: dict[str, Any] = {
        "name": runner.name,
        "created": moment(runner.created),
        "cluster": info.get("cluster", {"leader": source.hub.server_name}),
    }
    for part in _STREAM:
        if part in info and (part != "config" or wants["config"]):
            shown[part] = info[part]
    if wants["consumers"]:
        details = [
            _consumer(_plain(consumer.info()), wants["config"])
            for consumer in runner.consumers.values()
            if not consumer.hidden
        ]
        if details:
            shown["consumer_detail"] = details
    return shown


def _consumer(info: dict[str, Any], with_config: bool) -> dict[str, Any]:
    if not with_config:
        info.pop("config", None)
    info.pop("type", None)
    return info


def _plain(value: Any) -> Any:
    """Return a struct of the JetStream API as a plain JSON value."""
    from core.model import codec  # a server without JetStream starts without it

    return json.loads(codec.encode(value))
