"""The command `jetgate` with a deliberate fault, for tests that must detect it.

With JETGATE_TEST_ACK_BEFORE_COMMIT=1 the server acknowledges publishes 50 ms before it commits
them. The product itself has no code for this.
"""

import asyncio
import os
from typing import Any

from msgspec.structs import replace

from core.jetstream import group_committer
from jetgate.commands import main

EARLY_VARIABLE = "JETGATE_TEST_ACK_BEFORE_COMMIT"
LATER = 0.05  # seconds between the early acknowledgement and the start of its transaction


def acknowledge_early() -> None:
    """Replace the write of the group committer by one that acknowledges publishes first."""
    write = group_committer.GroupCommitter._write

    async def promise_then_write(
        self: group_committer.GroupCommitter, work: list[tuple[Any, Any]]
    ) -> None:
        for runner, plan in work:
            if plan.acks:
                runner.acks.emit(plan.acks, plan.ack_first)
        self._loop_tick.run()
        await asyncio.sleep(LATER)
        await write(self, [(runner, replace(plan, acks=[])) for runner, plan in work])

    group_committer.GroupCommitter._write = promise_then_write  # type: ignore[method-assign]  # the fault


if __name__ == "__main__":
    if os.environ.get(EARLY_VARIABLE) == "1":
        acknowledge_early()
    main()
