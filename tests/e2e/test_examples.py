"""The examples, run as the documents show them; their messages read by consumer, HTTP and SQL."""

# Subject: documents

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import nats
import pytest

from tests.gateway.web import Web
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer

RECORDED = Path(__file__).with_name("data") / "dumpavail.txt"


@pytest.fixture(scope="module")
def jetgate() -> Iterator[JetgateServer]:
    with JetgateServer() as server:
        yield server


def run(name: str, server: JetgateServer, *options: str) -> str:
    """What an example prints."""
    url = "nats://{}:{}".format(*server.address)
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py", "--server", url, *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


Message = tuple[int, str, str]
"""Sequence, subject, payload."""


def by_pull_consumer(server: JetgateServer, stream: str, count: int) -> list[Message]:
    """Read everything with the official client's durable pull consumer."""

    async def read() -> list[Message]:
        client = await nats.connect("nats://{}:{}".format(*server.address))
        js = client.jetstream(timeout=30)
        pull = await js.pull_subscribe(">", durable="reader", stream=stream)
        found: list[Message] = []
        while len(found) < count:
            for msg in await pull.fetch(500, timeout=30):
                found.append((msg.metadata.sequence.stream, msg.subject, msg.data.decode()))
                await msg.ack()
        await client.close()
        return found

    return asyncio.run(read())


def by_http(server: JetgateServer, stream: str) -> list[Message]:
    """Read everything with a consumer over HTTP, a page at a time."""
    web = Web(server.http)
    consumer = f"/v1/streams/{stream}/consumers/http"
    web.json("PUT", consumer, {"ack_policy": "none"})
    found: list[Message] = []
    while True:
        answer = web.json("POST", f"{consumer}:fetch", {"batch": 1000, "no_wait": True})
        if answer.status == 204:
            return found
        for msg in answer.json()["messages"]:
            found.append((msg["seq"], msg["subject"], json.dumps(msg["data"])))


def dsn_of(server: JetgateServer) -> str:
    """The address of the database, out of the line that the server prints to copy."""
    found = re.search(r"'(postgresql://[^']+)'", server.log(100_000))
    assert found is not None
    return found[1]


def by_sql(server: JetgateServer, statement: str, *arguments: object) -> list[Any]:
    async def read() -> list[Any]:
        connection = await asyncpg.connect(dsn_of(server))
        try:
            return [tuple(row) for row in await connection.fetch(statement, *arguments)]
        finally:
            await connection.close()

    return asyncio.run(read())


def all_the_same(server: JetgateServer, stream: str, count: int) -> list[Message]:
    """Read a stream in every way; they must agree on every message."""
    pulled = by_pull_consumer(server, stream, count)
    selected = by_sql(
        server, "select seq, subject, text from jetgate.messages where stream = $1 order by seq",
        stream,
    )  # fmt: skip
    fetched = by_http(server, stream)

    assert len(pulled) == count
    assert selected == pulled
    assert [(seq, subject) for seq, subject, _ in fetched] == [(s, n) for s, n, _ in pulled]
    for (_, _, one), (_, _, other) in zip(fetched, pulled, strict=True):
        assert json.loads(one) == json.loads(other)
    return pulled


