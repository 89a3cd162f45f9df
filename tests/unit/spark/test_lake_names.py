"""Names of the files of a lake."""

# Subject: Spark rows, Spark pipelines

import pytest
from pyspark_jetstream.pipelines.names import LakeFile, day_of, parsed


@pytest.mark.parametrize("stream", ["DEB", "a-b_c", "µ", "50%", "a=b"])
def test_a_name_is_read_back_as_it_was_written(stream: str) -> None:
    one = LakeFile("2026-11-22", stream, 1763830348183912345, 1, 63666)
    assert parsed(one.path) == one
    assert parsed("s3/lake/" + one.path) == one


def test_a_name_has_day_stream_creation_and_sequences() -> None:
    assert LakeFile("2026-11-22", "a b", 1763830348183912345, 1, 63666).path == (
        "day=2026-11-22/stream=a%20b/"
        "20251122T165228.183912345Z-00000000000000000001-00000000000000063666.parquet"
    )


def test_names_sort_as_the_messages_do() -> None:
    files = [LakeFile("2026-11-22", "S", 5, first, first + 8) for first in (1, 9, 90, 1000)]
    again = LakeFile("2026-11-22", "S", 10**18, 1, 2)
    assert sorted(f.path for f in [*reversed(files), again]) == [f.path for f in [*files, again]]


@pytest.mark.parametrize("path", ["part-0.parquet", "day=2026-11-22/stream=S/x.parquet", ""])
def test_other_files_are_none_of_an_archive(path: str) -> None:
    assert parsed(path) is None


def test_a_day_begins_at_midnight_in_utc() -> None:
    midnight = 1763769600 * 10**9
    assert day_of(midnight - 1) == "2025-11-21"
    assert day_of(midnight) == "2025-11-22"
