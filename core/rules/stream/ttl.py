"""TTLs of single messages, and subject delete markers (ADR-43).

A delete marker is a message without payload that is stored on a subject whose last message was
removed. TTLs are always read from the stored header block. So a restart, a mirror and an update of
the configuration find the same TTLs as the publish.
"""

from functools import lru_cache

from core.goinput import parse_wrapped
from core.model.durations import parse_duration
from core.model.gotime import format_duration
from core.model.stream import StreamConfig
from core.rules.stream.headers import ROLLUP, TTL, find
from core.units import NANOS_PER_SECOND

MARKER_REASON = b"Nats-Marker-Reason"
KV_OPERATION = b"KV-Operation"

NEVER = -1
"""The TTL of a message that is never removed by age, not even by `max_age`."""

MAX_AGE, REMOVE, PURGE = b"MaxAge", b"Remove", b"Purge"
"""The reasons in the header of a delete marker: expiry, delete of a message, purge."""

MARKER_METADATA = "jetgate.markers"
"""The key in a stream's metadata whose value lists the removals that leave delete markers."""

_REASONS = {"Remove": REMOVE, "Purge": PURGE}
_PURGED = b"PURGE"
_LINE_END = b"\r\n"


@lru_cache(1024)
def parse_ttl(value: bytes) -> int | None:
    """Parse a `Nats-TTL` value as whole seconds.

    Returns 0 for no TTL (as in nats-server for `00`), NEVER, or None for an invalid value.
    """
    text = value.decode("latin-1")
    if text.lower() == "never":
        return NEVER
    try:
        nanos = parse_duration(value.decode())
    except ValueError:
        return _plain_seconds(value)
    return nanos // NANOS_PER_SECOND if nanos >= NANOS_PER_SECOND else None


def _plain_seconds(value: bytes) -> int | None:
    """Parse digits as nats-server does: 64 bits, with overflow wrapped around."""
    seconds = parse_wrapped(value)
    return None if seconds is None or seconds >> 63 else seconds


def ttl_of(block: bytes) -> int:
    """Return the TTL in a stored header block, in seconds (0: no TTL), or NEVER."""
    value = find(block, TTL)
    return (parse_ttl(value) or 0) if value else 0


def is_marker(block: bytes) -> bool:
    """Return whether a message is a delete marker, or the purge of a key in a key-value bucket.

    `block` is its header block. When such a message expires, no further marker is stored.
    """
    return bool(find(block, MARKER_REASON)) or find(block, KV_OPERATION) == _PURGED


@lru_cache(4096)
def life_of(block: bytes) -> tuple[int, bool]:
    """Return (`ttl_of`, `is_marker`) of a header block, cached because many blocks are equal."""
    return ttl_of(block), is_marker(block)


def raised(block: bytes, least: int) -> bytes:
    """Return a header block whose TTL is at least `least` seconds; a lower TTL is replaced."""
    if not 0 < ttl_of(block) < least:
        return block
    name = TTL + b":"
    lines = [line for line in block[:-4].split(_LINE_END) if not line.startswith(name)]
    return _LINE_END.join([*lines, b"%b: %d" % (TTL, least), b"", b""])


def marker_reasons_of(config: StreamConfig) -> frozenset[bytes]:
    """Return the reasons other than expiry for which a stream wants delete markers.

    The value in the metadata is `Remove` (a message is deleted), `Purge`, or both, separated by a
    comma.

    Raises:
        ValueError: The value is something else.
    """
    value = config.metadata.get(MARKER_METADATA)
    if value is None:
        return frozenset()
    names = [name.strip() for name in value.split(",")]
    if not set(names) <= _REASONS.keys():
        raise ValueError(f"{MARKER_METADATA} is neither Remove nor Purge nor both: {value}")
    return frozenset(_REASONS[name] for name in names)


def marker_block(reason: bytes, ttl: int) -> bytes:
    """Return the header block of a delete marker.

    `ttl` is its TTL in nanoseconds; the header has whole seconds.
    """
    text = format_duration(ttl // NANOS_PER_SECOND * NANOS_PER_SECOND).encode()
    pairs = ((MARKER_REASON, reason), (TTL, text), (ROLLUP, b"sub"))
    return b"NATS/1.0\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in pairs) + _LINE_END
