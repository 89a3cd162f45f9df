"""What a node knows of the streams of all: news taken in any order, and readings shared."""

# Subject: several nodes

import asyncio
import json
from typing import Any

import pytest

from core.cluster.directory import StreamDirectory
from core.cluster.directory_follower import DirectoryFollower
from core.errors import Unavailable
from core.storage.interface import DirectoryNews, DirectoryRow
from core.units import LeaseGroup
from tests.support.lease_groups import lease_groups


def row(number: int, name: str, group: int = 0) -> DirectoryRow:
    return DirectoryRow(number, "$G", name, LeaseGroup(group), 7, f'{{"name":"{name}"}}')


def news(version: int, *rows: DirectoryRow, is_whole: bool = False) -> DirectoryNews:
    return DirectoryNews(version, rows, is_whole)


def known(directory: StreamDirectory) -> tuple[int, dict[str, int]]:
    return directory.version, {name: s.number for name, s in directory.of("$G").items()}


def test_news_are_added_and_those_that_are_known_change_nothing() -> None:
    directory = StreamDirectory()
    assert not directory.is_known
    directory.apply(news(2, row(1, "A"), row(2, "B"), is_whole=True))
    # The name of a deleted stream may be that of a new one, in whatever order they come.
    directory.apply(news(4, row(3, "A"), DirectoryRow(1, is_deleted=True)))
    assert known(directory) == (4, {"A": 3, "B": 2})
    directory.apply(news(3, row(1, "A")))
    assert known(directory) == (4, {"A": 3, "B": 2})
    assert directory.find("OTHER", "A") is None


def test_everything_replaces_what_is_known_unless_more_was_taken_since_it_was_read() -> None:
    directory = StreamDirectory()
    directory.apply(news(5, row(1, "A"), is_whole=True))
    began = directory.updates
    directory.apply(news(6, row(2, "B")))
    directory.apply(news(5, row(1, "A"), is_whole=True), began)
    assert known(directory) == (6, {"A": 1, "B": 2})
    # A database that went back has less than was known.
    directory.apply(news(3, row(1, "A"), is_whole=True), directory.updates)
    assert known(directory) == (3, {"A": 1})


def test_the_smallest_of_some_groups_has_the_fewest_streams() -> None:
    directory = StreamDirectory()
    rows = (row(1, "A", 0), row(2, "B", 1), row(3, "C", 1), row(4, "D", 2))
    directory.apply(news(4, *rows, is_whole=True))
    assert directory.group_for_new_stream(lease_groups(*range(3))) == 0
    assert directory.group_for_new_stream(lease_groups(1, 2)) == 2
    coming = LeaseGroup(0), frozenset[str]()
    assert directory.group_for_new_stream(lease_groups(*range(3)), coming=[coming]) == 2
    assert directory.group_for_new_stream(lease_groups(*range(2)), coming=[(LeaseGroup(0), X)]) == 1
    directory.apply(news(6, DirectoryRow(2, is_deleted=True), DirectoryRow(3, is_deleted=True)))
    assert directory.group_for_new_stream(lease_groups(0, 1, 2)) == 1


def asking(number: int, group: int, *tags: str) -> DirectoryRow:
    """A stream whose placement names tags."""
    config = {"name": f"S{number}", "placement": {"tags": list(tags)}}
    return DirectoryRow(number, "$G", f"S{number}", LeaseGroup(group), 7, json.dumps(config))


X, XY = frozenset("x"), frozenset("xy")


def test_a_group_asks_for_the_tags_of_all_its_streams() -> None:
    directory = StreamDirectory()
    rows = (asking(1, 0, "x"), asking(2, 0, "y"), row(3, "C", 1), asking(4, 2), asking(5, 3, "x"))
    directory.apply(news(5, *rows, is_whole=True))
    assert directory.tags() == {0: XY, 3: X}
    directory.apply(news(6, asking(1, 0)))
    assert directory.tags() == {0: {"y"}, 3: X}
    directory.apply(news(7, DirectoryRow(2, is_deleted=True)))
    assert directory.tags() == {3: X}
    assert directory.groups() == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_new_stream_binds_no_other_by_its_tags_and_is_bound_by_none() -> None:
    directory = StreamDirectory()
    rows = (row(1, "A", 0), asking(2, 1, "x"), asking(3, 2, "y", "x"), asking(4, 2, "x", "y"))
    directory.apply(news(4, *rows, is_whole=True))
    assert directory.group_for_new_stream(lease_groups(*range(4)), XY) == 3
    assert directory.group_for_new_stream(lease_groups(*range(3)), XY) == 2
    assert directory.group_for_new_stream(lease_groups(*range(3)), X) == 1
    assert directory.group_for_new_stream(lease_groups(*range(3))) == 0


def test_where_every_group_is_bound_one_with_the_same_tags_comes_before_a_smaller_one() -> None:
    directory = StreamDirectory()
    rows = (asking(1, 0, "x"), row(2, "B", 0), row(3, "C", 0), row(4, "D", 1), row(5, "E", 2))
    directory.apply(news(5, *rows, asking(6, 2, "y"), is_whole=True))
    assert directory.group_for_new_stream(lease_groups(*range(3)), X) == 0
    assert directory.group_for_new_stream(lease_groups(*range(3)), XY) == 1
    assert directory.group_for_new_stream(lease_groups(0, 2)) == 2


class Source:
    """A storage whose readings a test lets through."""

    def __init__(self) -> None:
        self.readings: list[asyncio.Future[DirectoryNews]] = []
        self.asked = asyncio.Semaphore(0)

    async def news(self, since: int) -> DirectoryNews:
        self.readings.append(asyncio.get_running_loop().create_future())
        self.asked.release()
        return await self.readings[-1]

    async def close(self) -> None:
        """There is no session."""


async def _tick() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fails", [False, True])
def test_requests_during_a_read_share_the_next_one(fails: bool) -> None:
    async def scenario() -> None:
        source = Source()
        follower = DirectoryFollower(source)
        first = asyncio.ensure_future(follower.refresh())
        await source.asked.acquire()
        others = [asyncio.ensure_future(follower.refresh()) for _ in range(20)]
        await _tick()
        source.readings[0].set_result(news(1, is_whole=True))
        await first
        await source.asked.acquire()
        if fails:
            source.readings[1].set_exception(Unavailable("away"))
        else:
            source.readings[1].set_result(news(2, row(1, "A")))
        ends: list[Any] = await asyncio.gather(*others, return_exceptions=True)
        assert [isinstance(end, Unavailable) for end in ends] == [fails] * 20
        assert len(source.readings) == 2
        assert follower.directory.version == (1 if fails else 2)
        await follower.close()

    asyncio.run(scenario())


def test_an_announced_version_is_read_until_it_is_known() -> None:
    async def scenario() -> None:
        source = Source()
        follower = DirectoryFollower(source)
        follower.on_version(1)
        await source.asked.acquire()
        follower.on_version(2)
        source.readings[0].set_result(news(1, is_whole=True))
        await source.asked.acquire()
        source.readings[1].set_result(news(2, row(1, "A")))
        await _tick()
        assert follower.directory.version == 2
        # The database went back: what a peer has read before that is not there any more.
        follower.on_version(9)
        await source.asked.acquire()
        source.readings[2].set_result(news(2))
        await _tick()
        assert len(source.readings) == 3
        await follower.close()

    asyncio.run(scenario())
