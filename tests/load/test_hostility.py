"""A publisher beside HTTP callers that mean no good, for a moment.

`python -m tests.load.hostility` is the same with more of them and for minutes.
"""

# Subject: slow consumers, costs

import pytest

from tests.load.hostility import BACK, FACTOR, MEMORY, suffer
from tests.support.jetgate import JetgateServer

pytestmark = pytest.mark.quiet

CALLERS = 200
GARBAGE = 50
SECONDS = 1.5
TRIES = 5


def test_hostile_callers_cost_a_publisher_little_and_the_server_no_memory() -> None:
    with JetgateServer(in_memory=True) as server:
        for _ in range(TRIES):
            found = suffer(server, CALLERS, CALLERS, GARBAGE, SECONDS)
            # Who is slowed down by others of this machine meanwhile proves nothing.
            if found.factor("p50") < FACTOR:
                break

    assert found.factor("p50") < FACTOR, found
    assert found.callers["garbage"] > 0
    assert found.memory_most < MEMORY
    assert found.memory_after < found.memory_before + BACK
