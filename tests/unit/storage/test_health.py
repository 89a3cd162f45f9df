"""Outages of storage: when one begins and ends, what the log says of it, how long it was."""

# Subject: storage, operations

import asyncio
import logging

import pytest

from core.storage import health
from core.storage.health import COMMITS, SESSION, SPACE, Outage, StorageHealth, waits
from tests.support.eventually import observed
from tests.support.sessions import ManualClock


def test_an_outage_lasts_from_the_first_trouble_to_the_end_of_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        began = clock.now() / 1e9
        found = StorageHealth(clock)
        found.works(SESSION)
        assert found.is_up
        found.failed(SESSION, "connection\nrefused")
        clock.advance(2)
        found.failed(COMMITS, "no answer")
        found.failed(COMMITS, "another word")
        found.works(SESSION)
        assert found.trouble == "no answer"
        assert found.outage_seconds() == 2
        clock.advance(1)
        found.committed()
        assert found.is_up
        assert found.trouble == ""
        clock.advance(1)
        assert (found.outages, found.outage_seconds()) == (1, 3)
        found.failed(SPACE, "full")
        clock.advance(1)
        assert found.history[-1] == Outage(began + 4, None, "full")
        found.works(SPACE)
        assert (found.outages, found.outage_seconds()) == (2, 4)
        assert found.history == (
            Outage(began, 3, "connection refused"),
            Outage(began + 4, 1, "full"),
        )

    with caplog.at_level(logging.INFO, "core.storage.health"):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "storage outage begins: connection refused",
        "storage outage ends after 3.0 s",
        "storage outage begins: full",
        "storage outage ends after 1.0 s",
    ]


def test_a_long_outage_is_remembered_again_and_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REMINDER_S", 0.001)

    async def scenario() -> None:
        found = StorageHealth(ManualClock())
        found.failed(SESSION, "gone")
        await observed(lambda: len(caplog.records) >= 3)
        found.works(SESSION)

    with caplog.at_level(logging.INFO, "core.storage.health"):
        asyncio.run(scenario())
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == "storage outage begins: gone"
    assert set(texts[1:-1]) == {"storage outage lasts for 0 s: gone"}
    assert texts[-1] == "storage outage ends after 0.0 s"


def test_a_slow_session_has_failed_until_it_answers() -> None:
    async def scenario() -> None:
        found = StorageHealth(ManualClock())
        found.slow(SESSION, 60, "never said")()
        found.slow(SESSION, 0, "too late")
        await observed(lambda: not found.is_up)
        assert found.trouble == "too late"
        found.works(SESSION)

    asyncio.run(scenario())


def test_waits_are_logged_when_they_go_on_without_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "core.storage.health.waits"]

    async def scenario() -> None:
        clock = ManualClock()
        found = StorageHealth(clock)
        waits.addFilter(found.may_log)
        try:
            for _ in range(25):
                waits.warning("sweeping waits: %s", "denied")
                clock.advance(1)
            assert len(lines()) == 2
            found.failed(SESSION, "gone")
            for _ in range(25):
                waits.warning("sweeping waits: %s", "gone")
                clock.advance(1)
            found.works(SESSION)
            clock.advance(60)
            waits.warning("sweeping waits: %s", "denied")
            assert len(lines()) == 2
        finally:
            waits.removeFilter(found.may_log)

    with caplog.at_level(logging.INFO, "core.storage.health.waits"):
        asyncio.run(scenario())
