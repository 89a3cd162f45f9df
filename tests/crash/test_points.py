"""A node that ends at a point of an operation: a sample of `python -m tests.crash.points`."""

# Subject: several nodes, crashes

from collections.abc import Iterator

import pytest

from tests.crash.point_world import World
from tests.crash.points import Case, judge
from tests.support.faulty_node import EARLY_VARIABLE
from tests.support.pg import PostgresServer


@pytest.fixture(scope="module")
def world(durable: PostgresServer) -> Iterator[World]:
    with World(durable.fresh_database()) as world:
        yield world


@pytest.mark.parametrize(
    "case",
    [
        Case("publish", "kill", 2),  # committed, not yet acknowledged
        Case("publish-afar", "stop", 1),  # in flight to PostgreSQL when another node takes over
        Case("create-stream", "stop", 4),  # while rows of the stream directory are locked
        Case("delete-stream", "kill", 20),
        Case("take-over", "kill", 30),
        Case("pass-ack", "kill", 4),  # forwarded; no node is left to send the answer
        Case("pass-delete-stream", "kill", 5),  # the leader's answer has arrived
        Case("move-to", "kill", 6),  # holding the lock, within the transaction for its epoch
    ],
    ids=lambda case: f"{case.operation}-{case.how}",
)
def test_promises_are_kept_by_a_node_that_ends_in_the_middle(world: World, case: Case) -> None:
    verdict = judge(world, case)

    assert verdict.where, "the operation has fewer points"
    assert verdict.wrong == []


def test_an_acknowledgement_ahead_of_its_commit_is_noticed(durable: PostgresServer) -> None:
    with World(durable.fresh_database(), **{EARLY_VARIABLE: "1"}) as world:
        verdict = judge(world, Case("publish", "kill", 3))

    assert any("is promised" in text for text in verdict.wrong), verdict
