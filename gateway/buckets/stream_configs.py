"""Conversion between configurations of buckets and of streams (key-value ADR-8, objects ADR-20).

The streams equal those that official clients create for the same configuration, so both can use
each other's buckets. An update of a bucket leaves all other members of the stream unchanged.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from core.model.gotime import parse_time
from core.units import NANOS_PER_SECOND
from gateway.buckets.models import (
    External,
    KvBucket,
    KvConfig,
    ObjectStore,
    ObjectStoreConfig,
    Origin,
)
from gateway.formats.validation import duration
from gateway.http.problems import bad_request, quoted

_BUCKET = re.compile(r"[A-Za-z0-9_-]{1,200}")
_WINDOW = 120 * NANOS_PER_SECOND
_DEFAULTS: dict[str, Any] = {"max_consumers": -1, "max_msgs": -1, "discard": "new"}

_DROPPABLE = frozenset(("mirror", "mirror_direct", "placement", "republish", "sources", "subjects"))
"""Stream members that an update removes if the bucket's configuration does not have them."""

Config = KvConfig | ObjectStoreConfig


@dataclass(frozen=True, slots=True)
class Kind:
    """The differences between key-value buckets and object stores.

    Attributes:
        route: Path segment after `/v1/`.
        prefix: Prefix of the stream names.
        filter: Subject filter that finds the streams.
        config: Struct of the bucket's configuration.
        stream: Converts a bucket configuration to a stream configuration.
        shown: Converts a response to STREAM.INFO to the bucket's JSON.
    """

    route: str
    prefix: str
    filter: str
    config: type[Config]
    stream: Callable[[Any], dict[str, Any]]
    shown: Callable[[dict[str, Any]], KvBucket | ObjectStore]


def is_bucket_name(text: str) -> bool:
    """Return True if the text is a valid bucket name (ADR-8, ADR-20): 1 to 200 of `A-Za-z0-9_-`."""
    return _BUCKET.fullmatch(text) is not None


def bucket_name(text: str) -> str:
    """Check the name of a bucket, and return it. Raises Problem 400 if it is invalid."""
    if not is_bucket_name(text):
        raise bad_request(
            "bad-name", f"bucket name: {quoted(text)} is not 1 to 200 of A-Z a-z 0-9 _ -"
        )
    return text


def kv_stream(config: KvConfig) -> dict[str, Any]:
    """Convert the configuration of a key-value bucket to that of its stream.

    Raises Problem 400 if the configuration is invalid.
    """
    bucket = bucket_name(config.bucket)
    stream = _common(config, f"KV_{bucket}")
    stream["max_msgs_per_subject"] = config.history
    stream["max_msg_size"] = config.max_value_size or -1
    stream["deny_delete"] = True
    if config.republish is not None:
        stream["republish"] = msgspec.to_builtins(config.republish)
    if marker_ttl := duration(config.limit_marker_ttl, "limit_marker_ttl"):
        if marker_ttl < NANOS_PER_SECOND:
            raise bad_request("bad-duration", "limit_marker_ttl: at least 1s")
        stream["allow_msg_ttl"] = True
        stream["subject_delete_marker_ttl"] = marker_ttl
    if config.mirror is not None:
        if config.sources:
            raise bad_request("bad-json", "body: mirror and sources exclude each other")
        stream["mirror"] = _origin(config.mirror)
        stream["mirror_direct"] = True
        return stream
    stream["subjects"] = [f"$KV.{bucket}.>"]
    if config.sources:
        stream["sources"] = [_source(source, bucket) for source in config.sources]
    return stream


