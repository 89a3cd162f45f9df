"""Waiting pull requests are served in turn: many messages at a time as one message at a time."""

# Subject: pull consumers

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from core.rules.consumer.pull.requests import PullRequest, Waiting


@given(batches=st.lists(st.integers(-1, 6), min_size=1, max_size=5), limit=st.integers(1, 30))
def test_requests_are_served_round_robin(batches: list[int], limit: int) -> None:
    waiting = Waiting()
    names = [PullRequest(b"in.%d" % i, batch) for i, batch in enumerate(batches)]
    for request in names:
        waiting.add(request)
    line = deque(enumerate(batches))
    expected: list[PullRequest] = []
    while line and len(expected) < limit:
        number, batch = line.popleft()
        expected.append(names[number])
        if batch > 1:
            line.append((number, batch - 1))
    assert waiting.assign(limit, 0) == expected
    assert [(names.index(r), r.batch) for r in waiting.queue] == list(line)


def test_parked_requests_keep_their_place() -> None:
    waiting = Waiting()
    parked, ready = PullRequest(b"in.1", 2, parked=True), PullRequest(b"in.2", 2)
    waiting.add(parked)
    waiting.add(ready)
    assert waiting.assign(5, 0) == [ready, ready]
    assert list(waiting.queue) == [parked]
