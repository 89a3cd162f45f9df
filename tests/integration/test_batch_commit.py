"""Commits of staged batches: refused rows, interruptions, and other publishes meanwhile."""

# Subject: transactions

import asyncio
import contextlib
from typing import Any

import asyncpg
import nats
import nats.errors
import nats.js.errors
import pytest
from nats.errors import NoRespondersError

from core.errors import Unavailable
from core.jetstream import group_committer
from core.jetstream.transactions import staging
from core.model.stream import Discard, RePublish, StreamConfig
from core.node.runtime import RuntimeOptions
from tests.support.eventually import observed
from tests.support.faults import FAULT, NO_FAULT
from tests.support.node import add_stream, running_node
from tests.support.transaction_place import Place, place, plain, rows, scenario
from tests.support.transactions import Attempt, Row, encoded

# -- refused rows ----------------------------------------------------------------------------------


def test_a_refused_row_stops_the_batch_behind_what_was_before_it(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 3), [*rows(4, 5), ("other", b"x"), *rows(6, 6)])

        stopped = await app.commit(1, staged)

        assert (stopped["state"], stopped["promoted"], stopped["rows"]) == ("stopped", 5, 7)
        assert stopped["refused"] == {
            "attempt": "one",
            "seq": 2,
            "row": 2,
            "subject": "other",
            "error": stopped["error"],
        }
        assert stopped["error"]["description"] == 'subject "other" is not one of the stream'
        waits = await app.commit(2, staged)
        assert waits["error"]["err_code"] == 20006

        await at.js.update_stream(name="S", subjects=["s.>", "other"])
        done = await app.commit(1)

        assert (done["state"], done["promoted"]) == ("done", 7)
        assert await at.stored() == [*plain(1, 5), ("other", b"x"), *plain(6, 6)]

    scenario(database, step)


def test_a_full_stream_stops_the_batch_until_there_is_room(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 9))

        stopped = await app.commit(1, staged)

        assert (stopped["state"], stopped["promoted"]) == ("stopped", 6)
        assert stopped["error"]["description"] == "maximum messages exceeded"
        assert (await app.open())["state"] == "stopped"
        await at.js.purge_stream("S")
        assert (await app.commit(1))["state"] == "done"
        assert await at.stored() == plain(7, 9)

    scenario(database, step, max_msgs=6, discard=Discard.NEW)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Nats-Expected-Last-Sequence", "0"),
        ("Nats-Expected-Last-Subject-Sequence", "0"),
        ("Nats-Expected-Last-Msg-Id", "x"),
        ("Nats-Batch-Id", "b"),
    ],
)
def test_expectations_of_one_moment_are_refused_by_name(
    database: str, header: str, value: str
) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        row: Row = ("s.2", b"2", {header: value, "X": "1"})

        stopped = await app.commit(1, await app.stage("one", [*rows(1, 1), row]))

        assert stopped["refused"]["row"] == 1
        assert stopped["error"]["description"] == (
            f'header "{header}" is not supported in a transaction'
        )
        assert await at.stored() == plain(1, 1)

    scenario(database, step)


def test_rows_pass_the_decision_of_publishes(database: str) -> None:
    """Message ids, TTLs, roll-ups, limits per subject and subject transforms work."""

    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        await at.js.publish("s.known", b"0", headers={"Nats-Msg-Id": "a"})
        messages: list[Row] = [
            ("s.known", b"1", {"Nats-Msg-Id": "a"}),
            ("s.new", b"2", {"Nats-Msg-Id": "b"}),
            ("s.new", b"3", {"Nats-Msg-Id": "b"}),
            ("s.new", b"4"),
            ("s.new", b"5"),
            ("s.rolled", b"6"),
            ("s.rolled", b"7", {"Nats-Rollup": "sub", "Nats-TTL": "1h"}),
        ]

        done = await app.commit(1, await app.stage("one", messages))

        assert (done["promoted"], done["duplicates"]) == (7, 2)
        assert (done["first_seq"], done["last_seq"]) == (2, 6)
        assert await at.stored() == [
            ("s.known", b"0"),
            ("s.new", b"4"),
            ("s.new", b"5"),
            ("s.rolled", b"7"),
        ]
        expiry = at.node.registry.streams["S"].machine.expiry
        assert expiry is not None
        assert expiry.next_due()

    scenario(database, step, max_msgs_per_subject=2, allow_rollup_hdrs=True, allow_msg_ttl=True)


