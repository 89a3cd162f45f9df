"""The rate limit of identities, and the headers that tell of it."""

# Subject: HTTP sign-in, HTTP

import pytest

from gateway.auth.rate_limits import Quota, RateLimits
from gateway.http.problems import Problem
from tests.support.sessions import ManualClock


def test_a_quota_is_used_up_and_comes_back() -> None:
    clock = ManualClock()
    rates = RateLimits(clock, 3, 60)

    assert [rates.charge(b"a") for _ in range(3)] == [Quota(2, 20), Quota(1, 40), Quota(0, 60)]
    with pytest.raises(Problem) as refused:
        rates.charge(b"a")

    assert refused.value.headers == {
        "RateLimit-Policy": '"requests";q=3;w=60',
        "RateLimit": '"requests";r=0;t=60',
        "Retry-After": "20",
    }
    assert refused.value.members()["violated-policies"] == ["requests"]
    assert rates.charge(b"b") == Quota(2, 20), "others have their own"
    clock.advance(19.9)
    with pytest.raises(Problem, match="quota-exceeded"):
        rates.charge(b"a")
    clock.advance(0.1)
    assert rates.charge(b"a") == Quota(0, 60)
    clock.advance(3600)
    assert rates.charge(b"a") == Quota(2, 20), "no more is saved up than the quota"


def test_returned_tokens_may_be_used_again() -> None:
    rates = RateLimits(ManualClock(), 1, 1)

    rates.charge(b"a")
    with pytest.raises(Problem, match="quota-exceeded"):
        rates.charge(b"a")
    rates.refund(b"a")
    rates.charge(b"a")


def test_an_idle_principal_is_forgotten() -> None:
    clock = ManualClock()
    rates = RateLimits(clock, 1, 1)
    for number in range(100_000):
        rates.charge(b"%d" % number)
        clock.advance(0.001)

    assert len(rates._full_at) < 10_000
