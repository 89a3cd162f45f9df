"""One timer for all who wait."""

import asyncio

import pytest

from gateway.patience import Patience


def test_who_waits_too_long_is_told_and_others_wait_on() -> None:
    async def run() -> None:
        patience = Patience()
        loop = asyncio.get_running_loop()
        later: asyncio.Future[str] = loop.create_future()
        waiting = asyncio.ensure_future(patience.wait(later, 60))
        await asyncio.sleep(0)

        for _ in range(2):  # the timer that has told one tells the next, too
            never: asyncio.Future[str] = loop.create_future()
            with pytest.raises(TimeoutError):
                await patience.wait(never, 0.01)

        assert not waiting.done()
        later.set_result("came")
        assert await waiting == "came"

    asyncio.run(run())


def test_what_is_there_is_returned_and_what_fails_raises() -> None:
    async def value(*, is_bad: bool) -> str:
        if is_bad:
            raise ValueError("bad")
        return "there"

    async def run() -> None:
        patience = Patience()
        assert await patience.wait(value(is_bad=False), 0.01) == "there"
        with pytest.raises(ValueError, match="bad"):
            await patience.wait(value(is_bad=True), 0.01)

    asyncio.run(run())
