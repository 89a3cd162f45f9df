"""Time to live of single messages, and subject delete markers (ADR-43).

Lifetimes are always read from the stored header block. So a restart, a mirror and an update of the
configuration find the same lifetimes as the publish.
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
"""The TTL of a message that neither a TTL nor `max_age` removes."""

MAX_AGE, REMOVE, PURGE = b"MaxAge", b"Remove", b"Purge"
"""The reasons for which a subject loses its last message."""

MARKER_METADATA = "jetgate.markers"
"""The metadata of a stream that lists the kinds of removals that leave markers."""

_REASONS = {"Remove": REMOVE, "Purge": PURGE}
_PURGED = b"PURGE"
_LINE_END = b"\r\n"


@lru_cache(1024)
def parse_ttl(value: bytes) -> int | None:
    """Parse a `Nats-TTL` value as whole seconds.

    Returns:
        0 for no TTL (the reference server accepts `00` for it), NEVER, or None for an invalid
            value.
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
    """Parse digits as in the reference server: 64 bits, with overflow wrapped around."""
    seconds = parse_wrapped(value)
    return None if seconds is None or seconds >> 63 else seconds


def ttl_of(block: bytes) -> int:
    """Return the TTL of a stored message in seconds (0: no TTL of its own), or NEVER."""
    value = find(block, TTL)
    return (parse_ttl(value) or 0) if value else 0


def is_marker(block: bytes) -> bool:
    """Decide whether a message marks its subject as empty, so that no marker follows it."""
    return bool(find(block, MARKER_REASON)) or find(block, KV_OPERATION) == _PURGED


@lru_cache(4096)
def life_of(block: bytes) -> tuple[int, bool]:
    """Return `ttl_of` and `is_marker` of a block, cached because many blocks are equal."""
    return ttl_of(block), is_marker(block)


def raised(block: bytes, least: int) -> bytes:
    """Return a block whose TTL is at least `least` seconds. A lower TTL is replaced, at the end."""
    if not 0 < ttl_of(block) < least:
        return block
    name = TTL + b":"
    lines = [line for line in block[:-4].split(_LINE_END) if not line.startswith(name)]
    return _LINE_END.join([*lines, b"%b: %d" % (TTL, least), b"", b""])


def marker_reasons_of(config: StreamConfig) -> frozenset[bytes]:
    """Return the reasons for which a stream wants markers, beside age.

    The metadata value is `Remove` (a message is deleted), `Purge`, or both, separated by a comma.

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
    """Return the header block of a marker with a TTL of `ttl` nanoseconds, in whole seconds."""
    text = format_duration(ttl // NANOS_PER_SECOND * NANOS_PER_SECOND).encode()
    pairs = ((MARKER_REASON, reason), (TTL, text), (ROLLUP, b"sub"))
    return b"NATS/1.0\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in pairs) + _LINE_END
