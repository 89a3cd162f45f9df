"""Generates the table of tests by subject in `tests/README.md` from declarations in test files.

A test file declares its subjects in a line below its docstring, `# Subject: key-value, expiry`; a
script of `clients/javascript/node` has `// Subject: ...`. The transcripts of NATS connections below
`wire` have the subjects of their folder in `wire/subjects.toml`, plus those in a line of their own.

`python -m tests.tools.subjects` prints the table; `--write` writes it into `tests/README.md`. With
names of subjects it prints their files: `pytest $(python -m tests.tools.subjects key-value)`.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS / "README.md"
SUBJECTS: dict[str, str] = {
    "protocol": "protocol: CONNECT, PUB, SUB, headers",
    "routing": "routing: subjects, queue groups, mappings",
    "routes": "clusters: routes to other servers",
    "cluster members": "members of a cluster: reports, step-down, replicas, system account",
    "slow consumers": "slow consumers, back-pressure, liveness",
    "permissions": "users, permissions",
    "HTTP sign-in": "signing in over HTTP: tickets, sessions, origins, proxies, TLS, rates",
    "WebSocket": "WebSocket",
    "publish": "publish: acknowledgements, expected-* headers",
    "deduplication": "deduplication",
    "streams": "streams: creating, updating, listing",
    "limits": "limits, roll-ups, discard policy",
    "retention": "interest and work-queue retention",
    "purge": "purge, deleting messages",
    "expiry": "max_age, TTL, markers",
    "schedules": "schedules",
    "counters": "counters",
    "batches": "atomic and fast-ingest batches",
    "transactions": "transactions",
    "transforms": "subject transforms, republishing",
    "message get": "message get, Direct Get",
    "consumers": "consumers: creating, starting, filters",
    "pull consumers": "pull consumers, priority groups",
    "push consumers": "push and ordered consumers, flow control, pace",
    "acks": "acks, redelivery, consumer states",
    "dead letters": "dead letters",
    "pausing": "pausing, resetting",
    "mirrors and sources": "mirrors, sources",
    "remotes": "remotes",
    "key-value": "key-value",
    "object store": "object store",
    "services": "services",
    "message tracing": "message tracing",
    "advisories": "advisories, account information",
    "API": "the API's dispatcher, errors, JSON",
    "console": "the console",
    "HTTP": "HTTP",
    "HTTP framing": "framing of HTTP: where a request ends, bytes held of a peer",
    "HTTP contract": "the contract of HTTP: OpenAPI, AsyncAPI, kinds of problems",
    "feeds": "feeds over WebSocket and server-sent events",
    "SDKs": "SDKs",
    "gateway client": "the client of the gateway: links, subscriptions (ADR-15)",
    "storage": "storage: commits, reads, the memory tail",
    "storage faults": "storage faults, outages, failover, data that PostgreSQL lost",
    "SQL": "SQL: views, roles, plans",
    "database connections": "connection strings, roles, grants, `jetgate doctor`, `jetgate status`",
    "deployment": "deployment: systemd, images, Kubernetes; a day of an operator",
    "backup": "backup, restore, `jetgate verify`",
    "schema": "schema, upgrades, embedded PostgreSQL",
    "several nodes": "several nodes over one database",
    "leadership": "the life of a process, leadership, publish gates, clocks",
    "placement": "placement by tags",
    "lease groups": "the ownership of lease groups",
    "crashes": "restarts, `kill -9`, at every await of an operation",
    "protocol traces": "protocol traces",
    "configuration": "configuration, command lines, signals",
    "monitoring": "monitoring",
    "operations": "operations: probes, metrics, the log, outages, descriptors, alerts",
    "Spark rows": "Spark: positions, loss, buckets, partitions, options, rows, JSON",
    "Spark over NATS": "Spark: NATS, its client and transport",
    "Spark work queues": "Spark: work queues",
    "Spark sink": "Spark: writing, transactions",
    "Spark over SQL": "Spark: over SQL, a standby",
    "Spark pipelines": "Spark: pipelines, archives, replays, the doctor",
    "Spark faults": "Spark: `kill -9` of servers, drivers, executors",
    "Spark cluster": "Spark: queries, executors, secrets",
    "costs": "costs, speed, memory",
    "random histories": "everything at once, by chance",
    "documents": "documents, examples",
    "tests": "the tests themselves",
}
"""Title of the table row of each subject, in the order of the table."""

WITHOUT = (
    "wire/test_transcripts.py",
    "wire/test_configured.py",
    "clients/javascript/test_node.py",
    "clients/javascript/test_node_servers.py",
    "clients/javascript/node/packages.mjs",
    "clients/javascript/node/transcript.mjs",
)
"""Files without a subject, because they run transcripts or scripts that have subjects."""

_LINE = re.compile(r"^(?:#|//) Subject: (.+)$", re.MULTILINE)
_HEAD = "| subject | transcripts | other places |\n|---|---|---|\n"


def declared(path: Path) -> list[str]:
    """Return the subjects in the `Subject:` lines of a file."""
    text = path.read_text(errors="replace")
    return [name.strip() for line in _LINE.findall(text) for name in line.split(",")]


def subjects() -> dict[str, list[str]]:
    """Return the subjects of each test file, script and transcript, by path below `tests/`."""
    folders: dict[str, list[str]] = tomllib.loads((TESTS / "wire/subjects.toml").read_text())
    found = {}
    for pattern in ("**/test_*.py", "clients/javascript/node/*.mjs", "wire/*/*/*.txt"):
        for path in TESTS.glob(pattern):
            name = path.relative_to(TESTS).as_posix()
            folder = path.parent.relative_to(TESTS).as_posix().removeprefix("wire/")
            if name not in WITHOUT:
                found[name] = [*folders.get(folder, ()), *declared(path)]
    return dict(sorted(found.items()))


def table() -> str:
    """Return the table as Markdown.

    A row names a folder in place of its files if all of them have the subject.
    """
    everything = subjects()
    rows = []
    for name, title in SUBJECTS.items():
        places = _places("", [at for at, names in everything.items() if name in names], everything)
        transcripts = [at for at in places if at.startswith(("wire/data", "wire/configured"))]
        others = [at for at in places if at not in transcripts]
        rows.append(f"| {title} | {_cell(transcripts)} | {_cell(others)} |\n")
    return _HEAD + "".join(rows)


def _places(folder: str, files: list[str], everything: Iterable[str]) -> list[str]:
    """Return `files`, which are below `folder`, with a folder in place of all its files.

    `everything` contains all files that have subjects.
    """
    here = [path for path in everything if path.startswith(folder)]
    if len(here) == len(files) > 1:
        return [folder]
    found: list[str] = []
    below: dict[str, list[str]] = {}
    for path in files:
        first, slash, _ = path.removeprefix(folder).partition("/")
        if slash:
            below.setdefault(f"{folder}{first}/", []).append(path)
        else:
            found.append(path)
    for name, inside in below.items():
        found += _places(name, inside, here)
    return found


def _cell(places: list[str]) -> str:
    return ", ".join(f"`{at}`" for at in places) or "–"


def main(arguments: list[str]) -> int:
    """Run the command with these arguments; return its exit code, 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.subjects", description=__doc__)
    parser.add_argument("subject", nargs="*", help="print the test files of these")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args(arguments)
    if unknown := set(options.subject) - SUBJECTS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(SUBJECTS)}")
    if options.subject:
        for path, names in subjects().items():
            if path.endswith(".py") and not set(names).isdisjoint(options.subject):
                print(f"tests/{path}")
    elif options.write:
        before = PAGE.read_text().partition(_HEAD)[0]
        PAGE.write_text(before + table())
    else:
        print(table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