def test_the_orders_of_the_readme(jetgate: JetgateServer) -> None:
    page = (ROOT / "README.md").read_text()
    shown = re.split(r"^\$ ", page.partition("```console\n")[2].partition("```")[0], flags=re.M)[1:]
    (published, stored), (got, order), (psql, *rows) = (block.splitlines() for block in shown)
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    path = re.sub(r".*:8080|'.*", "", got)
    url = "nats://{}:{}".format(*jetgate.address)

    assert published == "python examples/orders.py"
    assert run("orders", jetgate) == stored + "\n"
    assert run("orders", jetgate) == "0 orders stored, 1000 known already\n"
    assert Web(jetgate.http).get(path).body.decode() == order
    [statement] = re.findall(r'-c "(.+)"', psql)
    assert by_sql(jetgate, statement) == [
        (int(seq), subject, text)
        for seq, subject, text in (re.split(r" +\| ", row.strip()) for row in rows[2:])
    ]
    done = subprocess.run(
        [sys.executable, "-c", program.replace("nats://127.0.0.1:4222", url)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    read = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [subject.split(".")[2] for _, subject, _ in read] == ["new"] * 3
    assert [json.loads(text)["id"] for _, _, text in read] == [int(seq) for seq, _, _ in read]


def test_packages(jetgate: JetgateServer) -> None:
    printed = run("packages", jetgate, "--file", str(RECORDED))
    again = run("packages", jetgate, "--file", str(RECORDED))
    messages = all_the_same(jetgate, "DEB", 10)
    vim = [message for message in messages if message[1] == "deb.editors.vim"]
    last = Web(jetgate.http).get("/v1/streams/DEB/messages?last_by=deb.editors.vim")

    assert "10 packages stored, 0 known already" in printed
    assert "0 packages stored, 10 known already" in again
    assert {json.loads(text)["Package"] for _, _, text in messages} == {
        line.split()[1] for line in RECORDED.read_text().splitlines() if line[:9] == "Package: "
    }
    assert last.body.decode() == vim[0][2]
    assert last.headers["nats-sequence"] == str(vim[0][0])
    assert last.headers["content-type"] == "application/json"
    assert last.headers["nats-msg-id"] == f"vim={json.loads(vim[0][2])['Version']}"


def test_the_packages_of_this_machine(jetgate: JetgateServer) -> None:
    if shutil.which("apt-cache") is None:
        pytest.skip("apt-cache is not there: this machine has no index of Debian's packages")
    shown = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    known = min(shown.count(b"\nPackage: ") + shown.startswith(b"Package: "), 2000)
    if not known:
        pytest.skip("apt-cache knows no packages: apt-get update was never run here")
    Web(jetgate.http).delete("/v1/streams/DEB")

    printed = run("packages", jetgate, "--limit", str(known))

    stored = re.search(r"(\d+) packages stored, (\d+) known already", printed.rpartition("\r")[2])
    assert stored is not None, printed
    assert int(stored[1]) + int(stored[2]) == known
    messages = all_the_same(jetgate, "DEB", int(stored[1]))
    packages = {json.loads(text)["Package"].encode() for _, _, text in messages}
    assert all(b"Package: " + package + b"\n" in shown for package in packages)


def test_readings_of_this_machine(jetgate: JetgateServer) -> None:
    printed = run("host_metrics", jetgate, "--seconds", "1")

    stored = re.search(r"(\d+) readings stored in (\d+) rounds", printed)
    assert stored is not None, printed
    assert 1 <= int(stored[2]) <= 11
    messages = all_the_same(jetgate, "METRICS", int(stored[1]))
    subjects = {subject for _, subject, _ in messages}
    assert {"metrics.cpu.cpu", "metrics.memory", "metrics.process.1"} <= subjects
    assert {f"metrics.cpu.cpu{n}" for n in range(os.cpu_count() or 1)} <= subjects
    memory = [json.loads(text) for _, subject, text in messages if subject == "metrics.memory"]
    assert len(memory) == int(stored[2])
    assert {reading["MemTotal"] for reading in memory} == {
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    }
    assert [reading["time"] for reading in memory] == sorted(r["time"] for r in memory)
    latest = Web(jetgate.http).get(
        f"/v1/streams/METRICS/messages?last_by={quote('metrics.memory')}"
    )
    assert latest.json() == memory[-1]


def test_the_lines_to_copy_work(jetgate: JetgateServer) -> None:
    # The addresses are told to programs before they are told to people.
    text = eventually(lambda: jetgate.log(100_000).partition("Try it:\n")[2])
    lines = text.splitlines()[:3]
    if shutil.which("curl") is None:
        lines = lines[2:]
        Web(jetgate.http).json("PUT", "/v1/streams/ORDERS", {"subjects": ["orders.>"]})
        Web(jetgate.http).publish("orders.new", b"hello")
    answers = [
        subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
        for line in lines
    ]

    assert [answer.returncode for answer in answers] == [0] * len(lines), answers
    assert "orders.new" in answers[-1].stdout
    assert "hello" in answers[-1].stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("packages.py", "--file", "absent"), "No such file or directory: 'absent'"),
        (("packages.py", "--file", "README.md"), "no record of a package index: "),
        (("packages.py", "--server", "nats://127.0.0.1:1"), "no server answers at nats://"),
        (("orders.py", "--server", "nats://127.0.0.1:1"), "no server answers at nats://"),
        (("host_metrics.py", "--server", "nats://127.0.0.1:1"), "no server answers at nats://"),
        (("host_metrics.py", "--server", "nats://["), "invalid connect url"),
    ],
)
def test_a_failure_of_an_example_is_one_line(
    command: tuple[str, ...], words: str, jetgate: JetgateServer
) -> None:
    name, *options = command
    if "--server" not in options:
        options += ["--server", "nats://{}:{}".format(*jetgate.address)]
    done = subprocess.run(
        [sys.executable, f"examples/{name}", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
