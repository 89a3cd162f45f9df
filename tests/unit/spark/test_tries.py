"""How long a client goes on trying, and after which answers."""

# Subject: Spark rows, Spark faults

import pytest
from pyspark_jetstream.nats import tries
from pyspark_jetstream.nats.errors import Away, Refused, refused
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.nats.tries import Tries, pauses, tries_within
from pyspark_jetstream.nats_options import nats_settings
from pyspark_jetstream.values import Values


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that were asked for; none is made."""
    found: list[float] = []
    monkeypatch.setattr(tries, "pause", found.append)
    return found


def test_pauses_grow_up_to_a_limit() -> None:
    assert [round(pauses(failed), 1) for failed in range(1, 8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]
    assert pauses(10_000) == 5


@pytest.mark.parametrize("seconds", [0.0, 0.1, 6.2, 60.0, 3600.0])
def test_there_are_as_many_tries_as_the_timeout_has_room_for(
    seconds: float, paused: list[float]
) -> None:
    settings = nats_settings(Values({"servers": "nats://h"}), seconds)
    assert settings is not None
    assert settings.retries == tries_within(seconds)
    trying = Tries(settings)
    while trying.again():
        pass
    assert sum(paused) >= seconds * 0.9, "no time passes without pauses, so that all are made"
    assert sum(paused[:-1]) < seconds or not paused


def test_tries_that_are_asked_for_are_made(paused: list[float]) -> None:
    trying = Tries(Settings(retries=2))
    assert [trying.again() for _ in range(3)] == [True, True, False]
    trying.restart()
    assert trying.again()
    assert paused == [0.2, 0.4, 0.2]


def test_an_api_whose_storage_is_away_is_distinguished_from_one_that_refuses() -> None:
    away = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily ..."}
    assert type(refused(away)) is Away
    found = refused({"code": 404, "err_code": 10059, "description": "stream not found"})
    assert (type(found), found.code, found.err_code) == (Refused, 404, 10059)
    assert refused({}).description == ""
