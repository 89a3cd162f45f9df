"""A handler that waits for something, and a caller who does not."""

# Subject: HTTP

import asyncio
from typing import Any, cast

import pytest

from gateway.auth.caller import Caller
from gateway.http.disconnects import Disconnected
from gateway.requests.call import Call


def _call(*events: str, stays: bool) -> Call:
    """A request of which this comes; then its caller stays, or has gone."""
    coming = list(events)

    async def receive() -> dict[str, Any]:
        if coming:
            return {"type": coming.pop(0)}
        if stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "headers": []}
    return Call(cast(Caller, _Nobody()), scope, receive, {}, {})


class _Nobody:
    gateway = None


def test_a_wait_ends_with_its_caller() -> None:
    async def run() -> None:
        ended: list[str] = []

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")

        with pytest.raises(Disconnected):
            await _call("http.request", stays=False).until_disconnected(wait())
        assert ended == ["cleaned up"]

    asyncio.run(run())


def test_results_and_errors_in_time_are_passed_on() -> None:
    async def run() -> None:
        async def late() -> str:
            await asyncio.sleep(0)
            return "there"

        async def wrong() -> None:
            raise TimeoutError("its own")

        call = _call("http.request", stays=True)
        assert await call.until_disconnected(late()) == "there"
        with pytest.raises(TimeoutError, match="its own"):
            await call.until_disconnected(wrong())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
