"""The table of ownership in the document is the one from which nodes dispatch."""

# Subject: lease groups

from pathlib import Path

from core.node.ownership.diagram import diagram
from core.node.ownership.state import TRANSITIONS, State

ROOT = Path(__file__).resolve().parents[3]


def test_the_document_has_the_table() -> None:
    assert diagram() in (ROOT / "docs" / "architecture.md").read_text()


def test_every_state_is_entered_and_left() -> None:
    moves = {(state, row.to) for (state, _), row in TRANSITIONS.items() if row.to is not state}
    assert {state for state, _ in moves} == set(State) == {to for _, to in moves}
