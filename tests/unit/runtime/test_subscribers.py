"""Subscribers of an event are called in their order, until they end their subscription."""

# Subject: costs

from collections.abc import Callable

from core.runtime.subscribers import Subscribers


def test_subscribers_are_called_in_their_order_until_they_end() -> None:
    calls: list[str] = []
    event: Subscribers[[str]] = Subscribers()

    def noting(name: str) -> Callable[[str], None]:
        return lambda text: calls.append(name + text)

    ends = [event.subscribe(noting(name)) for name in "ab"]
    event("1")
    ends[0]()
    ends[0]()
    event("2")
    assert calls == ["a1", "b1", "b2"]


def test_a_subscriber_may_end_its_subscription_while_it_is_called() -> None:
    calls: list[int] = []
    event: Subscribers[[]] = Subscribers()

    def once() -> None:
        calls.append(1)
        end()

    end = event.subscribe(once)
    event.subscribe(lambda: calls.append(2))
    event()
    event()
    assert calls == [1, 2, 2]
