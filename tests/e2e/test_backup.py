"""`jetgate backup`, `restore` and `verify`, run as a role without powers."""

# Subject: backup

import asyncio
import hashlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest

import migrations
from core.errors import OperatorError
from core.storage.postgres.backup.programs import find_dump
from tests.e2e.test_commands import ROOT, Process
from tests.gateway.sockets import Socket
from tests.gateway.web import Web
from tests.support.commands import jetgate
from tests.support.eventually import eventually
from tests.support.operator import OperatorPostgres
from tests.support.scratch import scratch
from tests.support.sql import on
from tests.support.wire import Wire

HOUR = 3600 * 10**9
ANY = ("--nats-port", "0", "--http-port", "0")


@pytest.fixture(scope="module")
def operator() -> Iterator[OperatorPostgres]:
    with OperatorPostgres() as server:
        yield server


def done(*arguments: object) -> str:
    """Run a command that has to succeed; what it printed."""
    found = jetgate(*arguments)
    assert found.returncode == 0, found
    return found.stdout


def refused(*arguments: object) -> str:
    """Run a command that has to fail; what it said."""
    found = jetgate(*arguments)
    assert (found.returncode, found.stdout) == (1, ""), found
    return found.stderr


@contextmanager
def serving(dsn: str, data: Path) -> Iterator[tuple[Process, Web]]:
    with Process("serve", "--dsn", dsn, *ANY, data=data) as process:
        host, _, port = process.ports["http"].removeprefix("http://").partition(":")
        yield process, Web((host, int(port)))
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0


def new_database(operator: OperatorPostgres) -> tuple[str, str]:
    """A database that `jet` owns: its own connection string, and the superuser's."""
    name, admin = operator.database()
    return operator.dsn(name), admin


def create(web: Web, stream: str, **config: Any) -> None:
    assert web.json("PUT", f"/v1/streams/{stream}", config).status == 201


def publish(web: Web, subject: str, text: str, msg_id: str = "") -> tuple[int, bool]:
    """Publish; the sequence, and whether it is that of a message with the same id."""
    headers = {"Nats-Msg-Id": msg_id} if msg_id else {}
    answer = web.send("POST", f"/v1/subjects/{subject}", text.encode(), headers)
    assert answer.status in (200, 201), answer
    return answer.json()["seq"], answer.json().get("duplicate", False)


