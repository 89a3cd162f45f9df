"""The formats of times and durations on the monitoring pages."""

from datetime import UTC, datetime

from core.units import NANOS_PER_SECOND


def moment(nanos: int) -> str:
    """Format a time in nanoseconds since the Unix epoch as Go does in JSON (RFC 3339, UTC).

    0 becomes Go's zero time, `0001-01-01T00:00:00Z`.
    """
    if not nanos:
        return "0001-01-01T00:00:00Z"
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def age(nanos: int) -> str:
    """Format a duration in nanoseconds as uptimes are shown: `1s`, `2m5s`, `3d0h0m1s`."""
    seconds = max(nanos, 0) // NANOS_PER_SECOND
    parts: list[str] = []
    for unit, size in (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(parts) + f"{seconds}s"
