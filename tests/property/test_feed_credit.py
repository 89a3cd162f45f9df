"""Credit and buffer of a feed: never more than was granted, never less than could be sent."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from core.client.feeds import Feed
from core.client.msg import Msg
from core.client.subscribe.inbox import Inbox, Limits

_LIMITS = Limits(20, 2000)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 700)),
        st.tuples(st.just("grant"), st.tuples(st.integers(0, 40), st.integers(0, 9000))),
        st.tuples(st.just("read"), st.integers(1, 9)),
    ),
    max_size=60,
)


class _Feed(Feed[Msg]):
    """A feed that is filled by hand."""

    def __init__(self) -> None:
        super().__init__(Inbox(_LIMITS), None)

    def arrive(self, size: int) -> bool:
        """Let a message of so many bytes arrive; False where there is no room for it."""
        if self._inbox.is_full:
            return False
        self._inbox.put(Msg(b"s", b"", b"", bytes(size)))
        self._inbox.wake()
        return True

    async def close(self) -> None:
        self._inbox.end(drop=True)

    @property
    def held(self) -> tuple[int, int]:
        return self._inbox.messages, self._inbox.nbytes


@given(STEPS)
def test_a_feed_sends_what_is_granted_and_nothing_else(steps: list[tuple[str, object]]) -> None:
    async def scenario() -> None:
        feed = _Feed()
        waiting: list[int] = []
        granted, sent, sent_bytes = (0, 0), 0, 0
        for what, value in steps:
            if what == "arrive":
                assert isinstance(value, int)
                if feed.arrive(value):
                    waiting.append(value + 1)
            elif what == "grant":
                assert isinstance(value, tuple)
                feed.grant(*value)
                granted = (max(granted[0], value[0]), max(granted[1], value[1]))
            else:
                assert isinstance(value, int)
                due = 0
                total = sent_bytes
                while due < min(value, len(waiting)) and sent + due < granted[0]:
                    if total >= granted[1]:
                        break
                    total += waiting[due]
                    due += 1
                batch = await feed.batch(value, within=0)
                assert [msg.size for msg in batch] == waiting[:due]
                del waiting[:due]
                sent, sent_bytes = sent + due, total
            assert feed.held == (len(waiting), sum(waiting))
            assert feed.held[0] <= _LIMITS.messages
            assert feed.held[1] < _LIMITS.nbytes + 701

    asyncio.run(scenario())


@given(st.integers(1, 5), st.booleans())
def test_a_reader_that_waits_is_woken_by_whatever_was_missing(number: int, grants: bool) -> None:
    async def scenario() -> None:
        feed = _Feed()
        if grants:
            feed.grant(number, 1)
        else:
            for _ in range(number):
                feed.arrive(0)
        reading = asyncio.create_task(feed.batch())
        await asyncio.sleep(0)
        assert not reading.done()
        if grants:
            feed.arrive(5)
        else:
            feed.grant(1, 1)
        assert len(await reading) == 1

    asyncio.run(scenario())
