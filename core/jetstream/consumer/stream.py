"""The interface of a stream for its consumers."""

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
    """The stream whose messages consumers deliver."""

    log: StreamLog
    config: StreamConfig
    epoch: Epoch
    account: Account
    services: Services
    advisories: Advisories

    @property
    def group(self) -> Group:
        """The nodes of the stream's group, as infos show them."""
        ...

    def mark_settled(self, sseqs: Sequence[int]) -> None:
        """Record messages that a consumer has finished; called only if retention needs it.

        Args:
            sseqs: Stream sequences of messages that the consumer acknowledged, terminated, or
                delivered with ack policy none.
        """
        ...

    async def caught_up(self) -> None:
        """Wait until retention has removed all messages acknowledged so far that have to go."""
        ...

    async def less_wanted(self, start: int = 0) -> None:
        """Remove messages from `start` on that no consumer needs any more.

        Called after a consumer was deleted or changed.
        """
        ...
