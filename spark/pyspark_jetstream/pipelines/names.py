"""Names of the Parquet files of an archive: the day, the stream, and the range of sequences.

    day=2026-11-22/stream=DEB/20261122T165228.183912345Z-00000000000000000001-00000000000000063666.parquet

The time is the creation time of the stream, which distinguishes streams of the same name. The first
and the last sequence follow. Names sort in the order of the messages.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from pyspark_jetstream.units import NANOS_PER_SECOND

_NAME = re.compile(
    r"(?:.*/)?day=(\d{4}-\d\d-\d\d)/stream=([^/]+)/(\d{8}T\d{6})\.(\d{9})Z-(\d{20})-(\d{20})\.parquet"
)
_DAY = 86400 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True, order=True)
class LakeFile:
    """The messages that one file of an archive contains, as its name states them.

    Attributes:
        day: UTC day of the messages, such as `2026-11-22`.
        stream: Name of the stream.
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        first, last: First and last sequence.
    """

    day: str
    stream: str
    incarnation: int
    first: int
    last: int

    @property
    def path(self) -> str:
        """The path of the file, relative to the archive."""
        created = datetime.fromtimestamp(self.incarnation // NANOS_PER_SECOND, UTC)
        return (
            f"day={self.day}/stream={quote(self.stream, safe='')}/"
            f"{created:%Y%m%dT%H%M%S}.{self.incarnation % NANOS_PER_SECOND:09}Z-"
            f"{self.first:020}-{self.last:020}.parquet"
        )


def parsed(path: str) -> LakeFile | None:
    """Parse the path of a file; return None if it is not the name of an archived file."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    created = datetime.strptime(match[3], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    incarnation = int(created.timestamp()) * NANOS_PER_SECOND + int(match[4])
    return LakeFile(match[1], unquote(match[2]), incarnation, int(match[5]), int(match[6]))


def day_of(ns: int) -> str:
    """Return the UTC day of a time in nanoseconds since the epoch."""
    return f"{datetime.fromtimestamp(ns // _DAY * 86400, UTC):%Y-%m-%d}"
