"""Names of the files of a lake: the day, the stream, and which sequences are inside.

    day=2026-11-22/stream=DEB/20261122T165228.183912345Z-00000000000000000001-00000000000000063666.parquet

The time is that of the stream's creation, which tells a stream from a later one of its name; then
the first and the last sequence. Names sort as the messages do.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

_NAME = re.compile(
    r"(?:.*/)?day=(\d{4}-\d\d-\d\d)/stream=([^/]+)/(\d{8}T\d{6})\.(\d{9})Z-(\d{20})-(\d{20})\.parquet"
)
_SECOND = 10**9
_DAY = 86400 * _SECOND


@dataclass(frozen=True, slots=True, order=True)
class LakeFile:
    """Which messages a file of a lake holds.

    Args:
        day: As in `2026-11-22`, UTC.
        stream: Its name.
        incarnation: When the stream was created, in nanoseconds since the epoch.
        first, last: The first and the last sequence inside.
    """

    day: str
    stream: str
    incarnation: int
    first: int
    last: int

    @property
    def path(self) -> str:
        """The path below the lake."""
        created = datetime.fromtimestamp(self.incarnation // _SECOND, UTC)
        return (
            f"day={self.day}/stream={quote(self.stream, safe='')}/"
            f"{created:%Y%m%dT%H%M%S}.{self.incarnation % _SECOND:09}Z-"
            f"{self.first:020}-{self.last:020}.parquet"
        )


def parsed(path: str) -> LakeFile | None:
    """The file of a path, or None where the name is not one that an archive gives."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    created = datetime.strptime(match[3], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    incarnation = int(created.timestamp()) * _SECOND + int(match[4])
    return LakeFile(match[1], unquote(match[2]), incarnation, int(match[5]), int(match[6]))


def day_of(ns: int) -> str:
    """The day, UTC, of a time in nanoseconds since the epoch."""
    return f"{datetime.fromtimestamp(ns // _DAY * 86400, UTC):%Y-%m-%d}"