def test_consumers_and_republishing_see_the_rows_of_a_batch(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        sent_on = await at.client.subscribe("again.>")
        pulled = await at.js.pull_subscribe("s.>", durable="C", stream="S")

        await app.commit(1, await app.stage("one", rows(1, 5)))

        assert [m.data for m in await pulled.fetch(5, timeout=30)] == [
            b"%d" % n for n in range(1, 6)
        ]
        assert [(await sent_on.next_msg(30)).subject for _ in range(5)] == [
            f"again.s.{n}" for n in range(1, 6)
        ]

    scenario(database, step, republish=RePublish(src="s.>", dest="again.s.>"))


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [b"PUB s.3 9\r\nshort\r\n", b"SUB s.3 1\r\n", b"PUB s.3 r 0\r\n\r\n"]
)
def test_a_malformed_row_stops_the_batch_there(database: str, bad: bytes) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one")
        await app.stage_block(staged, b"".join(map(encoded, rows(1, 2))) + bad, 3)

        stopped = await app.commit(1, staged)

        assert (stopped["error"]["err_code"], stopped["promoted"]) == (20011, 2)
        assert (stopped["refused"]["seq"], stopped["refused"]["row"]) == (1, 2)
        assert await at.stored() == plain(1, 2)

    scenario(database, step)


def test_nothing_is_stored_while_blocks_are_missing_or_others(database: str) -> None:
    """A manifest that does not fit the blocks is forgotten: another may be sent."""

    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        good, other = await app.stage("one", rows(1, 3)), await app.stage("two", rows(4, 6))
        lost = Attempt("one", [[1, 1], [7, 7]], 6, good.crc)
        mixed = Attempt("one", [[2, 2]], 3, other.crc)
        changed = Attempt("one", [[1, 1]], 3, good.crc ^ 1)

        refused = [await app.commit(1, each) for each in (lost, mixed, changed)]

        assert [each["error"]["err_code"] for each in refused] == [20008, 20008, 20009]
        assert refused[0]["error"]["description"] == (
            'attempt "one" has no block 7 on "$JG.STAGE.S.one"'
        )
        assert (await app.open())["batch"] is None
        assert (await app.commit(1, good))["state"] == "done"
        assert await at.stored() == plain(1, 3)

    scenario(database, step)


def test_a_count_of_rows_that_is_wrong_is_reported_at_the_end(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 3))
        staged.rows = 4

        stopped = await app.commit(1, staged)

        assert stopped["state"] == "stopped"
        assert stopped["error"]["description"] == ("the blocks of the manifest have 3 rows, not 4")

    scenario(database, step)


def test_manifests_that_cannot_be_one_are_refused(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 3))
        bad = [
            [staged, staged],
            [Attempt("a.b", [[1, 1]], 3)],
            [Attempt("one", [[3, 1]], 3)],
            [Attempt("one", [[2, 3], [1, 1]], 3)],
            [Attempt("one", [[1]], 3)],
            [Attempt("one", [[1, 1]], -3)],
            [Attempt("one", [], 3)],
        ]

        found = [(await app.commit(1, *attempts))["error"]["err_code"] for attempts in bad]

        assert found == [20007] * len(bad)

    scenario(database, step)


# -- while a batch is committed --------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a batch take many chunks."""
    monkeypatch.setattr(staging, "CHUNK_ROWS", 20)


def test_the_next_leader_finishes_without_the_driver(database: str, small_chunks: None) -> None:
    async def run() -> None:
        async with place(database) as at:
            await add_stream(at.node, StreamConfig(name="S", subjects=("s.>",)))
            app = at.app()
            await app.open()
            staged = await app.stage("one", rows(1, 500), rows(501, 2000))
            running = await app.commit(1, staged, expires=1e-9)
            await observed(lambda: at.node.registry.streams["S"].machine.last_seq)
        assert running["state"] == "promoting"
        async with place(database) as at:
            await observed(lambda: at.node.registry.streams["S"].machine.last_seq == 2000)
            assert await at.stored() == plain(1, 2000)
            done = await at.app().open()
            assert (done["batch"], done["token"]) == (1, 1)

    asyncio.run(run())