def object_stream(config: ObjectStoreConfig) -> dict[str, Any]:
    """Convert the configuration of an object store to that of its stream.

    Raises Problem 400 if the configuration is invalid.
    """
    bucket = bucket_name(config.bucket)
    stream = _common(config, f"OBJ_{bucket}")
    stream["subjects"] = [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"]
    return stream


def _common(config: Config, name: str) -> dict[str, Any]:
    ttl = duration(config.ttl, "ttl")
    stream = _DEFAULTS | {
        "name": name,
        "max_age": ttl,
        "max_bytes": config.max_bytes or -1,
        "storage": config.storage,
        "num_replicas": config.num_replicas,
        "duplicate_window": min(ttl or _WINDOW, _WINDOW),
        "compression": "s2" if config.compression else "none",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "metadata": config.metadata,
        "description": config.description,
    }
    if config.placement is not None:
        stream["placement"] = msgspec.to_builtins(config.placement)
    return stream


def _origin(origin: Origin) -> dict[str, Any]:
    name = origin.name.removeprefix("KV_")
    bucket_name(name)
    if origin.opt_start_time is not None:
        try:
            parse_time(origin.opt_start_time)
        except ValueError:
            raise bad_request("bad-json", "body: opt_start_time is not an RFC 3339 time") from None
    if origin.domain and origin.external is not None:
        raise bad_request("bad-json", "body: domain and external exclude each other")
    shown = msgspec.structs.replace(origin, name=f"KV_{name}", domain="")
    if origin.domain:
        shown.external = External(api=f"$JS.{origin.domain}.API")
    return {key: value for key, value in msgspec.to_builtins(shown).items() if value is not None}


def _source(origin: Origin, bucket: str) -> dict[str, Any]:
    source = _origin(origin)
    name = origin.name.removeprefix("KV_")
    if not origin.subject_transforms and (origin.external is None or name != bucket):
        # Filtered keys too: in a source, a filter and transforms exclude each other.
        src = source.pop("filter_subject", "") or f"$KV.{name}.>"
        dest = f"$KV.{bucket}." + src.removeprefix(f"$KV.{name}.")
        source["subject_transforms"] = [{"src": src, "dest": _numbered(dest)}]
    return source


def _numbered(subject: str) -> str:
    """Replace each `*` of a destination subject by `{{wildcard(1)}}`, `{{wildcard(2)}}`, ...."""
    number = 0
    tokens = subject.split(".")
    for position, token in enumerate(tokens):
        if token == "*":
            number += 1
            tokens[position] = f"{{{{wildcard({number})}}}}"
    return ".".join(tokens)


def kv_shown(info: dict[str, Any]) -> KvBucket:
    """Convert a response to STREAM.INFO to the JSON of a key-value bucket."""
    stream = info["config"]
    config = KvConfig(
        history=max(stream.get("max_msgs_per_subject", 1), 1),
        max_value_size=stream.get("max_msg_size", -1),
        limit_marker_ttl=stream.get("subject_delete_marker_ttl", 0),
        **_shown(stream, "KV_", ("republish", "mirror", "sources")),
    )
    state = info["state"]
    return KvBucket(
        bucket=config.bucket,
        stream=stream["name"],
        config=config,
        created=info["created"],
        values=state["messages"],
        keys=state.get("num_subjects", 0),
        bytes=state["bytes"],
        last_revision=state["last_seq"],
    )


def object_shown(info: dict[str, Any]) -> ObjectStore:
    """Convert a response to STREAM.INFO to the JSON of an object store."""
    stream = info["config"]
    config = ObjectStoreConfig(**_shown(stream, "OBJ_", ()))
    return ObjectStore(
        bucket=config.bucket,
        stream=stream["name"],
        config=config,
        created=info["created"],
        bytes=info["state"]["bytes"],
        sealed=stream.get("sealed", False),
    )


def _shown(stream: dict[str, Any], prefix: str, more: tuple[str, ...]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "bucket": stream["name"].removeprefix(prefix),
        "description": stream.get("description", ""),
        "ttl": stream.get("max_age", 0),
        "max_bytes": stream.get("max_bytes", -1),
        "storage": stream.get("storage", "file"),
        "num_replicas": stream.get("num_replicas", 1),
        "compression": stream.get("compression", "none") != "none",
        "metadata": {
            name: value
            for name, value in (stream.get("metadata") or {}).items()
            if not name.startswith("_nats.")
        },
    }
    for member in ("placement", *more):
        if stream.get(member):
            shown[member] = stream[member]
    return shown


def updated(stream: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Merge the wanted configuration of a bucket's stream into the current one, and return it."""
    return {key: value for key, value in stream.items() if key not in _DROPPABLE} | wanted


KV = Kind("kv", "KV_", "$KV.*.>", KvConfig, kv_stream, kv_shown)
OBJECTS = Kind("objects", "OBJ_", "$O.*.C.>", ObjectStoreConfig, object_stream, object_shown)
