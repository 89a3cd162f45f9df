"""Permissions, asked directly; against the reference server they are in tests/integration."""

# Subject: permissions

from collections.abc import Callable

import pytest

from core.auth.grant import Grant, Guard
from core.auth.users import Permissions, Responses, Rule, User, Users
from core.errors import ConfigError
from core.units import Seconds
from tests.support.sessions import ManualClock


def test_deny_wins_over_allow() -> None:
    grant = Grant(Permissions(publish=Rule(("a.>",), ("a.no.*",))))
    assert grant.may_publish(b"a.yes")
    assert not grant.may_publish(b"a.no.b")
    assert not grant.may_publish(b"b")
    assert grant.publishable == {b"a.yes"}


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a."])
def test_a_subject_with_an_empty_token_is_matched_by_nothing(subject: bytes) -> None:
    assert not Grant(Permissions(publish=Rule((">",)))).may_publish(subject)
    assert Grant(Permissions(publish=Rule(None, (">",)))).may_publish(subject)


def test_an_empty_allow_list_allows_nothing() -> None:
    grant = Grant(Permissions(Rule(()), Rule(())))
    assert not grant.may_publish(b"a")
    assert not grant.may_subscribe(b"a", b"")


def test_queues_of_rules() -> None:
    grant = Grant(Permissions(subscribe=Rule(("q.* v1.*",), ("q.no v1.x",))))
    assert grant.may_subscribe(b"q.a", b"v1.b")
    assert not grant.may_subscribe(b"q.a", b"v2.b")
    assert not grant.may_subscribe(b"q.a", b"")
    assert not grant.may_subscribe(b"q.no", b"v1.x")
    assert grant.may_deny(b"q.*", b"v1.x")
    assert not grant.may_deny(b"r.*", b"v1.x")


def test_an_answer_is_allowed_as_often_and_as_long_as_configured() -> None:
    clock = ManualClock()
    guard = Guard(Grant(Permissions(responses=Responses(2, Seconds(1.0)))), clock.monotonic)
    for reply in (b"r1", b"r2"):
        assert guard.allow_delivery(b"request", b"", reply)
    assert [guard.may_publish(b"r1") for _ in range(3)] == [True, True, False]
    clock.advance(1.5)
    assert not guard.may_publish(b"r2")
    assert not guard.may_publish(b"never received")


def test_remembered_replies_are_bounded() -> None:
    guard = Guard(Grant(Permissions(responses=Responses())), ManualClock().monotonic)
    for number in range(10_000):
        guard.allow_delivery(b"request", b"", b"r%d" % number)
    assert not guard.may_publish(b"r0")
    assert guard.may_publish(b"r9999")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Users(),
        lambda: Users(token="t", users=(User("a"),)),
        lambda: Users(users=(User("a"), User("a"))),
        lambda: Users(users=(User("a"),), no_auth_user="b"),
        lambda: Permissions(publish=Rule(("a queue",))),
        lambda: Rule(("a..b",)),
        lambda: Rule(("a b c",)),
    ],
)
def test_contradictory_values_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_readable_subjects_are_within_those_that_may_be_subscribed_to() -> None:
    grant = Grant(Permissions(subscribe=Rule(("a.*", "b.>", "q v1"), ("b.no.>",))))

    assert all(map(grant.may_read, (b"a.x", b"a.*", b"b.>", b"b.x", b"b.*.y")))
    assert not any(map(grant.may_read, (b"a.>", b">", b"*.x", b"a", b"q", b"b.no.x", b"b.no.>")))
    assert grant.may_subscribe(b"a.>", b""), "its wildcards are taken literally"
    assert Grant(Permissions()).may_read(b">")
    assert not Grant(Permissions(subscribe=Rule(()))).may_read(b"a")
