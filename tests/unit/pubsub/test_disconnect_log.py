"""The log of ended connections: what is worth a line, and how many lines."""

# Subject: routing, operations

import logging
from dataclasses import dataclass

import pytest

from core.pubsub.disconnect_log import DisconnectLog
from tests.support.sessions import ManualClock


@dataclass
class Client:
    client_id: int = 7
    client_ip: str = "192.0.2.1"
    client_port: int = 4000
    connect_user: str = "eve"


def test_wrong_credentials_are_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    disconnects = DisconnectLog(ManualClock())
    with caplog.at_level(logging.INFO, "core.pubsub.disconnect_log"):
        disconnects.note(Client(), "Authentication Failure")
        disconnects.note(Client(client_port=0), "Authentication Failure")  # asked over HTTP

    assert disconnects.authentication_failures == 2
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == '192.0.2.1:4000 - cid:7 - authentication error - User "eve"'


def test_a_name_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    disconnects = DisconnectLog(ManualClock())
    with caplog.at_level(logging.INFO, "core.pubsub.disconnect_log"):
        disconnects.note(Client(connect_user='a"\n\x1b'), "Authentication Failure")
        disconnects.failed_over_http("192.0.2.1", 'a"\n\x1b')

    assert [record.getMessage().partition(" - User ")[2] for record in caplog.records] == [
        r'"a\"\n\x1b"'
    ] * 2


def test_clients_that_go_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    disconnects = DisconnectLog(ManualClock())
    with caplog.at_level(logging.INFO, "core.pubsub.disconnect_log"):
        for reason in ("Client Closed", "Read Error", "Server Shutdown"):
            disconnects.note(Client(), reason)
        disconnects.note(Client(), "Stale Connection")

    assert [record.getMessage() for record in caplog.records] == [
        "192.0.2.1:4000 - cid:7 - Stale Connection"
    ]


def test_a_flood_is_ten_lines_a_second_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    disconnects = DisconnectLog(clock)
    with caplog.at_level(logging.INFO, "core.pubsub.disconnect_log"):
        for _ in range(500):
            disconnects.note(Client(), "Protocol Violation")
        assert len(caplog.records) == 10
        clock.advance(1)
        disconnects.note(Client(), "Protocol Violation")

    assert len(caplog.records) == 12
    assert caplog.records[10].getMessage() == "490 more ends of connections were not logged"
