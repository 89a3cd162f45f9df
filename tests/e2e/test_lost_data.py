"""PostgreSQL loses what was acknowledged: it comes back as it was before."""

# Subject: storage faults

import http.client
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_commands import Process, request, run
from tests.e2e.test_database_role import ask
from tests.e2e.test_operations import about, is_ready, metrics, serve
from tests.support.eventually import eventually
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find
from tests.support.standby import Standby

S = "/v1/streams/S"
EMPTY = "synchronous_standby_names is empty"
C = f"{S}/consumers/C"


class Past:
    """What a PostgreSQL has, to be had again later."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres
        self._data = postgres.server.data
        self._copy = postgres.dir / "past"
        postgres.run(postgres.server.stop())
        subprocess.run(["cp", "-a", self._data, self._copy], check=True)
        postgres.start()

    def again(self, process: Process) -> None:
        """Let everything since be forgotten, and the process notice that PostgreSQL is away."""
        self._postgres.run(self._postgres.server.stop())
        eventually(lambda: not is_ready(process.ports))
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self._postgres.start()


@pytest.fixture(scope="module", params=[pytest.param(15, marks=pytest.mark.thorough), 18])
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A durable PostgreSQL that tests may stop."""
    installation = find(request.param)
    if installation is None:
        pytest.skip("PostgreSQL 15 is not here (apt-get install postgresql-15)")
    with PostgresServer(installation=installation, settings={"fsync": "on"}) as server:
        yield server


def call(
    process: Process, method: str, path: str, body: Any = "", headers: dict[str, str] | None = None
) -> Any:
    """The answer to a request, which succeeds sooner or later."""
    kind = {} if isinstance(body, str) else {"Content-Type": "application/json"}
    content = body if isinstance(body, str) else json.dumps(body)

    def answered() -> bytes | None:
        place = process.ports["http"].removeprefix("http://")
        connection = http.client.HTTPConnection(place, timeout=60)
        try:
            connection.request(method, path, content or None, kind | (headers or {}))
            answer = connection.getresponse()
            text = answer.read() or b"{}"
            return text if answer.status < 300 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    return json.loads(eventually(answered))


def publish(process: Process, subject: str, msg_id: str) -> int:
    """The sequence of a message, which is stored once however often that is tried."""
    headers = {"Nats-Msg-Id": msg_id}
    return int(call(process, "POST", f"/v1/subjects/{subject}", msg_id, headers)["seq"])


def fetch(process: Process, count: int) -> list[Any]:
    """Messages of the consumer, at most so many."""
    wanted = {"batch": count, "expires": "30s" if count == 1 else "0s"}
    found: list[Any] = call(process, "POST", f"{C}:fetch", wanted)["messages"]
    return found


def ack(process: Process, messages: list[Any]) -> None:
    tokens = [message["token"] for message in messages]
    done = call(process, "POST", f"{C}:ack", {"tokens": tokens, "sync": True})
    assert done["succeeded"] == len(messages)


def doctor(dsn: str) -> str:
    """What it says of replication."""
    [line] = [each for each in run("doctor", "--dsn", dsn).stdout.splitlines() if EMPTY in each]
    return line


def state(process: Process, stream: str) -> dict[str, int]:
    found: dict[str, int] = call(process, "GET", f"/v1/streams/{stream}")["state"]
    return found


