"""What readers behind the tail share: whose page it is, where one goes on, and for how long."""

# Subject: HTTP, feeds

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from core.client.msg import Msg
from core.client.subscribe import JsMsg, Position
from gateway.readers.entries import Entry, Gap
from gateway.readers.page import Page
from gateway.readers.pages import PageReader
from gateway.readers.recent import RecentPages


class _Loop(asyncio.SelectorEventLoop):
    """A loop of which a test moves the time."""

    now = 0.0

    def time(self) -> float:
        return self.now


@dataclass(eq=False)
class _Pages:
    position: Position
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        self.closed.set()


def _in_a_loop(play: Callable[[RecentPages, _Loop], None]) -> None:
    loop = _Loop()

    async def run() -> None:
        recent = RecentPages()
        play(recent, loop)
        recent.clear()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def _at(seq: int, incarnation: int = 7) -> Position:
    return Position(incarnation, seq)


def _page(begin: int, end: int) -> Page:
    acks = [b"$JS.ACK.S.C.1.%d.1.0.0" % seq for seq in range(begin + 1, end + 1)]
    items = [Entry(JsMsg.of(Msg(b"a", ack, b"", b""), takes_acks=False)) for ack in acks]
    return Page(_at(begin), items)


def _consumer(seq: int) -> tuple[_Pages, PageReader]:
    made = _Pages(_at(seq))
    return made, cast(PageReader, made)


def test_the_page_with_most_of_what_follows_is_found() -> None:
    def play(recent: RecentPages, loop: _Loop) -> None:
        first, second = _page(0, 10), _page(8, 18)
        recent.add(first)
        recent.add(second)
        assert recent.behind(_at(3)) == (first, 3)
        assert recent.behind(_at(9)) == (second, 1)
        assert recent.behind(_at(18)) is None
        assert recent.behind(_at(3, incarnation=8)) is None

    _in_a_loop(play)


def test_a_page_with_a_gap_is_for_one_reader() -> None:
    def play(recent: RecentPages, loop: _Loop) -> None:
        gap = Gap(_at(0), _at(4), 5, 9)
        recent.add(Page(_at(0), [gap]))
        assert recent.behind(_at(0)) is None

    _in_a_loop(play)


def test_a_consumer_is_lent_once_and_to_a_reader_a_little_ahead_of_it() -> None:
    def play(recent: RecentPages, loop: _Loop) -> None:
        told, pages = _consumer(100)
        recent.release(pages)
        assert recent.acquire(_at(99)) is None
        assert recent.acquire(_at(5000)) is None
        assert recent.acquire(_at(100, incarnation=8)) is None
        assert recent.acquire(_at(120)) is pages
        assert recent.acquire(_at(120)) is None
        assert not told.closed.is_set()

    _in_a_loop(play)


def test_too_many_consumers_are_not_kept() -> None:
    def play(recent: RecentPages, loop: _Loop) -> None:
        made = [_consumer(seq) for seq in range(20)]
        for _, pages in made:
            recent.release(pages)
        assert [told.closed.is_set() for told, _ in made] == [True] * 4 + [False] * 16
        recent.clear()
        assert all(told.closed.is_set() for told, _ in made)

    _in_a_loop(play)


def test_after_two_seconds_nothing_is_kept() -> None:
    loop = _Loop()

    async def run() -> None:
        recent = RecentPages()
        early, pages = _consumer(5)
        recent.add(_page(0, 5))
        recent.release(pages)
        loop.now = 1
        late, pages = _consumer(9)
        recent.release(pages)
        loop.now = 2
        await early.closed.wait()
        assert recent.behind(_at(0)) is None
        assert not late.closed.is_set()
        loop.now = 3
        await late.closed.wait()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
