"""The checker finds violated limits, TTLs and waits, and wrong numbers in a stream's info."""

# Subject: tests

from typing import Any

import pytest

from tests.histories.story import SECOND, ended, replaced, sound


@pytest.mark.parametrize(
    ("change", "kinds"),
    [({}, set()), ({"subjects": 2}, {"stored"}), ({"deleted": 1}, {"stored"})],
)
def test_a_stream_reports_as_many_messages_as_it_has(
    change: dict[str, Any], kinds: set[str]
) -> None:
    story = ended(sound())
    replaced(story, change, kind="stream", phase="ok")

    assert story.kinds() == kinds


def test_nothing_is_a_duplicate_that_is_sent_for_the_first_time() -> None:
    story = sound()
    replaced(story, {"duplicate": True}, kind="publish", phase="ok", value="p-1")
    assert story.kinds() == {"duplicate"}


def test_a_redelivery_comes_after_ack_wait_unless_it_was_nakked() -> None:
    for later, given_back, kinds in ((1, False, {"early"}), (1, True, set()), (2, False, set())):
        story = sound()
        story.publish("p-4", 4, subject="log.p", identified=True)
        story.deliver("p-4", 4, "WAITS")
        if given_back:
            story.ack(4, "WAITS", how="nak")
        story.deliver("p-4", 4, "WAITS", count=2, t=story.events[-1].t + later * SECOND)
        assert story.kinds() == kinds


def test_pushed_messages_may_precede_their_subscriber() -> None:
    for stored, kinds in ((1, set()), (3, {"early"})):
        story = sound()
        story.publish("p-4", 4, subject="log.p", identified=True)
        at = stored * SECOND
        story.deliver("p-4", 4, "PUSHED", time=at, since=3 * SECOND, t=4 * SECOND)
        story.deliver("p-4", 4, "PUSHED", count=2, time=at, since=3 * SECOND, t=4 * SECOND + 1)
        assert story.kinds() == kinds


def test_no_more_is_there_than_a_limit_allows() -> None:
    for messages, kinds in ((2, set()), (3, {"limit"})):
        story = sound()
        story.ask("stream", about={"stream": "FULL"}, last=3, messages=messages)
        assert story.kinds() == kinds


@pytest.mark.parametrize(
    ("retained", "kinds"),
    [([2, 3], set()), ([3], {"limit"}), ([1, 2, 3], {"limit"}), ([1, 3], {"limit"})],
)
def test_of_a_ring_the_latest_are_there(retained: list[int], kinds: set[str]) -> None:
    story = ended(sound())
    for seq in (1, 2, 3):
        story.publish(f"r-{seq}", seq, "RING")
    for seq in retained:
        known: dict[str, Any] = {"stream": "RING", "seq": seq, "value": f"r-{seq}"}
        for how in ("SQL", "NATS"):
            story.add("run", "stored", subject="ring.r", how=how, time=1000 + seq, **known)

    assert story.kinds() == kinds


def test_only_what_may_be_full_refuses() -> None:
    for before, removes, kinds in ((2, False, set()), (1, False, {"limit"}), (2, True, {"limit"})):
        story = sound()
        for seq in range(1, before + 1):
            story.publish(f"f-{seq}", seq, "FULL")
        if removes:
            about = {"stream": "FULL", "subject": "full.f", "how": "purge", "seq": 2}
            story.ask("remove", about=about)
        story.publish("f-9", -1, "FULL")
        story.events[-1].text = '{"err_code": 10077}'
        assert story.kinds() == kinds


def test_a_message_with_a_ttl_stays_that_long_and_not_much_longer() -> None:
    about = {"stream": "FADING", "how": "seq", "seq": 1}
    for phase, at, kinds in (
        ("ok", 1, set()), ("fail", 3, set()), ("fail", 1, {"lifetime"}), ("ok", 13, {"lifetime"})
    ):  # fmt: skip
        story = sound()
        story.publish("t-1", 1, "FADING")
        value = {"value": "t-1", "subject": "fading.t"} if phase == "ok" else {}
        story.ask("get", phase, about=about, **value)  # type: ignore[arg-type]
        for event in story.events[-2:]:
            event.t += at * SECOND
        assert story.kinds() == kinds


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("create-ok info-ok delete-ok info-fail", False),
        ("create-ok info-fail", True),
        ("create-ok delete-ok info-ok", True),
        ("create-unknown info-fail", False),
        ("create-ok delete-unknown info-ok", False),
        ("create-ok delete-ok left-", True),
        ("create-ok", True),
        ("create-ok left-", False),
        ("create-ok:1 update-ok:2 info-ok:2 left-", False),
        ("create-ok:1 update-ok:2 info-ok:1 left-", True),
        ("create-ok:1 update-unknown info-ok:2", False),
    ],
)
@pytest.mark.parametrize("consumer", ["", "C"])
def test_a_created_stream_stays_until_it_is_deleted(asked: str, found: bool, consumer: str) -> None:
    story = ended(sound())
    for each in asked.split():
        asks, _, value = each.partition(":")
        how, _, phase = asks.partition("-")
        about = {"stream": "T", "consumer": consumer, "how": how, "value": value}
        if phase:
            story.ask("object", phase, about=about)  # type: ignore[arg-type]
        else:
            story.add("drain", "object", "", **about)

    assert story.kinds() == ({"object"} if found else set())