def test_data_lost_by_postgresql_is_reported_and_no_sequence_is_given_twice(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    dsn = postgres.fresh_database()
    with serve(dsn, tmp_path) as process:
        for name in ("S", "EMPTY", "DELETED"):
            subjects = {"subjects": [f"{name.lower()}.>"]}
            call(process, "PUT", f"/v1/streams/{name}", subjects)
        last = {"subjects": ["last.>"], "max_msgs_per_subject": 1, "allow_direct": True}
        call(process, "PUT", "/v1/streams/LAST", last)
        call(process, "PUT", C, {"ack_policy": "explicit"})
        assert [publish(process, "s.1", each) for each in "abc"] == [1, 2, 3]
        assert publish(process, "deleted.1", "x") == 1
        ack(process, fetch(process, 1))
        assert publish(process, "last.k", "old") == 1
        past = Past(postgres)
        eventually(lambda: is_ready(process.ports))
        assert [publish(process, "s.1", each) for each in "def"] == [4, 5, 6]
        assert publish(process, "empty.1", "y") == 1
        assert publish(process, "deleted.1", "z") == 2
        assert publish(process, "last.k", "new") == 2  # the other is deleted soon
        call(process, "PUT", "/v1/streams/NEW", {"subjects": ["new.>"]})
        assert publish(process, "new.1", "n") == 1
        call(process, "DELETE", "/v1/streams/DELETED")
        seen = fetch(process, 4)
        ack(process, seen[:3])  # one is not acknowledged, and gone

        past.again(process)

        told = "the database lost "
        eventually(lambda: len(about(process, told)) == 6)
        assert sorted(line[25:].split(told)[1] for line in about(process, told)) == [
            "2 changes of streams",
            "sequence 1 of stream EMPTY; it goes on with 2",
            "sequence 2 of stream LAST; it goes on with 3",
            "sequences 4..6 of stream S; it goes on with 7",
            "stream NEW with sequence 1",
            "the deletion of stream DELETED: it is there again",
        ]
        assert all(" ERROR   the database lost " in line for line in about(process, told))
        eventually(lambda: is_ready(process.ports))
        assert metrics(process.ports)["jetgate_lost_sequences_total"] == 6

        assert publish(process, "s.1", "e") == 7  # its message was lost
        assert publish(process, "s.1", "b") == 2
        assert publish(process, "empty.1", "y") == 2
        assert publish(process, "deleted.1", "z") == 3
        found = state(process, "S")
        assert [found[name] for name in ("messages", "first_seq", "last_seq")] == [4, 1, 7]
        assert state(process, "EMPTY")["first_seq"] == 2
        assert is_gone(process, "NEW")
        assert state(process, "LAST")["messages"] == 1  # what the lost one had replaced
        went_on(process)
        eventually(lambda: outages_are_over(dsn))


def outages_are_over(dsn: str) -> bool:
    """Whether the status shows how long each was; there is one at least."""
    status = json.loads(run("status", "--json", "--seconds", "0", "--dsn", dsn).stdout)
    outages = status["outages"]
    assert outages
    assert all(each["node"] == status["leader"] and each["cause"] for each in outages)
    return all(each["seconds"] is not None and each["seconds"] > 0 for each in outages)


def went_on(process: Process) -> None:
    """The consumer gets what is new, perhaps what it had once more, and nothing else."""
    had: dict[int, str] = {}

    def has_the_last() -> bool:
        messages = fetch(process, 10)
        had.update({message["seq"]: message["text"] for message in messages})
        ack(process, messages)
        return 7 in had

    eventually(has_the_last)
    expected = {2: "b", 3: "c", 7: "e"}
    assert had.items() <= expected.items()
    info = call(process, "GET", C)
    assert (info["num_pending"], info["num_ack_pending"]) == (0, 0)
    assert (info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"]) == (7, 7)


def is_gone(process: Process, stream: str) -> bool:
    return request(process.ports, "GET", f"/v1/streams/{stream}")[0] == 404


@pytest.mark.parametrize("postgres", [18], indirect=True)
def test_a_deletion_that_postgresql_lost_is_undone_as_a_whole(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    dsn = postgres.fresh_database()
    with serve(dsn, tmp_path) as process:
        call(process, "PUT", S, {"subjects": ["s.>"], "allow_direct": True})
        assert [publish(process, "s.1", each) for each in "abc"] == [1, 2, 3]
        past = Past(postgres)
        eventually(lambda: is_ready(process.ports))

        def is_deleted() -> bool:
            request(process.ports, "DELETE", f"{S}/messages/2")
            return state(process, "S")["messages"] == 2

        eventually(is_deleted)

        past.again(process)

        eventually(lambda: about(process, "stream S is not as this node left it"))
        assert publish(process, "s.1", "d") == 4
        found = state(process, "S")
        assert [found[name] for name in ("messages", "first_seq", "last_seq")] == [4, 1, 4]
        read = call(process, "POST", f"{S}/messages:read", {})["messages"]
        assert [message["text"] for message in read] == ["a", "b", "c", "d"]
        assert metrics(process.ports)["jetgate_lost_sequences_total"] == 0
        assert "OUTAGE BEGAN" in run("status", "--seconds", "0", "--dsn", dsn).stdout


def test_a_failover_to_an_asynchronous_standby_is_warned_of_and_survived(tmp_path: Path) -> None:
    with PostgresServer(settings={"fsync": "on"}) as primary:
        dsn = primary.fresh_database()
        where, _, first = dsn.partition("?host=")
        with Standby(dsn, primary.server.data) as standby:
            streams = "select 1 from pg_stat_replication where state = 'streaming'"
            eventually(lambda: ask(dsn, streams), within=60)
            both = f"{where}?host={first},{standby.dsn.partition('?host=')[2]}"
            with serve(both, tmp_path) as process:
                costs = "a failover to a standby loses what was acknowledged last: "
                [warning] = eventually(lambda: about(process, "synchronous_standby_names"))
                assert f" WARNING 1 standby is connected, and {EMPTY}: {costs}" in warning
                assert f"1 standby is connected, and {EMPTY}" in doctor(dsn)
                primary.execute("create role jet login")
                unseen = "1 sessions, standbys or backups (pg_monitor may see which), are connected"
                assert f"{unseen}, and {EMPTY}" in doctor(dsn.replace("postgres@", "jet@"))
                call(process, "PUT", S, {"subjects": ["s.>"], "allow_direct": True})
                assert publish(process, "s.1", "a") == 1
                eventually(lambda: ask(standby.dsn, "select 1 from jetgate.messages"), within=60)
                standby.detach()
                assert [publish(process, "s.1", each) for each in "bcd"] == [2, 3, 4]

                primary.run(primary.server.stop())
                standby.promote()

                lost = "the database lost sequences 2..4 of stream S; it goes on with 5"
                eventually(lambda: about(process, lost), within=60)
                assert publish(process, "s.1", "c") == 5
                assert ask(standby.dsn, "select seq from jetgate.messages") == [(1,), (5,)]