def test_every_row_is_stored_once_while_postgresql_ends_sessions(
    database: str, small_chunks: None
) -> None:
    """The outcome of many a COMMIT is unknown to the node."""

    async def step(at: Place) -> None:
        admin = await asyncpg.connect(database)
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 2000), rows(2001, 4000))
        answer = await app.commit(1, staged, expires=1e-9)
        killed = 0
        while answer["state"] != "done":
            killed += len(
                await admin.fetch(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where pid <> pg_backend_pid() and datname = current_database()"
                )
            )
            await observed(lambda: at.client.is_connected)
            with contextlib.suppress(nats.errors.TimeoutError, NoRespondersError):
                answer = await app.commit(1, expires=0.3)
                assert answer.get("error", {}).get("err_code") in (None, 10008), answer
                answer.setdefault("state", "promoting")
        await admin.close()
        assert killed
        assert await at.stored() == plain(1, 4000)

    scenario(database, step)


def test_publishes_take_turns_with_the_chunks_of_a_batch(database: str, small_chunks: None) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 20_000))
        await app.commit(1, staged, expires=1e-9)

        seqs = [(await at.js.publish("s.other", b"")).seq for _ in range(20)]

        assert (await app.commit(1))["state"] in ("promoting", "done")
        assert sorted(seqs) == seqs
        assert seqs[-1] < 20_000  # behind some of the batch, before the rest

    scenario(database, step)


