"""A client of the transactions API: it stages rows in batches (blocks) and commits them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c
from nats.aio.client import Client

Row = tuple[str, bytes] | tuple[str, bytes, dict[str, str]]
"""Subject, payload and, optionally, headers."""


def encoded(row: Row) -> bytes:
    """Return a row as a PUB or HPUB operation."""
    subject, payload = row[:2]
    if len(row) == 2:
        return b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    lines = "".join(f"{name}: {value}\r\n" for name, value in row[2].items())
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = len(block), len(block) + len(payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject.encode(), *sizes, block, payload)


@dataclass(slots=True)
class Attempt:
    """An attempt during staging, with the contents of its manifest."""

    id: str
    seqs: list[list[int]] = field(default_factory=list)
    rows: int = 0
    crc: int = 0

    def took(self, seq: int, block: bytes, rows: int) -> None:
        """Record an acknowledged block."""
        if self.seqs and self.seqs[-1][1] == seq - 1:
            self.seqs[-1][1] = seq
        else:
            self.seqs.append([seq, seq])
        self.rows += rows
        self.crc = crc32c(block, self.crc)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of this attempt, for a COMMIT."""
        return {"id": self.id, "seqs": self.seqs, "rows": self.rows, "crc": self.crc}


class App:
    """An app that writes to a stream by transactions, over a client of nats-py."""

    def __init__(self, client: Client, stream: str, app: str = "app", run: str = "run") -> None:
        self.client = client
        self.stream = stream
        self.app = app
        self.run = run
        self.token = 0

    async def ask(self, verb: str, body: object) -> dict[str, Any]:
        """Send a request of the transactions API and return its answer."""
        subject = f"$JG.API.TXN.{verb}.{self.stream}"
        answer = await self.client.request(subject, json.dumps(body).encode(), timeout=30)
        return dict(json.loads(answer.data))

    async def open(self, **more: object) -> dict[str, Any]:
        """Acquire a token; return the answer."""
        found = await self.ask("OPEN", {"app": self.app, "run": self.run, **more})
        self.token = found.get("token", self.token)
        return found

    async def stage(self, attempt: str, *blocks: Sequence[Row]) -> Attempt:
        """Stage rows, block after block."""
        staged = Attempt(attempt)
        for rows in blocks:
            await self.stage_block(staged, b"".join(map(encoded, rows)), len(rows))
        return staged

    async def stage_block(self, attempt: Attempt, block: bytes, rows: int) -> None:
        """Stage one block, which may be invalid."""
        js = self.client.jetstream(timeout=30)
        ack = await js.publish(f"$JG.STAGE.{self.stream}.{attempt.id}", block, timeout=30)
        attempt.took(ack.seq, block, rows)

    async def commit(
        self, batch: int, *attempts: Attempt, token: int | None = None, expires: float = 5
    ) -> dict[str, Any]:
        """Commit a batch; return its state, at the latest after `expires` seconds."""
        body = {
            "app": self.app,
            "token": self.token if token is None else token,
            "batch": batch,
            "attempts": [attempt.manifest() for attempt in attempts],
            "expires": int(expires * 1e9),
        }
        return await self.ask("COMMIT", body)
