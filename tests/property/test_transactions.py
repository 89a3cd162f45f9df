"""Transactions against a list of rows: each row of a batch once, whoever opens, commits or dies.

Drivers open, stage attempts and commit whatever they please, in any order. The leader stores chunk
after chunk, is refused by storage, crashes before and after a COMMIT, and is followed by another.
What the stream was ever given must be the rows of the first manifest of each batch, one batch after
the other.
"""

# Subject: transactions

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core import retry
from core.errors import ApiError
from core.jetstream.transactions import staging
from core.jetstream.transactions.staging import staging_stream
from core.jetstream.transactions.transactions import BatchStatus, Transactions
from core.model.api_errors import api_error
from core.model.stream import StreamConfig
from core.model.transactions import STAGE
from core.rules.stream.config.validation import check_create
from core.rules.stream.transactions.ledger import Attempt
from tests.support.streams import STREAM, StreamBench
from tests.support.transactions import Attempt as Staged
from tests.support.transactions import encoded

T = TypeVar("T")

APP = "app"
HOUR = 3600 * 1_000_000_000


def _checked(config: StreamConfig) -> StreamConfig:
    return check_create(config, {}, name=config.name)[0]


@dataclass
class Written:
    """An attempt that staged, and its rows: payload and message id."""

    staged: Staged
    rows: list[tuple[bytes, str]] = field(default_factory=list)

    def attempt(self) -> Attempt:
        """Return what a manifest says of it."""
        seqs = tuple((first, last) for first, last in self.staged.seqs)
        return Attempt(self.staged.id, seqs, self.staged.rows, self.staged.crc)


