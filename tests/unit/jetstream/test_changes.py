"""Changes of a log: each is answered, also when the node leads the stream no more."""

# Subject: storage faults

import asyncio

import pytest

from core.errors import ApiError, Unavailable, Unresolved
from core.jetstream.changes import Changes
from core.model.api_errors import api_error
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import PlanBuilder
from tests.unit.rules.stream.support import config

GONE = api_error("JSClusterNotAvail")
OTHER = api_error("JSStreamNotFound")


class Planned:
    """A change whose plan, or failure, comes when the test says so."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.found: asyncio.Future[PlanBuilder] = asyncio.get_running_loop().create_future()
        self.done = self.changes.add(self.plan)
        self.planning = asyncio.ensure_future(self.changes.plan_next(0))

    async def plan(self, _now: int) -> PlanBuilder:
        """Return what the test has found."""
        return await self.found

    async def begun(self) -> None:
        """Return when the change is being planned."""
        await asyncio.sleep(0)


def test_a_change_that_is_being_planned_is_refused_when_the_stream_is_led_elsewhere() -> None:
    async def scenario() -> None:
        planned = Planned()
        await planned.begun()
        planned.changes.close(GONE)
        planned.found.set_result(StreamMachine(config()).unchanged())

        assert await planned.planning is None  # nothing to commit
        with pytest.raises(ApiError) as refused:
            await planned.done
        assert refused.value.err_code == GONE.err_code
        with pytest.raises(ApiError):  # so is what comes later
            await planned.changes.add(planned.plan)

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [Unavailable("gone"), OTHER])
def test_a_change_that_could_not_be_planned_is_refused_then_too(failure: Exception) -> None:
    async def scenario() -> None:
        planned = Planned()
        await planned.begun()
        planned.changes.close(GONE)
        planned.found.set_exception(failure)

        await asyncio.wait([planned.planning])
        assert planned.planning.exception() is (failure if failure is not OTHER else None)
        assert not planned.changes
        with pytest.raises(ApiError) as refused:
            await planned.done
        assert refused.value.err_code == GONE.err_code

    asyncio.run(scenario())


def test_the_outcome_of_a_change_during_its_commit_is_unknown() -> None:
    async def scenario() -> None:
        planned = Planned()
        planned.found.set_result(StreamMachine(config()).unchanged())
        await planned.planning
        planned.changes.close(GONE)

        with pytest.raises(Unresolved):
            await planned.done

    asyncio.run(scenario())


def test_a_change_keeps_its_place_while_storage_is_away() -> None:
    async def scenario() -> None:
        planned = Planned()
        await planned.begun()
        planned.found.set_exception(Unavailable("gone"))

        with pytest.raises(Unavailable):
            await planned.planning
        assert planned.changes
        assert not planned.done.done()

    asyncio.run(scenario())
