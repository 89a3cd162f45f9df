"""Direct Get by sequence where no leader answers: from storage, and off a standby."""

# Subject: message get

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.js.api import RetentionPolicy

from core.storage.postgres.locks import LEASE_GROUPS
from tests.e2e.test_database_role import ask
from tests.e2e.test_nodes import client, gathered, no_leader
from tests.support.eventually import observed
from tests.support.jetgate import ROOT
from tests.support.nodes import Nodes, numbers
from tests.support.pg import PostgresServer
from tests.support.scenario import run_within
from tests.support.standby import Standby

PATIENT = 60.0
Answer = tuple[dict[str, str], bytes]


@pytest.fixture(scope="module")
def dsn(durable: PostgresServer) -> str:
    return durable.fresh_database()


@pytest.fixture(scope="module")
def standby(durable: PostgresServer, dsn: str) -> Iterator[Standby]:
    with Standby(dsn, durable.server.data) as standby:
        yield standby


@pytest.fixture(scope="module")
def nodes(dsn: str, standby: Standby) -> Iterator[Nodes]:
    """Two that read off the standby."""
    with Nodes(dsn, 2, "--read-dsn", standby.dsn) as nodes:
        yield nodes


async def ask_for(nc: Client, stream: str, request: object) -> Answer:
    """The whole answer to a Direct Get."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    message = await nc.request(f"$JS.API.DIRECT.GET.{stream}", body, timeout=PATIENT)
    return dict(message.headers or {}), message.data


async def get(nc: Client, stream: str, seq: int) -> bytes:
    """The payload of a message; nothing if there is none."""
    headers, payload = await ask_for(nc, stream, {"seq": seq})
    if "Status" in headers:
        assert headers == {"Status": "404", "Description": "Message Not Found"}
        return b""
    assert headers["Nats-Sequence"] == str(seq)
    return payload


async def select(dsn: str, what: str) -> object:
    """The one value that a query returns."""
    [(found,)] = await asyncio.to_thread(ask, dsn, f"select {what}")
    return found


REQUESTS = (
    *({"seq": seq} for seq in range(1, 14)),
    {"seq": 3, "no_hdr": True},
    *(b"", b"{}", b"no JSON", b'{"seq": 1, "start_time": "2026-01-01T00:00:00Z"}'),
)


async def fill(nc: Client) -> None:
    """A log with messages that were removed in every way, a queue, and one without Direct Get."""
    js = nc.jetstream(timeout=PATIENT)
    await js.add_stream(name="LOG", subjects=["log.>"], allow_direct=True, max_msgs_per_subject=3)
    for number in range(10):
        headers = {"A": "b"} if number % 2 else None
        await js.publish(f"log.{number % 2}", b"%d" % number, headers=headers)
    await js.delete_msg("LOG", 10)
    await js.publish("log.purged", b"x")
    await js.publish("log.last", b"y" * 100_000)
    await js.purge_stream("LOG", subject="log.purged")
    await js.add_stream(name="COPY", mirror={"name": "LOG"}, allow_direct=True)
    queue = RetentionPolicy.WORK_QUEUE
    await js.add_stream(name="QUEUE", subjects=["q"], allow_direct=True, retention=queue)
    await js.add_stream(name="CLOSED", subjects=["closed"])
    for subject in ("q", "closed"):
        await js.publish(subject, b"z")

    async def is_copied() -> bool:
        return (await js.stream_info("COPY")).state.last_seq == 12

    await observed(is_copied)


@pytest.mark.thorough
def test_without_a_leader_the_answers_are_those_of_the_leader(nodes: Nodes, dsn: str) -> None:
    async def scenario() -> None:
        leader, [other] = nodes.roles
        async with client(other) as nc:
            async with client(leader) as near:
                await fill(near)
                expected = {
                    (stream, place): await ask_for(near, stream, request)
                    for stream in ("LOG", "COPY")
                    for place, request in enumerate(REQUESTS)
                }
                assert [await get(near, "LOG", seq) for seq in (4, 5, 9, 10, 11)] == [
                    *(b"", b"4", b"8", b"", b"")
                ]
                assert await get(near, "QUEUE", 1) == b"z"
            async with client(leader) as near:
                name = str(near._server_info["server_name"])
                await gathered(near, name, "LOG", "COPY", "QUEUE", "CLOSED")
            async with no_leader(dsn, "LOG", "COPY", "QUEUE", "CLOSED"):
                leader.kill()
                await observed(lambda: not numbers(other)["jetgate_has_leader"])
                for (stream, place), answer in expected.items():
                    assert await ask_for(nc, stream, REQUESTS[place]) == answer, (stream, place)
                for stream, request in (
                    ("QUEUE", {"seq": 1}),
                    ("CLOSED", {"seq": 1}),
                    ("NONE", {"seq": 1}),
                    ("NONE", b""),
                    ("LOG", {"last_by_subj": "log.1"}),
                    ("LOG", {"seq": 1, "batch": 10}),
                    ("LOG.log.1", b""),
                ):
                    with pytest.raises(NoRespondersError):
                        await ask_for(nc, stream, request)
                url = "http://{}:{}/v1/streams/LOG/messages/8".format(*other.http)
                with await asyncio.to_thread(urlopen, url, timeout=60) as found:
                    assert found.read() == b"7"
            await observed(lambda: numbers(other)["jetgate_lease_groups"] == LEASE_GROUPS)
            # It leads all, and answers once, from memory.
            assert await payloads(nc, "QUEUE", 1) == [b"z"]
            assert await payloads(nc, "LOG", 9, 8, 9) == [b"8", b"7", b"8"]

    run_within(240, scenario)
    for node in nodes.all:
        if node.process is None:
            node.start()
    nodes.settled()


async def payloads(nc: Client, stream: str, *seqs: int) -> list[bytes]:
    """As many answers as there are requests, in their order."""
    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox)
    for seq in seqs:
        await nc.publish(f"$JS.API.DIRECT.GET.{stream}", b'{"seq": %d}' % seq, reply=inbox)
    return [(await subscription.next_msg(PATIENT)).data for _ in seqs]


def test_a_standby_is_read_and_what_it_lacks_or_still_has_is_not_mistaken(
    nodes: Nodes, dsn: str, standby: Standby
) -> None:
    async def scenario() -> None:
        leader, [other] = nodes.roles
        async with client(leader) as near, client(other) as nc:
            js = near.jetstream(timeout=PATIENT)
            await js.add_stream(name="FAR", subjects=["far.>"], allow_direct=True)
            for number in range(1, 6):
                await js.publish("far.a", b"%d" % number)
            rows = "count(*) from jetgate.messages where stream = 'FAR'"

            async def is_replayed() -> bool:
                return await select(standby.dsn, rows) == 5

            await observed(is_replayed)
            assert await get(nc, "FAR", 1) == b"1"
            sessions = "count(*) from pg_stat_activity where application_name like '%standby'"
            assert await select(standby.dsn, sessions) != 0

            await asyncio.to_thread(standby.pause)
            try:
                await js.delete_msg("FAR", 2)
                await js.purge_stream("FAR", seq=2)
                assert (await js.publish("far.b", b"6")).seq == 6
                assert await is_replayed()
                # The leader answers nobody meanwhile, or there is none.
                assert leader.process is not None
                leader.process.send_signal(signal.SIGSTOP)
                found = [await get(nc, "FAR", seq) for seq in range(1, 8)]
                assert found == [b"", b"", b"3", b"4", b"5", b"6", b""]
            finally:
                assert leader.process is not None
                leader.process.send_signal(signal.SIGCONT)
                await asyncio.to_thread(standby.resume)

    run_within(240, scenario)


def test_a_server_that_is_no_standby_of_the_database_is_refused(
    durable: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    other = durable.fresh_database()
    secret = tmp_path / "dsn"
    secret.write_text(other)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "jetgate", "serve", "--dsn", dsn),
            *("--read-dsn-file", str(secret), "--nats-port", "0", "--http-port", "0"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    told = ended.stderr.splitlines()[-1]
    assert told.startswith("jetgate: --read-dsn-file: PostgreSQL at ")
    assert " holds another database, expected a standby of " in told