class TransactionRules(RuleBasedStateMachine):
    """A stream, the stream its blocks are staged in, and the rows it should have got."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            patch.object(staging, "CHUNK_ROWS", 3),
            patch.object(retry, "BACKGROUND_S", 0),
        ]
        for each in self.patches:
            each.start()
        target = StreamConfig(name="S", subjects=("s.>",), duplicate_window=1000 * HOUR)
        self.target, self.stage = (
            StreamBench(_checked(target)),
            StreamBench(_checked(staging_stream("S"))),
        )
        self.stage.loop.close()
        self.stage.loop, self.stage.clock = self.target.loop, self.target.clock
        self.stage._open()
        self.written: list[Written] = []
        self.tokens: dict[str, int] = {}
        self.newest = 0
        # The manifests that were sent for a batch, and those that the ledger took, in order.
        self.sent: dict[int, list[list[Written]]] = {}
        self.taken: list[tuple[int, list[Written]]] = []
        self.history: list[bytes] = []
        self._lead()

    # -- the leader --------------------------------------------------------------------------

    def _lead(self) -> None:
        """Begin to lead, with what storage has."""
        self.stage.runner.stream = STREAM + 1

        async def lead() -> Transactions:
            streams = {"S": self.target.runner, STAGE + "S": self.stage.runner}
            transactions = Transactions(streams)
            transactions.restore((STREAM, e) for e in self.target.store.ledger.values())
            transactions.resume(streams.values())
            return transactions

        self.transactions = self.target.run(lead())

    def _end(self) -> None:
        self.target.run(self.transactions.stop())

    def _idle(self) -> None:
        """Let tasks come to where they wait for a commit of the stream."""
        for _ in range(30):
            self.target.run(asyncio.sleep(0))
            self.stage.flush()

    def _step(self, refused: ApiError | None = None) -> None:
        """Commit one plan of the stream, or have storage refuse it."""
        plan = self.target.run(self.target.step(refused))
        if plan is not None and refused is None:
            self._note(plan.segment)
        self._idle()

    def _note(self, segment: Any) -> None:
        """Remember what was stored, and which batch the ledger has."""
        if segment is not None:
            self.history += [p for p in segment.payloads if not p.startswith(b"other")]
        entry = self.target.store.ledger.get(APP)
        batch = entry.batch if entry is not None else None
        if batch is None or (self.taken and self.taken[-1][0] == batch.number):
            return
        ids = [a.id for a in batch.attempts]
        wanted = [
            m for m in self.sent[batch.number] if batch.is_done or [w.staged.id for w in m] == ids
        ]
        assert wanted, "the ledger has a manifest that nobody sent"
        self.taken.append((batch.number, wanted[0] if not batch.is_done else []))

    def _serve(self, request: Awaitable[T]) -> T | ApiError:
        """Serve a request to its end; plans of the stream are committed where it waits for them."""

        async def caught() -> T | ApiError:
            try:
                return await request
            except ApiError as error:
                return error

        async def begin() -> asyncio.Task[T | ApiError]:
            return asyncio.ensure_future(caught())

        task = self.target.run(begin())
        while not task.done():
            self._idle()
            if not task.done():
                self._step()
        return task.result()

    # -- rules -------------------------------------------------------------------------------

    @initialize(has_ids=st.booleans())
    def begin(self, has_ids: bool) -> None:
        """Some run has opened; a purge, which could make ids unknown again, is only without ids."""
        self.has_ids = has_ids
        self.open("x")

    @rule(sizes=st.lists(st.integers(0, 5), min_size=0, max_size=4))
    def stage_rows(self, sizes: list[int]) -> None:
        """An attempt stages blocks; its rows may have the ids of another's rows."""
        written = Written(Staged(f"a{len(self.written)}"))
        for size in sizes:
            start = len(written.rows)
            rows = [(b"%s.%d" % (written.staged.id.encode(), start + i), "") for i in range(size)]
            if self.has_ids:
                rows = [(p, f"id{start + i}") for i, (p, _) in enumerate(rows)]
            written.rows += rows
            block = b"".join(
                encoded(("s.a", p, {"Nats-Msg-Id": i}) if i else ("s.a", p)) for p, i in rows
            )
            self.stage.gather(f"$JG.STAGE.S.{written.staged.id}".encode(), block)
            self.stage.flush()
            written.staged.took(self.stage.machine.last_seq, block, size)
        self.written.append(written)

    @rule(run=st.sampled_from("xyz"))
    def open(self, run: str) -> None:
        """A run opens; the same run keeps its token, a superseded one is refused."""
        found = self._serve(self.transactions.open(self.target.runner, APP, run, HOUR))
        if isinstance(found, ApiError):
            assert found.err_code == 20002
            assert self.tokens[run] < self.newest
            return
        if run in self.tokens:
            assert found.token == self.tokens[run] == self.newest
        else:
            assert found.token == self.newest + 1
        self.tokens[run] = self.newest = found.token
        assert self.target.store.ledger[APP].token == found.token

    @rule(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def write(self, sizes: list[int]) -> None:
        """The newest run stages an attempt and commits it as the next batch."""
        self.stage_rows(sizes)
        newest = max(self.tokens, key=lambda run: self.tokens[run])
        self._commit(newest, self._next(1), self.written[-1:])

    @rule(
        run=st.sampled_from("xyz"),
        ahead=st.sampled_from([-1, 0, 0, 1, 1, 2]),
        wanted=st.sets(st.integers(0, 3), max_size=3),
    )
    def commit(self, run: str, ahead: int, wanted: set[int]) -> None:
        """A run commits some batch with some of the newest attempts."""
        newest = self.written[::-1][:4]
        chosen = [written for place, written in enumerate(newest) if place in wanted]
        if run in self.tokens:
            self._commit(run, self._next(ahead), chosen)

    def _next(self, ahead: int) -> int:
        return max((self.taken[-1][0] if self.taken else 0) + ahead, 0)

    def _commit(self, run: str, batch: int, chosen: list[Written]) -> None:
        self.sent.setdefault(batch, []).append(chosen)
        token, attempts = self.tokens[run], tuple(w.attempt() for w in chosen)
        last = self.taken[-1][0] if self.taken else None
        answer = self._serve(
            self.transactions.commit(self.target.runner, APP, token, batch, attempts, 1)
        )
        if token < self.newest:
            assert isinstance(answer, ApiError)
            assert answer.err_code == 20003
        elif last is not None and batch < last:
            assert isinstance(answer, ApiError)
            assert answer.err_code == 20005
        elif isinstance(answer, BatchStatus) and answer.state == "done":
            assert self._is_stored(batch)

    def _is_stored(self, batch: int) -> bool:
        return self.history[: len(self._expected(batch))] == self._expected(batch)

    def _expected(self, last: int | None = None) -> list[bytes]:
        """The rows of all batches that the ledger took, up to one."""
        known: set[str] = set()
        rows: list[bytes] = []
        for number, manifest in self.taken:
            for written in manifest:
                for payload, msg_id in written.rows:
                    if not msg_id or msg_id not in known:
                        rows.append(payload)
                        known.add(msg_id)
            if number == last:
                break
        return rows

    @rule(plans=st.integers(1, 4))
    def step(self, plans: int) -> None:
        """The next plans of the stream are committed."""
        for _ in range(plans):
            self._step()

    @rule()
    def lose(self) -> None:
        """Storage refuses a plan of the stream."""
        self._step(api_error("JSStreamStoreFailed", err="a fault"))

    @rule()
    def away(self) -> None:
        """Storage is away: what waits for it is refused."""
        self.target.runner.refuse_gathered(api_error("JSClusterNotAvail"))
        self._idle()

    @rule()
    def publish(self) -> None:
        """Somebody else publishes."""
        self.target.gather(b"s.b", b"other")

    @rule(after=st.booleans())
    def crash(self, after: bool) -> None:
        """The leader dies, perhaps after a COMMIT of which it did not hear."""
        if after and self.target.runner.has_work():
            plan = self.target.run(self.target.runner.next_plan(4096, self.target.clock.now()))
            if plan is not None and plan.changes_head:
                self.target.store.commit(plan)
                self._note(plan.segment)
        self._end()
        self.target.reload()
        self.stage.reload()
        self._lead()
        self._idle()

    @precondition(lambda self: not self.has_ids)
    @rule()
    def purge(self) -> None:
        """The stream is purged."""
        self._serve(self.target.runner.requests.purge(None, None, None))

    @rule(seconds=st.sampled_from([1, 3000, 4000]))
    def sweep(self, seconds: int) -> None:
        """Time passes, and staged blocks that nobody needs any more are purged."""
        self.target.clock.advance(seconds)
        self._serve(self.transactions.sweep())

    # -- what holds --------------------------------------------------------------------------

    @invariant()
    def every_row_once_and_in_order(self) -> None:
        expected = self._expected()
        assert self.history == expected[: len(self.history)]
        for number, _ in self.taken[:-1]:
            assert self._is_stored(number)

    def teardown(self) -> None:
        """Whatever was recorded is finished by a leader to come, without any driver."""
        self.crash(False)
        for _ in range(100):
            self._step()
        entry = self.target.store.ledger.get(APP)
        if entry is not None and entry.batch is not None:
            assert entry.batch.is_done
        assert self.history == self._expected()
        self._end()
        self.target.close()
        for each in self.patches:
            each.stop()


TestTransactions = TransactionRules.TestCase
TestTransactions.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
