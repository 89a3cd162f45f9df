"""A stream as its consumers know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.cluster.groups import Group
    from core.jetstream.advisories import Advisories
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.services import Services
    from core.model.stream import StreamConfig
    from core.pubsub.account import Account


class ConsumedStream(Protocol):
    """What consumers need of the stream whose messages they deliver."""

    log: StreamLog
    config: StreamConfig
    epoch: int
    account: Account
    services: Services
    advisories: Advisories

    @property
    def group(self) -> Group:
        """The nodes that stand for it."""
        ...

    def settle(self, sseqs: Sequence[int]) -> None:
        """Hear what a consumer is done with; told only where retention depends on it.

        Args:
            sseqs: Settled for good: acknowledged, terminated, or delivered without need of acks.
        """
        ...

    async def caught_up(self) -> None:
        """Return when what consumers have acknowledged so far is gone, if it has to go."""
        ...

    async def less_wanted(self, start: int = 0) -> None:
        """Remove what a consumer that went or changed was the last to want, from `start` on."""
        ...
