"""Requests to the messages of one stream: purge, delete, get; and enforcing its limits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from core.jetstream.availability import retry_until_available, unavailable_as_api_error
from core.jetstream.log.subjects import get_message
from core.jetstream.stream import commands, expiry
from core.jetstream.stream.following import follow_purge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core.jetstream.changes import Submit, WithoutInterest
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.log.message import Message
    from core.jetstream.log.stream_log import StreamLog
    from core.model.message import MsgGetRequest
    from core.rules.stream.plan import PlanBuilder
    from core.runtime.clock import Clock


class Requests:
    """Serves purge, delete and get requests of one stream, and enforces its limits.

    Args:
        log: The log of the stream.
        consumers: The consumers, whose read positions a purge moves.
        clock: The clock.
        submit: Queues a change of the stream.
        without_interest: Returns those of the given subjects whose messages are not stored, since
            no consumer matches them.
        caught_up: Waits until retention has removed the acknowledged messages.
    """

    def __init__(
        self,
        log: StreamLog,
        consumers: Consumers,
        clock: Clock,
        submit: Submit,
        without_interest: WithoutInterest,
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = log
        self._consumers = consumers
        self._clock = clock
        self._submit = submit
        self._without_interest = without_interest
        self._caught_up = caught_up

    async def purge(self, pattern: str | None, seq: int | None, keep: int | None) -> int:
        """Purge messages: all, by filter, below a sequence, or all but the newest `keep`.

        Returns the number of purged messages, after COMMIT. Raises ApiError if the purge is refused
        or storage is unavailable.
        """
        log, wanted = self._log, pattern.encode() if pattern and pattern != ">" else None
        before = 0

        async def plan_it(now: int) -> PlanBuilder:
            nonlocal before
            before = log.machine.msgs
            purge = commands.plan_purge(
                log, wanted, seq or 0, keep or 0, now, self._without_interest
            )
            plan = await unavailable_as_api_error(purge)
            plan.purges.append((wanted or b"", 0))
            return plan

        plan = await self._submit(plan_it)
        # The purge is committed: a storage failure from here on must not fail the request.
        await retry_until_available(lambda: follow_purge(log, self._consumers, wanted), log)
        markers = 0 if plan.segment is None else len(plan.segment)
        return before - plan.msgs + markers

    async def delete_message(self, seq: int) -> None:
        """Delete one message and its row; return after COMMIT.

        Raises ApiError JSStreamMsgDeleteFailed or JSSequenceNotFound if the message does not exist,
        JSClusterNotAvail while storage is unavailable.
        """
        await self._submit(
            lambda now: unavailable_as_api_error(
                commands.plan_delete(self._log, seq, now, self._without_interest)
            )
        )

    async def trim(self) -> None:
        """Remove all messages that exceed the stream's limits by age, count or size.

        Called after a new configuration and when messages expire. Raises ApiError JSClusterNotAvail
        while storage is unavailable.
        """
        removed = True
        while removed:
            now = self._clock.now()
            foreseen = await unavailable_as_api_error(expiry.find_due(self._log, now))
            plan = await self._submit(partial(self.plan_expiry, foreseen))
            removed = bool(plan.removed)

    async def plan_expiry(self, foreseen: expiry.PlannedExpiry, now: int) -> PlanBuilder:
        """Decide the removal of expired messages; `foreseen` is the result of `expiry.find_due`.

        `now` is in nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not
        answer.
        """
        return await commands.plan_expiry(self._log, foreseen, now, self._without_interest)

    async def get_message(self, request: MsgGetRequest) -> Message | None:
        """Return the message that a STREAM.MSG.GET request selects; None: there is none.

        Raises ApiError JSClusterNotAvail while storage is unavailable.
        """
        await self._caught_up()
        return await unavailable_as_api_error(get_message(self._log, request))
