"""Random histories of a stream and its consumers: both servers must answer every step alike.

`python -m tests.differential.hunt` plays more of them and shortens those that differ.
"""

# Subject: random histories

import pytest

from tests.differential.comparing import difference
from tests.differential.histories import history
from tests.differential.volleys import timed_history
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

LENGTH = 30
TIMED_LENGTH = 24
# Steps that last less than a second are repeated: a result on a paused machine proves nothing.
TRIES = 3


@pytest.mark.parametrize("seed", range(12))
def test_both_servers_answer_a_history_alike(
    ours: JetgateServer, theirs: NatsServer, seed: int
) -> None:
    steps = history(seed, LENGTH)
    found = difference(steps, ours.address, theirs.address)
    assert found is None, f"after {steps[: found[0] + 1]}:\n{found[1]}"


@pytest.mark.parametrize("seed", range(16))
def test_both_servers_answer_a_history_alike_in_real_time(
    ours: JetgateServer, theirs: NatsServer, seed: int
) -> None:
    steps = timed_history(seed, TIMED_LENGTH)
    for _ in range(TRIES):
        found = difference(steps, ours.address, theirs.address)
        if found is None:
            return
    assert found is None, f"after {steps[: found[0] + 1]}:\n{found[1]}"
