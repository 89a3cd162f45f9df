"""A client of the transactions API, which stages rows and commits them.

A transaction of an app is a batch with a number. Attempts stage rows for it, in blocks of PUB and
HPUB operations; a commit names the attempts whose rows are stored, with a manifest of each.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c
from nats.aio.client import Client

Row = tuple[str, bytes] | tuple[str, bytes, dict[str, str]]
"""A message to stage: subject, payload and, optionally, headers."""


def encoded(row: Row) -> bytes:
    """Return a row as a PUB operation, or as HPUB if it has headers."""
    subject, payload = row[:2]
    if len(row) == 2:
        return b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    lines = "".join(f"{name}: {value}\r\n" for name, value in row[2].items())
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = len(block), len(block) + len(payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject.encode(), *sizes, block, payload)


@dataclass(slots=True)
class Attempt:
    """An attempt that stages rows, with the content of its manifest.

    Attributes:
        id: Id of the attempt.
        seqs: Ranges (first, last) of the sequences of its acknowledged blocks.
        rows: Number of rows in these blocks.
        crc: CRC-32C of the concatenated blocks.
    """

    id: str
    seqs: list[list[int]] = field(default_factory=list)
    rows: int = 0
    crc: int = 0

    def took(self, seq: int, block: bytes, rows: int) -> None:
        """Record a block of `rows` rows that the server acknowledged with sequence `seq`."""
        if self.seqs and self.seqs[-1][1] == seq - 1:
            self.seqs[-1][1] = seq
        else:
            self.seqs.append([seq, seq])
        self.rows += rows
        self.crc = crc32c(block, self.crc)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of this attempt, for a commit request."""
        return {"id": self.id, "seqs": self.seqs, "rows": self.rows, "crc": self.crc}


class App:
    """An app that writes to a stream in transactions, over a nats-py client.

    Attributes:
        token: The fencing token from `open`; 0 before it.
    """

    def __init__(self, client: Client, stream: str, app: str = "app", run: str = "run") -> None:
        self.client = client
        self.stream = stream
        self.app = app
        self.run = run
        self.token = 0

    async def ask(self, verb: str, body: object) -> dict[str, Any]:
        """Send a request to `$JG.API.TXN.<verb>.<stream>`; return its answer, maybe an error."""
        subject = f"$JG.API.TXN.{verb}.{self.stream}"
        answer = await self.client.request(subject, json.dumps(body).encode(), timeout=30)
        return dict(json.loads(answer.data))

    async def open(self, **more: object) -> dict[str, Any]:
        """Acquire a fencing token (OPEN) and keep it in `token`; return the answer."""
        found = await self.ask("OPEN", {"app": self.app, "run": self.run, **more})
        self.token = found.get("token", self.token)
        return found

    async def stage(self, attempt: str, *blocks: Sequence[Row]) -> Attempt:
        """Stage rows in the attempt with this id, block after block; return the attempt."""
        staged = Attempt(attempt)
        for rows in blocks:
            await self.stage_block(staged, b"".join(map(encoded, rows)), len(rows))
        return staged

    async def stage_block(self, attempt: Attempt, block: bytes, rows: int) -> None:
        """Stage one encoded block of `rows` rows, which may be invalid.

        Raises nats-py's APIError if the server refuses it.
        """
        js = self.client.jetstream(timeout=30)
        ack = await js.publish(f"$JG.STAGE.{self.stream}.{attempt.id}", block, timeout=30)
        attempt.took(ack.seq, block, rows)

    async def commit(
        self, batch: int, *attempts: Attempt, token: int | None = None, expires: float = 5
    ) -> dict[str, Any]:
        """Commit the batch with this number; return the answer, which has the state of the batch.

        The server answers after `expires` seconds at the latest. `token` replaces the own token.
        """
        body = {
            "app": self.app,
            "token": self.token if token is None else token,
            "batch": batch,
            "attempts": [attempt.manifest() for attempt in attempts],
            "expires": int(expires * 1e9),
        }
        return await self.ask("COMMIT", body)