def test_a_waiting_commit_delays_no_other_publish(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a newer run wait, which supersedes it before its manifest is recorded."""
    go_on = asyncio.Event()
    read = staging.StagedMessages.read

    async def late(self: staging.StagedMessages, attempt: Any, seq: int) -> bytes:
        await go_on.wait()
        return await read(self, attempt, seq)

    monkeypatch.setattr(staging.StagedMessages, "read", late)

    async def step(at: Place) -> None:
        old, new = at.app(run="old"), at.app(run="new")
        await old.open()
        staged = await old.stage("one", rows(1, 3))
        running = await old.commit(1, staged, expires=0.01)
        waiting = asyncio.create_task(old.commit(1))
        other = await old.commit(2, staged)
        assert (await at.js.stream_info("S")).state.messages == 0
        assert (await new.open())["state"] == "idle"

        go_on.set()

        assert (running["state"], running["promoted"], running["rows"]) == ("promoting", 0, 3)
        assert other["error"]["err_code"] == 20006
        assert (await waiting)["error"]["err_code"] == 20003
        assert await at.stored() == []
        assert (await new.commit(1, await new.stage("two", rows(4, 5))))["state"] == "done"
        assert await at.stored() == plain(4, 5)

    scenario(database, step)


def test_a_node_that_ends_sends_no_wrong_outcome_of_a_commit(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: staging.StagedMessages, attempt: Any, seq: int) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(staging.StagedMessages, "read", never)

    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 3))
        assert (await app.commit(1, staged, expires=0.01))["state"] == "promoting"
        waiting = asyncio.create_task(app.commit(1))
        await at.client.flush()

        await at.node.runtime.transactions.stop()

        await at.client.flush()
        assert not waiting.done()
        waiting.cancel()

    scenario(database, step)


def test_a_batch_waits_for_storage(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("away")

    async def step(at: Place) -> None:
        app, other = at.app(), at.app("other")
        await app.open()
        staged = await app.stage("one", rows(1, 3))
        with monkeypatch.context() as fault:
            fault.setattr(group_committer, "SLOW_S", 0.05)
            fault.setattr(at.node.writer, "commit", away)
            fault.setattr(at.node.committer, "_recover", away)

            waits = await app.commit(1, staged, expires=0.2)
            refused = await other.open()

            assert (waits["state"], waits["promoted"]) == ("promoting", 0)
            assert refused["error"]["err_code"] == 10008
        assert (await app.commit(1))["state"] == "done"
        assert await at.stored() == plain(1, 3)
        assert (await other.open())["token"] == 1

    scenario(database, step)


def test_a_batch_ends_with_its_stream(database: str, small_chunks: None) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 20_000))
        await app.commit(1, staged, expires=1e-9)

        await at.js.delete_stream("S")

        gone = await app.commit(1)
        assert gone["error"]["description"] == "stream not found"
        await at.js.add_stream(name="S", subjects=["s.>"])
        opened = await app.open()
        assert (opened["token"], opened["batch"]) == (1, None)
        assert opened["incarnation"] == at.node.registry.streams["S"].created
        assert await at.stored() == []

    scenario(database, step)


def test_a_ledger_that_is_deleted_ends_its_batch(database: str, small_chunks: None) -> None:
    """Also if the app comes back at once with a batch of the same number."""

    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 20_000))
        await app.commit(1, staged, expires=1e-9)
        await observed(lambda: at.node.registry.streams["S"].machine.last_seq)

        await app.ask("DELETE", {"app": "app"})
        await app.open()
        before = len(await at.stored())
        done = await app.commit(1, await app.stage("two", rows(1, 3)))

        assert (done["state"], done["promoted"]) == ("done", 3)
        assert before < 20_000
        assert await at.stored() == plain(1, before) + plain(1, 3)

    scenario(database, step)


@pytest.mark.parametrize("subject", ["s.*", "s.>", "s..a", "s.", "other"])
def test_a_subject_that_is_none_stops_the_batch(database: str, subject: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()

        stopped = await app.commit(1, await app.stage("one", [("s.a*", b""), (subject, b"")]))

        assert (stopped["promoted"], stopped["error"]["err_code"]) == (1, 20012)

    scenario(database, step)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_batch_stops_where_its_blocks_are_gone(
    database: str, small_chunks: None, deleted: bool
) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        blocks = [rows(n, n + 99) for n in range(1, 20_000, 100)]
        staged = await app.stage("one", *blocks)
        await app.commit(1, staged, expires=1e-9)
        await observed(lambda: at.node.registry.streams["S"].machine.last_seq)

        if deleted:
            await at.js.delete_stream("JG_STAGE_S")
        else:
            await at.js.purge_stream("JG_STAGE_S")

        stopped = await app.commit(1)
        assert (stopped["state"], stopped["error"]["err_code"]) == ("stopped", 20008)
        assert 0 < stopped["promoted"] < 20_000
        assert stopped["refused"]["attempt"] == "one"
        assert await at.stored() == plain(1, stopped["promoted"])
        again = await app.commit(1)
        assert again == stopped
        # Nobody can finish it, so somebody has to say that it is to be forgotten.
        assert (await app.ask("DELETE", {"app": "app"}))["success"]
        assert (await app.open())["token"] == 2

    scenario(database, step)


def test_a_stream_that_is_sealed_stops_the_batch(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 3))
        await at.js.update_stream(name="S", subjects=["s.>"], sealed=True)

        stopped = await app.commit(1, staged)

        assert stopped["error"]["description"] == "invalid operation on sealed stream"
        assert stopped["promoted"] == 0

    scenario(database, step)


def test_a_commit_refused_by_storage_goes_on_when_requested_again(database: str) -> None:
    async def step(at: Place) -> None:
        admin = await asyncpg.connect(database)
        app = at.app()
        await app.open()
        staged = await app.stage("one", rows(1, 2), [("s.bad", b"x")])
        await admin.execute(FAULT.format(code="53100"))

        stopped = await app.commit(1, staged)

        assert (stopped["state"], stopped["error"]["err_code"]) == ("stopped", 10023)
        await admin.execute(NO_FAULT)
        await admin.close()
        assert (await app.commit(1))["state"] == "done"
        assert await at.stored() == [*plain(1, 2), ("s.bad", b"x")]

    scenario(database, step)


def test_the_limit_of_the_node_stops_the_batch(database: str) -> None:
    async def run() -> None:
        async with running_node(database, options=RuntimeOptions(max_file=20_000)) as node:
            client = await nats.connect(f"nats://{node.hub.host}:{node.hub.port}")
            at = Place(node, client)
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",)))
            app = at.app()
            await app.open()
            staged = await app.stage("one", [(f"s.{n}", bytes(100)) for n in range(90)])

            stopped = await app.commit(1, staged)

            assert (stopped["state"], stopped["error"]["err_code"]) == ("stopped", 10023)
            assert 0 < stopped["promoted"] < 90
            assert stopped["refused"]["row"] == stopped["promoted"]
            await client.close()

    asyncio.run(run())
