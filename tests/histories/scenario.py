"""Names and configurations of the streams and consumers of a run, and the guarantees of each."""

import itertools
import time
from collections.abc import Sequence
from typing import Any

from tests.histories.history import ConsumerRule, ReaderRule, Rules, StreamRule
from tests.support.wire import Wire

SECOND = 1_000_000_000
_LONG = 3600 * SECOND  # no id is forgotten during a run
TTL_S = 2
"""Time to live of the messages of the stream FADING, in seconds."""
_ACK_WAIT = 2 * SECOND

STREAMS: dict[str, dict[str, Any]] = {
    "LOG": {"subjects": ["log.>"], "allow_direct": True, "allow_atomic": True},
    "WORK": {"subjects": ["work.>"], "retention": "workqueue"},
    "INTEREST": {"subjects": ["interest.>"], "retention": "interest"},
    "HOPPER": {"subjects": ["hopper.>"], "retention": "workqueue"},
    "KV": {"subjects": ["kv.>"], "max_msgs_per_subject": 1, "allow_direct": True},
    "TRASH": {"subjects": ["trash.>"], "allow_direct": True},
    "MIRROR": {"mirror": {"name": "LOG"}, "allow_direct": True},
    "SUM": {"sources": [{"name": "LOG"}, {"name": "HOPPER"}]},
    "DEAD": {},
    "RING": {"subjects": ["ring.>"], "max_msgs": 40},
    "FULL": {"subjects": ["full.>"], "max_msgs": 20, "discard": "new"},
    "FADING": {"subjects": ["fading.>"], "allow_direct": True, "allow_msg_ttl": True},
}

CONSUMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "EXPLICIT": ("LOG", {}),
    "NONE": ("LOG", {"ack_policy": "none"}),
    "ALL": ("LOG", {"ack_policy": "all"}),
    "PUSH": (
        "LOG",
        {"deliver_subject": "push.one", "flow_control": True, "idle_heartbeat": SECOND},
    ),
    "QUEUE": ("LOG", {"deliver_subject": "push.all", "deliver_group": "members"}),
    "RETRY": ("LOG", {"max_deliver": 3, "metadata": {"jetgate.dead_letter": "DEAD"}}),
    "TRASHER": ("TRASH", {}),
    "WORKER": ("WORK", {"max_ack_pending": 40}),
    "FIRST": ("INTEREST", {}),
    "SECOND": ("INTEREST", {}),
}


PINNED = ("PULL", "REST", "SOCKET")
"""Kinds of consumers that exist once per node, for a client that uses only that node."""
FOLLOWERS = ("ordered", "socket")
"""Clients that read LOG from its beginning, at any node."""
PINNED_FOLLOWERS = ("ordered", "socket", "tail")
"""Clients that read LOG from its beginning at a single node; each exists once per node."""


def consumers(nodes: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return stream and configuration of each consumer, by name, for a run with `nodes` nodes."""
    pinned: dict[str, tuple[str, dict[str, Any]]] = {
        f"{name}{number}": ("LOG", {}) for name in PINNED for number in range(nodes)
    }
    return {**CONSUMERS, **pinned}


_RETENTIONS = {  # not derivable from the configuration
    "KV": "latest",
    "TRASH": "removing",
    "FULL": "removing",
    "RING": "ring",
    "FADING": "fading",
}


def rules(nodes: int) -> Rules:
    """Return the guarantees that the checker applies to a run with `nodes` nodes."""
    of_nodes = {f"{name}{number}": f"node{number}" for name in PINNED for number in range(nodes)}
    return Rules(
        tuple(_stream_rule(name, config) for name, config in STREAMS.items()),
        tuple(
            ConsumerRule(
                stream,
                name,
                acks=config.get("ack_policy", "explicit"),
                max_deliver=config.get("max_deliver", 0),
                max_pending=config.get("max_ack_pending", 0),
                ack_wait=_ACK_WAIT,
                node=of_nodes.get(name, ""),
                pushed="deliver_subject" in config,
            )
            for name, (stream, config) in consumers(nodes).items()
        ),
        time.time_ns() - time.monotonic_ns(),
        (
            *(ReaderRule(name, "LOG") for name in FOLLOWERS),
            *(
                ReaderRule(f"{name}{number}", "LOG", f"node{number}")
                for name in PINNED_FOLLOWERS
                for number in range(nodes)
            ),
        ),
    )


def _stream_rule(name: str, config: dict[str, Any]) -> StreamRule:
    return StreamRule(
        name,
        retention=_RETENTIONS.get(name, config.get("retention", "limits")),
        mirror=config.get("mirror", {}).get("name", ""),
        sources=tuple(source["name"] for source in config.get("sources", [])),
        dead_letters_of="RETRY" if name == "DEAD" else "",
        max_msgs=config.get("max_msgs", 0),
        ttl=TTL_S * SECOND if name == "FADING" else 0,
    )


def create(wires: Sequence[Wire]) -> None:
    """Create all streams and consumers.

    `wires` are connections to the nodes. Streams are created on them in rotation, so that each node
    leads some.
    """
    for (name, config), wire in zip(STREAMS.items(), itertools.cycle(wires), strict=False):
        made = {"name": name, "duplicate_window": _LONG, **config}
        if "mirror" in config:
            del made["duplicate_window"]
        answer = wire.api(f"STREAM.CREATE.{name}", made)
        assert "error" not in answer, (name, answer)
    for name, (stream, config) in consumers(len(wires)).items():
        wanted = {"durable_name": name, "ack_policy": "explicit", "ack_wait": _ACK_WAIT, **config}
        answer = wires[0].api(
            f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": wanted}
        )
        assert "error" not in answer, (name, answer)
