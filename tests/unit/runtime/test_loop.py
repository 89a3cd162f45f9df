"""What fails in a callback of the loop is told."""

# Subject: costs

import asyncio

import pytest

from core.runtime.loop import new_loop


def test_a_callback_that_fails_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("something is wrong")

    async def run() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())

    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "something is wrong" in record.message
    assert record.exc_info


def test_an_exception_of_an_unawaited_future_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        asyncio.get_running_loop().create_future().set_exception(OSError("gone"))
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())

    assert not caplog.records