class Publisher(threading.Thread):
    """Publishes numbers until it is told to end; `acked` are their sequences."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.acked: dict[int, str] = {}
        self._ends = threading.Event()

    def run(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        client = await nats.connect(self.url)
        try:
            number = 0
            while not self._ends.is_set():
                texts = [str(number + i) for i in range(20)]
                number += len(texts)
                js = client.jetstream(timeout=30)
                acks = await asyncio.gather(
                    *(js.publish("s.1", t.encode(), timeout=60) for t in texts)
                )
                self.acked |= {a.seq: t for a, t in zip(acks, texts, strict=True)}
        finally:
            await client.close()

    def end(self) -> None:
        self._ends.set()
        self.join()


LONG = "s." + hashlib.sha512(b"").hexdigest() * 30
"""A subject that does not fit into an index entry."""


def _odd_subjects(url: str) -> dict[int, str]:
    """Publish on subjects that rows hold in other ways; the texts by sequence."""
    host, _, port = url.removeprefix("nats://").partition(":")
    with Wire((host, int(port))) as wire:
        wire.hello()
        for subject in (LONG, "s.\udcff", "s.a\0"):
            wire.request(subject, b"odd")
    return dict.fromkeys((1, 2, 3), "odd")


def test_a_backup_under_load_has_all_that_was_acknowledged_before(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    dsn, _ = new_database(operator)
    other, admin = new_database(operator)
    archive = tmp_path / "backup"
    with serving(dsn, tmp_path / "one") as (process, web):
        create(web, "S", subjects=["s.>"])
        publisher = Publisher(process.ports["nats"])
        publisher.acked |= _odd_subjects(process.ports["nats"])
        publisher.start()
        try:
            eventually(lambda: len(publisher.acked) >= 400)
            before = dict(publisher.acked)
            said = done("backup", archive, "--dsn", dsn, "--jobs", 2)
        finally:
            publisher.end()
    assert f"{archive}: 1 streams, " in said
    assert archive.stat().st_mode & 0o77 == 0

    done("restore", archive, "--dsn", other)

    assert "ok       S: " in done("verify", archive)
    assert "ok       S: " in done("verify", "--against", archive, "--dsn", other)
    stored = {seq: data.decode() for seq, data in on(admin, "select seq, data from jetgate.log")}
    assert before.items() <= stored.items()
    assert sorted(stored) == list(range(1, len(stored) + 1))
    assert stored.items() <= publisher.acked.items()
    subjects = on(admin, "select subject from jetgate.log where seq <= 3 order by seq")
    assert subjects == [(LONG,), ("s. ff",), ("s.a 00",)]
    with serving(other, tmp_path / "two") as (_, web):
        assert publish(web, "s.1", "next") == (len(stored) + 1, False)


def test_a_long_backup_shows_its_progress_and_ends_on_a_signal(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    dsn, admin = new_database(operator)
    done("migrate", "--dsn", dsn)

    async def work() -> tuple[str, int]:
        session = await asyncpg.connect(admin)
        try:
            await session.execute("begin; lock table jetgate_store.remote")
            command = ["-m", "jetgate", "backup", str(tmp_path / "backup"), "--dsn", dsn]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, cwd=ROOT, stderr=subprocess.PIPE
            )
            assert process.stderr is not None
            said = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
            process.send_signal(signal.SIGTERM)
            await process.communicate()
            return said, await process.wait()
        finally:
            await session.close()

    said, code = asyncio.run(work())
    assert re.fullmatch(r"\d+\.\d MB written\n", said)
    assert code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_an_older_state_is_a_new_incarnation_with_sane_consumers_and_ids(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    dsn, admin = new_database(operator)
    archive = tmp_path / "monday.jgb"
    consumer = "/v1/streams/S/consumers/C"
    with serving(dsn, tmp_path / "one") as (_, web):
        create(web, "S", subjects=["s.>"], duplicate_window=HOUR)
        create(web, "COPY", sources=[{"name": "S"}])
        web.json("PUT", consumer, {"ack_policy": "explicit", "ack_wait": HOUR})
        for number in range(1, 11):
            publish(web, "s.1", f"m{number}", f"m{number}")
        fetched = web.json("POST", f"{consumer}:fetch", {"batch": 6}).json()["messages"]
        tokens = [message["token"] for message in fetched]
        assert web.json("POST", f"{consumer}:ack", {"tokens": tokens[:4]}).status == 200
        with Socket(web.address) as ws:
            begun = ws.ask("sub", sid=1, stream="S", **{"from": "all"})
        state = "select delivered_stream_seq, ack_floor_stream_seq from jetgate.consumers"
        eventually(lambda: on(admin, state) == [(6, 4)])
        eventually(lambda: messages(web, "COPY") == 10)
        done("backup", archive, "--dsn", dsn)
        for number in range(11, 16):
            publish(web, "s.1", f"m{number}", f"m{number}")
        fetched = web.json("POST", f"{consumer}:fetch", {"batch": 9}).json()["messages"]
        later = [message["token"] for message in fetched]
        web.json("POST", f"{consumer}:ack", {"tokens": tokens[4:] + later})
    [(created, epoch)] = on(admin, INCARNATION)

    on(admin, "drop schema jetgate cascade", "drop schema jetgate_store cascade")
    done("restore", archive, "--dsn", dsn)

    [(created_now, epoch_now)] = on(admin, INCARNATION)
    assert created_now > created
    assert epoch_now > epoch
    with serving(dsn, tmp_path / "two") as (_, web):
        info = web.send("GET", consumer).json()
        assert (info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"]) == (6, 4)
        assert (info["num_ack_pending"], info["num_pending"]) == (2, 4)
        # A token names a sequence that may be another message by now.
        assert web.json("POST", f"{consumer}:ack", {"tokens": later}).json()["succeeded"] == 0
        position = {"incarnation": begun["incarnation"], "seq": 10}
        with Socket(web.address) as ws:
            again = ws.ask("sub", sid=1, stream="S", after=position)
            assert (again["recovered"], again["last_seq"]) == (False, 10)
            assert again["incarnation"] == str(created_now)
        assert publish(web, "s.1", "m3", "m3") == (3, True)
        assert publish(web, "s.1", "another", "m12") == (11, False)
        fetched = web.json("POST", f"{consumer}:fetch", {"batch": 5}).json()["messages"]
        assert [message["seq"] for message in fetched] == [7, 8, 9, 10, 11]
        eventually(lambda: messages(web, "COPY") >= 11)
        assert messages(web, "COPY") == 11


INCARNATION = """
    select s.created, h.epoch from jetgate_store.stream s join jetgate_store.head h using (stream)
     where s.name = 'S'
