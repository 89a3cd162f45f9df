"""The sourcing of one stream: its followers, one per origin, and storing the messages they read.

Messages that arrive while copies are committed are stored together by the next commit, from all
origins. Each store is a change of the stream (`core.jetstream.changes`), committed in order with
its publishes and removals.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core import retry
from core.errors import ApiError, Unavailable
from core.jetstream.direct.direct_get import DirectGet
from core.jetstream.sourcing.origin import Origin, StartPosition, origins_of
from core.jetstream.sourcing.origin_follower import DeliveredPosition, OriginFollower
from core.model.response import ErrorBody
from core.model.stream import StreamConfig, StreamSource, StreamSourceInfo
from core.pubsub.forwarding import ClusterForwarder
from core.rules.stream.plan import PlanBuilder, Position, StreamPlan
from core.rules.stream.plans.sourced import (
    SourcedBatch,
    SourcedPlan,
    joined_columns,
    plan_skip,
    plan_sourced,
)
from core.runtime.tasks import spawn
from core.storage.health import waits

if TYPE_CHECKING:
    from core.jetstream.changes import MapSubjects, Submit
    from core.jetstream.log.preconditions import PreconditionReader
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.services import Services
    from core.pubsub.account import Account

log = logging.getLogger(__name__)

_ROWS = 4096
_QUEUE = b"_sys_"


class StreamSourcing:
    """Copies messages into one stream: from the origin of a mirror, or from the stream's sources.

    Life cycle: `restore`, `start`, then `configure` for each update, finally `close`.

    Args:
        log: The log of the stream.
        preconditions: Reads data that the decision on copies needs.
        account: The account in which the origins are read.
        services: The objects that all streams of the node share.
        submit: Queues a change of the stream.
        map_subjects: The stream's subject transform.
    """

    def __init__(
        self,
        log: StreamLog,
        preconditions: PreconditionReader,
        account: Account,
        services: Services,
        submit: Submit,
        map_subjects: MapSubjects,
    ) -> None:
        self._log = log
        self._preconditions = preconditions
        self._account = account
        self._services = services
        self._submit = submit
        self._map_subjects = map_subjects
        self._followers: dict[str, OriginFollower] = {}
        self._positions: dict[str, Position] = {}
        self._entries: list[tuple[OriginFollower, SourcedBatch, DeliveredPosition]] = []
        self._planned: SourcedPlan | None = None
        self._busy = False
        # Origin key -> (sequence, `err_code`) of the message that cannot be stored now.
        self._held: dict[str, tuple[int, int]] = {}
        self._direct: DirectGet | None = None
        self._mirrors = False

    # -- life --------------------------------------------------------------------------------

    async def restore(self, config: StreamConfig) -> None:
        """Load the stored positions of the stream's sources; a mirror has none.

        Raises Unavailable if PostgreSQL does not answer.
        """
        if config.sources:
            for position in await self._log.rows.positions():
                self._positions.setdefault(position.key, position)

    async def _find(self, followers: list[OriginFollower]) -> None:
        """Start the followers (readers of origins) of sources without a stored position.

        Each starts after the newest copy of its origin that the stream contains, such as those of a
        promoted mirror. The search takes time in a long stream, so it is made only here.
        """
        for follower in followers:
            key, start = follower.origin.key, None
            while not self._log.closed:
                try:
                    start = await self._search(follower.origin)
                    break
                except Unavailable as error:
                    waits.warning("sources of %s wait for storage: %s", self._log.name, error)
                    await asyncio.sleep(retry.BACKGROUND_S)
            if start is not None:
                self._positions.setdefault(key, Position(key, start.after, start.identity))
            if self._followers.get(key) is follower and not self._log.closed:
                follower.begin()

    async def _search(self, origin: Origin) -> StartPosition | None:
        """Return the position in the newest `Nats-Stream-Source` header of an origin; None: none.

        Raises Unavailable if PostgreSQL does not answer.
        """
        name, below = origin.key.partition(" ")[0].encode(), self._log.machine.last_seq + 1
        while True:
            page = await self._log.rows.sourced(name, below)
            if not page:
                return None
            for line in page:
                seq, _, value = line.partition(b" ")
                below = int(seq)
                if (start := origin.start_in(value)) is not None:
                    return start

    def start(self) -> None:
        """Start to read every origin of the stream's configuration."""
        self._follow(self._log.machine.config)

    def configure(self, config: StreamConfig) -> None:
        """Apply a new configuration; origins that did not change are read without interruption."""
        self._follow(config)

    def close(self, *, forget: bool) -> None:
        """Stop reading all origins. With `forget` also delete durable consumers created on them."""
        for follower in self._followers.values():
            follower.close(forget=forget)
        self._followers.clear()
        self._serve_origin(False)

    def _follow(self, config: StreamConfig) -> None:
        self._mirrors = config.mirror is not None
        before, self._followers = self._followers, {}
        begun: list[OriginFollower] = []
        for origin in origins_of(config, self._account.name, self._services.domain):
            old = before.pop(origin.key, None)
            if old is not None and old.origin.is_same(origin):
                self._followers[origin.key] = old
                old.retry_soon(is_new=False)  # The new configuration may accept a refused message.
                continue
            if old is not None:
                old.close(forget=True)
            follower = OriginFollower(
                self._account, self._services, origin, self._begin, self._ready
            )
            self._followers[origin.key] = follower
            begun.append(follower)
        for old in before.values():
            old.close(forget=True)
        self.update_direct_get()
        unknown = [follower for follower in begun if not self._knows(follower.origin)]
        for follower in begun:
            if follower not in unknown:
                follower.begin()
        if unknown:
            spawn(self._find(unknown), name=f"sources of {self._log.name}")

    def _knows(self, origin: Origin) -> bool:
        """Return whether the position in an origin is known without a search in the stream."""
        return origin.mirrors or origin.key in self._positions or not self._log.machine.last_seq

    def origins(self) -> set[str]:
        """Return the stream names of all origins, including external ones."""
        return {follower.origin.source.name for follower in self._followers.values()}

    def on_origin_changed(self, name: str, *, is_new: bool = False) -> None:
        """Notify followers that an origin stream of that name was created, changed or deleted.

        `is_new`: the stream was created again, or has a new leader.
        """
        for follower in self._followers.values():
            source = follower.origin.source
            if source.name == name and source.external is None:
                follower.retry_soon(is_new=is_new)
        self.update_direct_get()

    def reconnected(self, api: str) -> None:
        """Notify followers of external origins that API prefix `api` is reachable again."""
        for follower in self._followers.values():
            external = follower.origin.source.external
            if external is not None and external.api.rstrip(".") == api:
                follower.retry_soon(is_new=True)

    # -- positions ---------------------------------------------------------------------------

    def _begin(self, follower: OriginFollower) -> StartPosition:
        """Return the position from which a follower has to read its origin."""
        if follower.origin.mirrors:
            return StartPosition(self._log.machine.last_seq)
        position = self._positions.get(follower.origin.key)
        if position is None or follower.forgets:
            return StartPosition()
        return StartPosition(position.seq, position.identity)

    def mirror_info(self) -> StreamSourceInfo | None:
        """Return the progress of a mirror for STREAM.INFO; None: the stream is no mirror."""
        if not self._mirrors:
            return None
        return next((follower.info() for follower in self._followers.values()), None)

    def source_infos(self) -> tuple[StreamSourceInfo, ...]:
        """Return the progress of each source for STREAM.INFO; empty for a mirror."""
        if self._mirrors:
            return ()
        return tuple(
            replace(follower.info(), seq=self._positions[key].seq)
            if key in self._positions
            else follower.info()
            for key, follower in self._followers.items()
        )

    # -- storing -----------------------------------------------------------------------------

    def _ready(self, _follower: OriginFollower) -> None:
        self._submit_next()

    def _submit_next(self) -> None:
        """Queue the storing of received messages, unless one such change is in progress."""
        if not self._busy and not self._log.closed:
            self._busy = True
            self._submit(self._plan).add_done_callback(self._stored)

    def _gather(self) -> list[tuple[OriginFollower, SourcedBatch, DeliveredPosition]]:
        """Remove received messages from the followers, from each an equal share of `_ROWS`."""
        ready = [f for f in self._followers.values() if f.has_waiting()]
        batch: list[tuple[OriginFollower, SourcedBatch, DeliveredPosition]] = []
        for follower in ready:
            found = follower.next_batch(_ROWS // len(ready))
            if found is not None:
                follower.busy = True
                batch.append((follower, *found))
        return batch

    async def _plan(self, now: int) -> PlanBuilder:
        """Decide how received messages are stored; return the plan (effect) to commit.

        `now` is in nanoseconds since the Unix epoch. After Unavailable it is called again and
        decides on the same messages.
        """
        machine, current = self._log.machine, self._followers
        entries = [entry for entry in self._entries if current.get(entry[1].key) is entry[0]]
        self._entries = entries or self._gather()
        batches = [self._fresh(batch) for _, batch, _ in self._entries]
        if self._mirrors and batches and not len(batches[0]):
            self._planned = SourcedPlan(machine.unchanged(), batches)
            if batches[0].through > machine.last_seq:
                self._planned.plan = plan_skip(machine, batches[0].through)
            return self._planned.plan
        for batch in batches:
            batch.columns.subjects = self._map_subjects(batch.columns.subjects)
        preconditions = await self._preconditions.read(joined_columns(batches), now)
        self._planned = plan_sourced(machine, batches, now, preconditions, mirrors=self._mirrors)
        return self._planned.plan

    def _fresh(self, batch: SourcedBatch) -> SourcedBatch:
        """Return a copy of a batch without messages that are stored already."""
        if self._mirrors:
            return batch.after(self._log.machine.last_seq).part(0, len(batch))
        position = self._positions.get(batch.key)
        if position is None or (
            position.identity and batch.identity and position.identity != batch.identity
        ):
            return batch.part(0, len(batch))
        return batch.after(position.seq).part(0, len(batch))

    def _stored(self, done: asyncio.Future[StreamPlan]) -> None:
        """Report the outcome of a commit to the followers, and queue the next messages."""
        entries, self._entries = self._entries, []
        planned, self._planned = self._planned, None
        self._busy = False
        error = None if done.cancelled() else done.exception()
        if self._log.closed:
            return
        if done.cancelled() or error is not None or planned is None:
            for follower, batch, reached in entries:
                log.warning("%s: %s", self._log_name(follower), error or "given up")
                follower.on_stalled(reached.cseq - len(batch) + 1)
            # Messages that no plan included, and those that arrived meanwhile, still wait.
            if self._has_waiting():
                asyncio.get_running_loop().call_later(retry.BACKGROUND_S, self._submit_next)
            return
        for position in planned.plan.positions:
            self._positions[position.key] = position
        for (place, seq), why in planned.left_out.items():
            self._leave_out(entries[place][0], seq, why)
        for place, (follower, batch, reached) in enumerate(entries):
            reason = planned.stalled.get(place)
            if reason is None:
                follower.on_stored(reached)
            else:
                self._stall(follower, batch, reached, planned.batches[place].through, reason)
        if self._mirrors and self._direct is None:
            self.update_direct_get()
        if self._has_waiting():
            self._submit_next()

    def _has_waiting(self) -> bool:
        return any(follower.has_waiting() for follower in self._followers.values())

    def _leave_out(self, follower: OriginFollower, seq: int, error: ApiError) -> None:
        """Count and log a message that can never be stored, and show its error in STREAM.INFO."""
        self._services.unstored_copies[error.err_code] += 1
        follower.on_left_out(_about(seq, error))
        log.warning("%s is without message %d: %s", self._log_name(follower), seq, error)

    def _stall(
        self,
        follower: OriginFollower,
        batch: SourcedBatch,
        reached: DeliveredPosition,
        through: int,
        reason: ApiError,
    ) -> None:
        """Request again the first message after `through`, which cannot be stored now."""
        left = [seq for seq in batch.seqs if seq > through]
        held = left[0], reason.err_code
        if self._held.get(follower.origin.key) != held:
            # Counted and logged once, not for each attempt.
            self._held[follower.origin.key] = held
            self._services.unstored_copies[reason.err_code] += 1
            text = "%s: message %d waits: %s"
            log.warning(text, self._log_name(follower), left[0], reason)
        follower.on_stalled(reached.cseq - len(left) + 1, _about(left[0], reason))

    def _log_name(self, follower: OriginFollower) -> str:
        return f"stream {self._log.name}: the copy of {follower.origin.source.name}"

    # -- Direct Get for the origin -----------------------------------------------------------

    def update_direct_get(self) -> None:
        """Start or stop to answer Direct Get requests for a mirror's origin (`mirror_direct`).

        A mirror answers once it has caught up, unless this node leads the origin itself.
        """
        config = self._log.machine.config
        mirror: StreamSource | None = config.mirror
        wanted = mirror is not None and config.mirror_direct and not self._log.closed
        if wanted and mirror is not None:
            wanted = any(follower.caught_up for follower in self._followers.values())
            subject = f"$JS.API.DIRECT.GET.{mirror.name}".encode()
            receivers = self._account.receivers(subject)
            # Services other than the origin's leader: links to other servers, and answers from
            # storage (`local_only`).
            others = (each for each in receivers.services if not isinstance(each, ClusterForwarder))
            wanted = wanted and all(each.local_only for each in others)
        self._serve_origin(wanted)

    def _serve_origin(self, wanted: bool) -> None:
        mirror = self._log.machine.config.mirror
        if not wanted and self._direct is not None:
            self._direct.configure(False)
            self._direct = None
        elif wanted and self._direct is None and mirror is not None:
            self._direct = DirectGet(
                self._log,
                self._account,
                self._services.loop_tick,
                self._services.trust,
                mirror.name.encode(),
                _QUEUE,
            )
            self._direct.configure(True)


def _about(seq: int, error: ApiError) -> ErrorBody:
    """Return an error for STREAM.INFO that names the message's sequence in the origin."""
    return ErrorBody(
        code=error.code,
        err_code=error.err_code,
        description=f"message {seq}: {error.description}",
    )
