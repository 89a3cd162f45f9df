"""Transactions over sockets: who may commit what, what is answered, what stays of it."""

# Subject: transactions

import asyncio
import json
from typing import Any

import nats
import nats.errors
import nats.js.errors
import pytest
from nats.errors import NoRespondersError
from nats.js.api import StreamSource

from core.jetstream.transactions import staging
from core.model.stream import StreamConfig
from tests.support.eventually import observed
from tests.support.natsserver import NatsServer
from tests.support.node import add_stream
from tests.support.transaction_place import Place, place, plain, rows, scenario
from tests.support.transactions import App


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a batch take many chunks."""
    monkeypatch.setattr(staging, "CHUNK_ROWS", 20)


# -- the plain case --------------------------------------------------------------------------------


def test_a_batch_is_stored_in_the_order_of_its_manifest(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        opened = await app.open()
        incarnation = at.node.registry.streams["S"].created
        assert (opened["incarnation"], opened["token"], opened["batch"]) == (incarnation, 1, None)
        assert opened["stage"] == {"stream": "JG_STAGE_S", "subject": "$JG.STAGE.S"}
        one = await app.stage("one", rows(4, 5))
        two = await app.stage("two", rows(1, 1), rows(2, 3))

        done = await app.commit(0, two, one)

        assert done["state"] == "done"
        assert (done["promoted"], done["rows"], done["duplicates"]) == (5, 5, 0)
        assert (done["first_seq"], done["last_seq"]) == (1, 5)
        assert await at.stored() == plain(1, 5)

    scenario(database, step)


def test_a_batch_of_many_chunks_is_stored_once(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = await app.stage("one", *(rows(n, n + 999) for n in range(1, 20_001, 1000)))

        done = await app.commit(1, staged)

        assert (done["state"], done["rows"], done["last_seq"]) == ("done", 20_000, 20_000)
        assert await at.stored() == plain(1, 20_000)

    scenario(database, step)


def test_a_batch_repeated_is_answered_again_whatever_it_names(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        done = await app.commit(3, await app.stage("one", rows(1, 3)))

        again = await app.commit(3, await app.stage("two", rows(7, 9)))

        assert again == done
        assert await at.stored() == plain(1, 3)

    scenario(database, step)


def test_a_batch_without_rows_is_done(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()

        assert (await app.commit(0))["state"] == "done"
        assert (await app.commit(1, await app.stage("none")))["state"] == "done"
        assert (await app.open())["batch"] == 1

    scenario(database, step)


def test_the_ledger_outlives_the_leader_and_a_purge(database: str) -> None:
    async def run() -> None:
        async with place(database) as at:
            await add_stream(at.node, StreamConfig(name="S", subjects=("s.>",)))
            app = at.app()
            await app.open()
            done = await app.commit(4, await app.stage("one", rows(1, 3)))
            await at.js.purge_stream("S")
        async with place(database) as at:
            app = at.app()
            opened = await app.open()
            assert (opened["token"], opened["batch"], opened["state"]) == (1, 4, "idle")
            assert await app.commit(4) == done
            await app.commit(5, await app.stage("two", rows(4, 5)))
            assert await at.stored() == plain(4, 5)

    asyncio.run(run())


def test_all_that_the_ledger_knows_outlives_the_leader(database: str) -> None:
    """Where a batch stopped and why, which runs were superseded, which tokens were given."""
    name = 'O\'Neil "ü" \\'

    async def run() -> None:
        async with place(database) as at:
            await add_stream(at.node, StreamConfig(name="S", subjects=("s.>",)))
            await at.app(name, run="old").open()
            app, gone = at.app(name, run="new"), at.app("gone")
            await app.open()
            await gone.open()
            await gone.ask("DELETE", {"app": "gone"})
            staged = await app.stage("one", [*rows(1, 2), ("wörld", b"x"), *rows(3, 4)])
            await app.commit(7, staged)
            before = await app.ask("INFO", {})
        async with place(database) as at:
            app, gone = at.app(name, run="new"), at.app("gone")
            assert await app.ask("INFO", {}) == before
            assert before["apps"][0]["refused"]["subject"] == "wörld"
            assert (await at.app(name, run="old").open())["error"]["err_code"] == 20002
            assert (await gone.open())["token"] == 2
            opened = await app.open()
            assert (opened["token"], opened["batch"], opened["state"]) == (2, 7, "stopped")
            assert await at.stored() == plain(1, 2)  # It waits to be asked.
            await at.js.update_stream(name="S", subjects=["s.>", "wörld"])
            assert (await app.commit(7))["state"] == "done"
            assert await at.stored() == [*plain(1, 2), ("wörld", b"x"), *plain(3, 4)]

    asyncio.run(run())


def test_a_server_without_transactions_has_no_responders(nats_server: NatsServer) -> None:
    async def run() -> None:
        host, port = nats_server.address
        client = await nats.connect(f"nats://{host}:{port}")
        try:
            with pytest.raises(NoRespondersError):
                await App(client, "S").open()
        finally:
            await client.close()

    asyncio.run(run())


# -- who may commit what ---------------------------------------------------------------------------


def test_a_batch_that_is_committed_many_times_at_once_is_stored_once(
    database: str, small_chunks: None
) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        staged = [await app.stage(f"try{n}", rows(1, 200)) for n in range(5)]

        # All of them wait for something else of the ledger first.
        book = at.node.runtime.transactions._ledger(at.node.registry.streams["S"])
        async with book.lock:
            asked = [asyncio.create_task(app.commit(1, each)) for each in staged * 2]
            await asyncio.sleep(0)
            await at.client.flush()
        answers = await asyncio.gather(*asked)

        assert all(answer == answers[0] for answer in answers)
        assert answers[0]["state"] == "done"
        assert await at.stored() == plain(1, 200)

    scenario(database, step)


def test_a_newer_run_supersedes_an_older_one(database: str) -> None:
    async def step(at: Place) -> None:
        old, new = at.app(run="old"), at.app(run="new")
        assert (await old.open())["token"] == (await old.open())["token"] == 1
        assert (await new.open())["token"] == 2

        late = await old.commit(1, await old.stage("one", rows(1, 3)))
        back = await old.open()

        assert late["error"]["err_code"] == 20003
        assert back["error"]["err_code"] == 20002
        assert back["error"]["description"] == (
            'run "old" of app "app" was superseded by run "new"'
        )
        assert await at.stored() == []

    scenario(database, step)


def test_older_batches_unknown_tokens_and_apps_are_refused(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        staged = await open_and_stage(app)
        assert (await app.commit(9, staged))["state"] == "done"

        refused = [
            (await app.commit(8, staged))["error"]["err_code"],
            (await app.commit(10, staged, token=7))["error"]["err_code"],
            (await at.app("other").commit(1, staged))["error"]["err_code"],
            (await app.ask("DELETE", {"app": "other"}))["error"]["err_code"],
            (await at.app(stream="T").open())["error"]["err_code"],
        ]

        assert refused == [20005, 20004, 20001, 20001, 10059]
        assert await at.stored() == plain(1, 3)

    async def open_and_stage(app: App) -> Any:
        await app.open()
        return await app.stage("one", rows(1, 3))

    scenario(database, step)


# -- staged blocks ---------------------------------------------------------------------------------


def test_blocks_of_a_finished_batch_are_purged_at_once(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open()
        lost = await app.stage("lost", rows(1, 3))
        won = await app.stage("won", rows(1, 2), rows(3, 3))

        await app.commit(1, won)

        stage = at.node.registry.streams["JG_STAGE_S"]
        await observed(lambda: stage.machine.msgs == 1)
        assert stage.log.is_live(lost.seqs[0][0])

    scenario(database, step)


def test_blocks_that_wait_too_long_are_swept_but_for_those_of_a_batch(database: str) -> None:
    async def step(at: Place) -> None:
        app = at.app()
        await app.open(keep=1)
        stage = at.node.registry.streams["JG_STAGE_S"]
        await app.stage("lost", rows(1, 3))
        stuck = await app.stage("stuck", [("other", b"")])
        await app.commit(1, stuck)
        await app.stage("late", rows(4, 5))

        await at.node.runtime.transactions.sweep()

        assert (stage.log.first_seq, stage.machine.msgs) == (stuck.seqs[0][0], 2)
        await app.ask("DELETE", {"app": "app"})
        await app.open()
        await at.node.runtime.transactions.sweep()
        assert stage.machine.msgs == 2  # An hour is the default.
        await app.open(keep=1)
        await at.node.runtime.transactions.sweep()
        assert stage.machine.msgs == 0

    scenario(database, step)


# -- the rest of the API ---------------------------------------------------------------------------


def test_info_lists_the_ledger(database: str) -> None:
    async def step(at: Place) -> None:
        one, two = at.app("one"), at.app("two")
        await one.open()
        await two.open()
        await one.commit(3, await one.stage("a", rows(1, 3)))

        found = await one.ask("INFO", {})

        assert found["stage"] == {"stream": "JG_STAGE_S", "subject": "$JG.STAGE.S"}
        first, second = found["apps"]
        assert (first["app"], first["batch"], first["state"], first["rows"]) == (
            "one",
            3,
            "done",
            3,
        )
        assert (second["app"], second["run"], second["token"]) == ("two", "run", 1)
        assert "batch" not in second

    scenario(database, step)


def test_streams_that_take_no_rows_are_refused(database: str) -> None:
    async def step(at: Place) -> None:
        await at.js.add_stream(name="M", mirror=StreamSource(name="S"))
        await at.app().open()

        refused = [await at.app(stream=name).open() for name in ("M", "JG_STAGE_S")]

        assert [each["error"]["description"] for each in refused] == [
            'stream "M" is a mirror: it takes no messages',
            'stream "JG_STAGE_S" holds staged transactions',
        ]

    scenario(database, step)


def test_requests_are_audited_like_any_other(database: str) -> None:
    async def step(at: Place) -> None:
        audits = await at.client.subscribe("$JS.EVENT.ADVISORY.API")
        await at.client.flush()

        await at.app().open()

        while True:
            audit = json.loads((await audits.next_msg(30)).data)
            if audit["subject"] == "$JG.API.TXN.OPEN.S":
                break
        assert json.loads(audit["request"]) == {"app": "app", "run": "run"}
        assert json.loads(audit["response"])["token"] == 1

    scenario(database, step)


def test_the_api_is_captured_by_no_stream(database: str) -> None:
    async def step(at: Place) -> None:
        with pytest.raises(nats.js.errors.ServerError, match="require no-ack"):
            await at.js.add_stream(name="G", subjects=["$JG.>"])

    scenario(database, step)
