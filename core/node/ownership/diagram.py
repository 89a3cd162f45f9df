"""The table of ownership transitions as Markdown, for `docs/architecture.md`.

`python -m core.node.ownership.diagram` prints it.
"""

from __future__ import annotations

import re
import sys

from core.node.ownership.state import TRANSITIONS, Event, State


def diagram() -> str:
    """Return the transitions as a Mermaid state diagram, followed by a table of the commands."""
    return f"```mermaid\n{_moves()}\n```\n\n{_rows()}"


def _moves() -> str:
    labels: dict[tuple[State, State], list[str]] = {}
    for (state, event), row in TRANSITIONS.items():
        if row.to is not state:
            labels.setdefault((state, row.to), []).append(_words(event))
    lines = [f"    {state.name}: {state.value}" for state in State]
    lines += [
        f"    {state.name} --> {to.name}: {', '.join(events)}"
        for (state, to), events in labels.items()
    ]
    return "\n".join(["stateDiagram-v2", "    [*] --> FREE", *lines])


def _rows() -> str:
    lines = ["| a group that is | when | becomes | commands, in this order |", "|---|---|---|---|"]
    lines += [
        f"| {state.value} | {_words(event)} | {'' if row.to is state else row.to.value} |"
        f" {', '.join(command.value for command in row.commands)} |"
        for (state, event), row in TRANSITIONS.items()
        if row.commands
    ]
    return "\n".join(lines)


def _words(event: type[Event]) -> str:
    """Return the name of an event as words."""
    return re.sub(r"(?<!^)([A-Z])", r" \1", event.__name__).lower()


if __name__ == "__main__":
    sys.stdout.write(f"{diagram()}\n")
