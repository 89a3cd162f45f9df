"""The interface of a stream's leader (`core.jetstream.stream.runner`) for its consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from core.units import Epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.cluster.replica_groups import Group
    from core.jetstream.advisories import Advisories
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.services import Services
    from core.model.stream import StreamConfig
    from core.pubsub.account import Account


class ConsumedStream(Protocol):
    """The leader of a stream, with the attributes and methods that its consumers use."""

    log: StreamLog
    config: StreamConfig
    epoch: Epoch
    account: Account
    services: Services
    advisories: Advisories

    @property
    def group(self) -> Group:
        """The nodes that lead or could lead the stream, for infos."""
        ...

    def mark_settled(self, sseqs: Sequence[int]) -> None:
        """Record messages that a consumer has finished, for interest or work-queue retention.

        Args:
            sseqs: Stream sequences of messages that the consumer acknowledged, terminated, or
                delivered with ack policy none.
        """
        ...

    async def caught_up(self) -> None:
        """Wait until retention has removed the messages that were acknowledged before this call."""
        ...

    async def less_wanted(self, start: int = 0) -> None:
        """Remove messages at or after `start` that no consumer needs.

        Called after a consumer was deleted or changed.
        """
        ...
