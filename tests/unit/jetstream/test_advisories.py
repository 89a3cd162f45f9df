"""Advisories: made only when somebody listens, with the reference's members in its order."""

# Subject: advisories

import json
from typing import Any

import pytest

from core.jetstream.advisories import Advisories
from core.model.advisory import ClientInfo
from core.model.wire import ZERO_TIME
from core.pubsub.account import Account
from core.pubsub.server import Hub
from core.runtime.loop_tick import LoopTick
from core.units import ConsumerSeq, Nanos

NOW = 1_700_000_000_000_000_000


class StoppedClock:
    def now(self) -> Nanos:
        return Nanos(NOW)

    def monotonic(self) -> Nanos:
        return Nanos(0)


@pytest.fixture
def account() -> Account:
    hub = Hub(LoopTick(), StoppedClock())
    hub.loop_tick.armed = True  # no loop here: nothing is flushed
    return hub.default_account()


def test_nothing_is_republished_without_a_subscription(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.jetstream.advisories.nuid", lambda: pytest.fail("an event was made"))
    advisories = Advisories(account, StoppedClock())
    advisories.stream_created("S")
    advisories.naked("S", "C", ConsumerSeq(1), 2, 3)
    assert not advisories.has_interest("ADVISORY.CONSUMER.MSG_NAKED", "S", "C")
    assert not advisories.audited()


def _heard(account: Account, domain: str = "") -> tuple[Advisories, list[tuple[bytes, Any]]]:
    events: list[tuple[bytes, Any]] = []
    account.subscribe(
        b"$JS.EVENT.>", lambda _, subject, reply, hdr, body: events.append((subject, body))
    )
    return Advisories(account, StoppedClock(), "server", domain), events


def test_an_event_has_the_members_of_the_reference(account: Account) -> None:
    advisories, events = _heard(account)
    advisories.consumer_created("S", "C")
    ((subject, body),) = events
    assert subject == b"$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.C"
    event = json.loads(body)
    assert list(event) == ["type", "id", "timestamp", "stream", "consumer", "action"]
    assert event["type"] == "io.nats.jetstream.advisory.v1.consumer_action"
    assert event["timestamp"] == "2023-11-14T22:13:20Z"
    assert len(event["id"]) == 22


def test_the_domain_comes_last(account: Account) -> None:
    advisories, events = _heard(account, "hub")
    advisories.stream_deleted("S")
    assert list(json.loads(events[0][1]).items())[-2:] == [("action", "delete"), ("domain", "hub")]


@pytest.mark.parametrize(
    ("emit", "subject", "members"),
    [
        (
            lambda a: a.max_deliveries("S", "C", 7, 2),
            b"ADVISORY.CONSUMER.MAX_DELIVERIES.S.C",
            {"stream": "S", "consumer": "C", "stream_seq": 7, "deliveries": 2},
        ),
        (
            lambda a: a.naked("S", "C", 3, 7, 2),
            b"ADVISORY.CONSUMER.MSG_NAKED.S.C",
            {"stream": "S", "consumer": "C", "consumer_seq": 3, "stream_seq": 7, "deliveries": 2},
        ),
        (
            lambda a: a.consumer_paused("S", "C", paused=False, until=ZERO_TIME),
            b"ADVISORY.CONSUMER.PAUSE.S.C",
            {
                "stream": "S",
                "consumer": "C",
                "paused": False,
                "pause_until": "0001-01-01T00:00:00Z",
            },
        ),
        (
            lambda a: a.acked("S", "C", 3, 7, 151, 1),
            b"METRIC.CONSUMER.ACK.S.C",
            {
                "stream": "S",
                "consumer": "C",
                "consumer_seq": 3,
                "stream_seq": 7,
                "ack_time": 151,
                "deliveries": 1,
            },
        ),
        (
            lambda a: a.group_pinned("S", "C", "g", "id"),
            b"ADVISORY.CONSUMER.PINNED.S.C",
            {"account": "$G", "stream": "S", "consumer": "C", "group": "g", "pinned_id": "id"},
        ),
        (lambda a: a.api_limit_reached(5), b"ADVISORY.API.LIMIT_REACHED", {"dropped": 5}),
    ],
)
def test_events_of_consumers(
    account: Account, emit: Any, subject: bytes, members: dict[str, Any]
) -> None:
    advisories, events = _heard(account)
    emit(advisories)
    assert events[0][0] == b"$JS.EVENT." + subject
    event = json.loads(events[0][1])
    for name in ("type", "id", "timestamp", "server"):
        event.pop(name, None)
    assert event == members


def test_an_audit_holds_texts_and_leaves_an_empty_request_out(account: Account) -> None:
    advisories, events = _heard(account)
    client = ClientInfo(start=NOW, host="127.0.0.1", id=6, acc="$G", lang="go", server="server")
    advisories.api_audit(client, b"$JS.API.INFO", b"", b'{"a":"<"}')
    assert b'"response":"{\\"a\\":\\"\\u003c\\"}"' in events[0][1]
    event = json.loads(events[0][1])
    assert list(event)[3:] == ["server", "client", "subject", "response"]
    assert list(event["client"])[-3:] == ["server", "kind", "client_type"]
    advisories.api_audit(client, b"$JS.API.INFO", b"\xff", b"{}")
    assert json.loads(events[1][1])["request"] == "\ufffd"
