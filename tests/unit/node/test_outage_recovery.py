"""Which plans turn out committed when a node leads again."""

# Subject: leadership

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from core.node.outage_recovery import lead_again
from core.storage.interface import Head
from core.units import Epoch


async def nothing() -> None:
    """The locks are held."""


class Led:
    """A stream that memory has up to a sequence."""

    def __init__(self, stream: int, last_seq: int) -> None:
        self.stream, self.name, self.epoch = stream, f"S{stream}", 1
        self.machine = SimpleNamespace(
            last_seq=last_seq, last_ts=1, msgs=last_seq, bytes=9, first_seq=1
        )


def plan(last_seq: int) -> Any:
    """A plan that stores one message, the one with that sequence."""
    return cast(
        Any,
        SimpleNamespace(
            before=last_seq - 1,
            last_seq=last_seq,
            last_ts=1,
            msgs=last_seq,
            nbytes=9,
            first_seq=1,
            purged_below=0,
            positions=(),
            ledger=(),
            firings=(),
        ),
    )


def recovered(led: list[Led], work: list[tuple[Led, Any]]) -> tuple[Any, Any]:
    """Lead again with three messages in each stream in storage."""
    head = Head(epoch=Epoch(2), last_seq=3, last_ts=1, msgs=3, bytes=9, first_seq=1)

    async def heads(streams: list[int]) -> dict[int, Head]:
        return dict.fromkeys(streams, head)

    return asyncio.run(
        lead_again(
            nothing,
            cast(Any, SimpleNamespace(heads=heads)),
            cast(Any, SimpleNamespace(streams={each.name: each for each in led})),
            cast(Any, work),
        )
    )


def test_a_plan_whose_head_is_there_was_committed_and_another_is_to_be() -> None:
    one, two, last = Led(7, 2), Led(8, 3), plan(4)
    done = plan(3)

    committed, rest = recovered([one, two], [(one, done), (two, last)])

    assert (committed, rest) == ([(one, done)], [(two, last)])
    assert one.epoch == two.epoch == 2


def test_a_plan_of_a_stream_that_was_given_up_is_not_that_of_the_stream_led_anew() -> None:
    """What was loaded since has its messages already, or never will."""
    before, anew = Led(7, 2), Led(7, 3)

    assert recovered([anew], [(before, plan(3))]) == ([], [])