"""


def messages(web: Web, stream: str) -> int:
    return int(web.send("GET", f"/v1/streams/{stream}").json()["state"]["messages"])


@dataclass
class Saved:
    """A database with 30 messages in S and a large one in LARGE, and backups of it."""

    dsn: str
    admin: str
    plain: bytes
    pressed: bytes


@pytest.fixture(scope="module")
def saved(operator: OperatorPostgres) -> Iterator[Saved]:
    place = scratch("jetgate-e2e-")
    dsn, admin = new_database(operator)
    with serving(dsn, place / "data") as (_, web):
        create(web, "S", subjects=["s.>"])
        for number in range(1, 31):
            publish(web, "s.1", f"message {number:>3}")
        create(web, "LARGE", subjects=["large"])
        web.send("POST", "/v1/subjects/large", random.Random(1).randbytes(300_000))
        done("backup", place / "plain", "--dsn", dsn, "--compress", 0)
        done("backup", place / "pressed", "--dsn", dsn)
    yield Saved(dsn, admin, (place / "plain").read_bytes(), (place / "pressed").read_bytes())
    shutil.rmtree(place)


def test_a_payload_that_changed_in_a_backup_is_named(
    operator: OperatorPostgres, saved: Saved, tmp_path: Path
) -> None:
    dsn, admin = new_database(operator)
    archive = tmp_path / "backup"
    was, now = b"message  17".hex().encode(), b"message  71".hex().encode()
    assert saved.plain.count(was) == 1
    archive.write_bytes(saved.plain.replace(was, now))
    said = jetgate("verify", archive)
    assert said.returncode == 1
    assert f"differs  {archive} is not as it was written\n" in said.stdout
    assert "differs  S: message 17 does not match its checksum\n" in said.stdout
    assert "ok       LARGE: 1 messages, 1 to 1\n" in said.stdout

    text = refused("restore", archive, "--dsn", dsn)

    assert "differs  S: message 17 does not match its checksum\n" in text
    assert f"{archive} is damaged; nothing was restored\n" in text
    assert on(admin, "select count(*) from jetgate.streams") == [(0,)]
    done("restore", archive, "--dsn", dsn, "--damaged")
    assert on(admin, "select count(*) from jetgate.log") == [(31,)]


def test_a_subject_that_changed_in_a_backup_is_found(saved: Saved, tmp_path: Path) -> None:
    """The checksum of a message does not cover it; the sums do."""
    archive = tmp_path / "backup"
    at = saved.plain.index(b"\ts.1\t")
    archive.write_bytes(saved.plain[:at] + b"\ts.2\t" + saved.plain[at + 5 :])
    said = jetgate("verify", archive)
    assert said.returncode == 1
    assert "differs  S: one or more of the messages 1 to 30 have another subject" in said.stdout


def test_a_backup_that_is_cut_or_has_a_bit_changed_is_refused(
    operator: OperatorPostgres, saved: Saved, tmp_path: Path
) -> None:
    dsn, admin = new_database(operator)
    archive = tmp_path / "backup"
    archive.write_bytes(saved.pressed[:-100])
    assert f"{archive} is cut short" in refused("verify", archive)
    content = bytearray(saved.pressed)
    content[len(content) // 2] ^= 1  # of the large message
    archive.write_bytes(content)
    said = jetgate("verify", archive)
    assert said.returncode == 1
    assert "differs  LARGE: " in said.stdout

    text = refused("restore", archive, "--dsn", dsn)

    assert f"differs  {archive} is not as it was written\n" in text
    assert f"{archive} is damaged; nothing was restored\n" in text
    assert on(admin, "select count(*) from jetgate.streams") == [(0,)]


def test_differences_in_a_database_are_named(saved: Saved, tmp_path: Path) -> None:
    """A message changed, two lost, a consumer behind the end whose state cannot be read."""
    archive = tmp_path / "backup"
    archive.write_bytes(saved.pressed)
    done("verify", "--against", archive, "--dsn", saved.dsn)
    on(
        saved.admin,
        "update jetgate_store.message set data = 'other' where stream = 1 and seq = 5",
        "delete from jetgate_store.message where stream = 1 and seq in (7, 9)",
        "insert into jetgate_store.consumer (stream, consumer, name, created, epoch, config, state,"
        " delivered_stream_seq) values (1, 9, 'C', 0, 0, '{}', '\\x07', 31)",
    )
    found = jetgate("verify", "--json", "--dsn", saved.dsn)
    assert found.returncode == 1
    assert json.loads(found.stdout)["differences"] == [
        {"stream": "S", "seq": 5, "text": "message 5 does not match its checksum"},
        {"stream": "S", "seq": 7, "text": "2 of 30 messages are missing: 7, 9"},
        {"stream": "S", "seq": 31, "text": "consumer C stands at 31, and the stream ends at 30"},
        {"stream": "S", "seq": 0, "text": "consumer C: consumer state has version 7"},
    ]
    said = jetgate("verify", "--against", archive, "--dsn", saved.dsn)
    assert "differs  S: 2 of the messages 1 to 30 are missing: 7, 9\n" in said.stdout


def test_impossible_requests_are_refused_by_name(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    dsn, admin = new_database(operator)
    other, other_admin = new_database(operator)
    empty, _ = new_database(operator)
    archive = tmp_path / "backup"
    text = refused("backup", archive, "--dsn", empty)
    assert f"has no schema, and this release backs up {migrations.HEAD}: jetgate migrate" in text
    with serving(dsn, tmp_path / "one") as (process, web):
        create(web, "S", subjects=["s.>"])
        publish(web, "s.1", "hello")
        done("backup", archive, "--dsn", dsn)
        assert f"{archive} is there already" in refused("backup", archive, "--dsn", dsn)
        node = f" at {process.ports['nats']} leads in "
        for command in ([archive], ["--adopt"]):
            assert node in refused("restore", *command, "--dsn", dsn)
    text = refused("restore", archive, "--dsn", dsn)
    assert "has 1 streams (S): restore into a database that has none" in text
    text = refused("restore", archive, "--rename", "T=U", "--dsn", other)
    assert "--rename T: the backup has no stream T" in text
    (tmp_path / "text").write_text("no backup")
    assert "or not a backup of jetgate" in refused("verify", tmp_path / "text")
    both = jetgate("verify", archive, "--dsn", dsn)
    assert (both.returncode, both.stdout) == (2, "")
    assert list(tmp_path.glob("*.partial")) == []
    with pytest.raises(OperatorError, match="install postgresql-client-99"):
        asyncio.run(find_dump(99))

    done("restore", archive, "--rename", "S=MONDAY", "--dsn", other)

    streams = on(
        other_admin,
        "select name, config ->> 'name', config #>> '{subjects,0}' from jetgate.streams",
    )
    assert streams == [("MONDAY", "MONDAY", "s.>")]
    with serving(other, tmp_path / "two") as (_, web):
        assert web.send("GET", "/v1/streams/MONDAY").json()["config"]["name"] == "MONDAY"
        assert publish(web, "s.1", "more") == (2, False)
    assert on(admin, "select count(*) from jetgate.log") == [(1,)]


def test_a_database_that_postgresql_restored_itself_is_adopted(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    """pg_restore reads the archive as it is; what it leaves out is added."""
    dsn, admin = new_database(operator)
    other, other_admin = new_database(operator)
    archive = tmp_path / "backup"
    with serving(dsn, tmp_path / "one") as (_, web):
        create(web, "S", subjects=["s.>"])
        publish(web, "s.1", "hello")
        done("backup", archive, "--dsn", dsn)
    [(created, epoch)] = on(admin, INCARNATION)
    program = operator.installation.binary("pg_restore")
    command = [str(program), "--no-owner", f"--dbname={other}", str(archive)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert on(other_admin, INCARNATION)[0][0] == created

    assert "1 streams of " in done("restore", "--adopt", "--dsn", other)

    [(created_now, epoch_now)] = on(other_admin, INCARNATION)
    assert created_now > created
    assert epoch_now > epoch
    with serving(other, tmp_path / "two") as (_, web):
        assert publish(web, "s.1", "more") == (2, False)


@pytest.mark.thorough
def test_a_dev_server_is_backed_up_and_moves(operator: OperatorPostgres, tmp_path: Path) -> None:
    """From the embedded PostgreSQL 18 to an older one, and to the directory of another server."""
    other, other_admin = new_database(operator)
    place, archive = tmp_path / "dev", tmp_path / "backup"
    with developing(place) as web:
        create(web, "S", subjects=["s.>"], max_msgs_per_subject=1)
        for subject in ("s.1", "s.2", "s.1"):
            publish(web, subject, "hello")
        done("backup", archive, "--data", place)
        assert re.match(r"ok       S: \d messages, 1 to 3\n", done("verify", "--data", place))
        assert "is in use by another jetgate" in refused("restore", archive, "--data", place)
    done("restore", archive, "--dsn", other)
    assert on(other_admin, "select seq from jetgate.log") == [(2,), (3,)]
    done("verify", "--dsn", other)
    done("restore", archive, "--data", tmp_path / "again")
    with developing(tmp_path / "again") as web:
        assert messages(web, "S") == 2
        assert publish(web, "s.1", "more") == (4, False)


@contextmanager
def developing(place: Path) -> Iterator[Web]:
    with Process("dev", *ANY, data=place) as process:
        host, _, port = process.ports["http"].removeprefix("http://").partition(":")
        yield Web((host, int(port)))
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0
