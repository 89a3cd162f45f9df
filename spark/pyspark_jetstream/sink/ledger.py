"""Client of jetgate's transactions, `$JG.API.TXN.>`; other JetStream servers have no such API.

For each stream and application (`txnAppId`), the server records the last committed batch, its
progress, and the run that wrote it: the ledger. Tasks stage rows as blocks in a staging stream; a
COMMIT names the blocks of a batch, and the server stores their rows in the target stream.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.nats.errors import (
    Away,
    Disconnected,
    NatsError,
    NoResponders,
    Refused,
    Timeout,
    refused,
)
from pyspark_jetstream.nats.requests import Requests, encoded
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.transport.errors import JetStreamError, NotReachable
from pyspark_jetstream.units import NANOS_PER_SECOND

PREFIX = "$JG.API.TXN"
_EXPIRES = 5
"""Seconds after which the server answers a COMMIT request with the progress so far."""
_NO_LEDGER = 20001
_SUPERSEDED = (20002, 20003)
_OLD = 20005
_BACKOFF = 0.2
_WATCHED = 3.0
"""Seconds for which an outdated run observes whether another run makes progress."""
_BATCH_WRITE = "batch:"
"""Prefix of the run identities of batch writes."""
_T = TypeVar("_T")


class TransactionError(JetStreamError):
    """The server refused a transaction, or has no transactions; the message names a remedy."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The server's permission for one run of a query to write transactions to a stream.

    Attributes:
        token: Fencing token, higher than that of every earlier run.
        batch: Number of the last batch that the server has recorded; None if there is none.
        subject: Prefix of the subjects for staged blocks of rows. Each attempt of a Spark task
            publishes to `<subject>.<id of the attempt>`.
        max_payload: Largest size of a block with its headers, in bytes.
    """

    token: int
    batch: int | None
    subject: str
    max_payload: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The rows that one attempt of a Spark task has staged for a transaction.

    The driver receives it pickled, so it is small.

    Attributes:
        id: Id of the attempt.
        seqs: Ranges of sequences of its blocks in the staging stream, inclusive.
        rows: Number of rows.
        crc: CRC-32C of all blocks.
    """

    id: str
    seqs: tuple[tuple[int, int], ...]
    rows: int
    crc: int

    def manifest(self) -> dict[str, Any]:
        """Return the staged blocks of this attempt as the entry of a COMMIT request."""
        return {"id": self.id, "seqs": self.seqs, "rows": self.rows, "crc": self.crc}


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch whose rows the target stream has stored.

    Attributes:
        batch: Number of the batch.
        rows: Number of rows.
        duplicates: Number of rows that the stream already had, by message id.
        first_seq, last_seq: Sequences of its first and last message in the stream.
    """

    batch: int
    rows: int
    duplicates: int
    first_seq: int
    last_seq: int


class Ledger:
    """Client of jetgate's transactions (`$JG.API.TXN.>`), for one application at one stream.

    A task calls `open_for` and stages rows; the driver calls `open_for` and `commit`.

    Args:
        settings: NATS servers and credentials.
        stream: Name of the target stream.
        app: Name of the application (`txnAppId`).
        stall_timeout: Limit in seconds without an answer or without progress.
    """

    def __init__(self, settings: Settings, stream: str, app: str, stall_timeout: float) -> None:
        self._settings = settings
        self._stream = stream
        self._app = app
        self._stall_s = stall_timeout
        self._requests: Requests | None = None

    def open(self, run: str) -> Grant:
        """Acquire the fencing token of a run; the same run gets the same token again.

        Args:
            run: `<query>:<run>`; another query cannot continue the batches of an application.

        Raises:
            TransactionError: A later run has the token, the application belongs to another query,
                or the server has no transactions.
            NotReachable: The server did not answer within `stall_timeout`.
        """
        self._check_owner(run, self._entry())
        return self._grant(run)

    def open_for(self, run: str, batch: int) -> Grant | None:
        """Acquire the fencing token of a run for a batch.

        Two runs of a query may work on the same checkpoint; the newer token makes the older one
        invalid. So a run does not acquire a token if another run has already committed this batch
        (returns None) or written a later one (raises TransactionError).

        Args:
            run: `<query>:<run>`, as for `open`.
            batch: Number of the batch.

        Raises:
            TransactionError: As for `open`, or another run has written later batches.
            NotReachable: The server did not answer within `stall_timeout`.
        """
        entry = self._entry()
        self._check_owner(run, entry)
        last = entry.get("batch")
        if last is not None and entry["run"] != run:
            if batch == last and entry.get("state") == "done":
                return None
            if batch < last:
                raise TransactionError(self._behind(run, batch, entry))
        return self._grant(run)

    def _grant(self, run: str) -> Grant:
        answer = self._ask("OPEN", {"app": self._app, "run": run})
        if "token" not in answer:
            raise TransactionError(self._unserved())
        return Grant(
            token=int(answer["token"]),
            batch=answer.get("batch"),
            subject=str(answer["stage"]["subject"]),
            max_payload=int(answer["max_payload"]),
        )

    def _entry(self) -> dict[str, Any]:
        """Return the server's record of the application's last batch and its run; {} if none."""
        found = (one for one in self._ask("INFO", {}).get("apps", ()) if one["app"] == self._app)
        return next(found, {})

    def _check_owner(self, run: str, entry: dict[str, Any]) -> None:
        """Check that the application belongs to this query. Raises TransactionError if it does not.

        Batch numbers alone would not detect a deleted checkpoint if the last batch of the old query
        and the first batch of the new one have the same number.
        """
        if not entry.get("state"):
            return
        known, query = (text.partition(":")[0] for text in (str(entry["run"]), run))
        if known != query:
            raise TransactionError(
                f"stream {self._stream!r}: app {self._app!r} is that of query {known!r}, whose "
                f"last batch is {entry['batch']}; this is query {query!r}. "
                "The checkpoint was deleted, or two queries have one txnAppId: restore it, or "
                f"write as another app, or forget it with {PREFIX}.DELETE.{self._stream}"
            )

    def _behind(self, run: str, batch: int, entry: dict[str, Any]) -> str:
        """Return the error text for a batch that is older than the last one of another run."""
        last, other = int(entry["batch"]), str(entry["run"])
        where = f"stream {self._stream!r}: batch {batch} of app {self._app!r}"
        if run.startswith(_BATCH_WRITE):
            return (
                f"{where} is older than its last one, {last}: each txnVersion has to be higher "
                "than the one before. Rows are never skipped silently"
            )
        deadline = Deadline(_WATCHED)
        while not deadline.passed():
            pause(_BACKOFF)
            now = self._entry()
            if now.get("run") == other and int(now.get("batch") or 0) > last:
                return (
                    f"{where} was done by another run of this query, {other!r}, which is at work: "
                    f"it has just written batch {now['batch']}. Two drivers have one checkpoint; "
                    f"this one, {run!r}, has written nothing and ends"
                )
        return (
            f"{where} is older than batch {last}, which another run of this query, {other!r}, has "
            "written: that run is at work on the same checkpoint and has nothing to do, or this "
            "checkpoint is an older copy. Stop one of both, or write as another txnAppId. Rows are "
            "never skipped silently"
        )

    def commit(self, grant: Grant, batch: int, attempts: list[Attempt]) -> Committed:
        """Commit a batch, and wait until the stream has stored all its rows.

        If a batch is committed again, the attempts of its first COMMIT remain valid.

        Args:
            grant: The permission of the run.
            batch: Number of the batch.
            attempts: Staged rows of each task.

        Raises:
            TransactionError: The batch is older than the last one, another run has taken over, or a
                row was refused.
            NotReachable: There was no progress for `stall_timeout`; a repeated commit continues.
        """
        body = {
            "app": self._app,
            "token": grant.token,
            "batch": batch,
            "attempts": [attempt.manifest() for attempt in attempts],
            "expires": _EXPIRES * NANOS_PER_SECOND,
        }
        deadline, promoted = Deadline(self._stall_s), -1
        while True:
            answer = self._ask("COMMIT", body)
            if answer["state"] == "done":
                return Committed(
                    batch=int(answer["batch"]),
                    rows=int(answer["rows"]),
                    duplicates=int(answer["duplicates"]),
                    first_seq=int(answer["first_seq"]),
                    last_seq=int(answer["last_seq"]),
                )
            if answer["state"] == "stopped":
                raise TransactionError(self._stopped(batch, answer))
            if answer["promoted"] > promoted:
                deadline, promoted = Deadline(self._stall_s), answer["promoted"]
            elif deadline.passed():
                raise NotReachable(
                    f"stream {self._stream!r}: batch {batch} of app {self._app!r} is at row "
                    f"{promoted} of {answer['rows']} for {self._stall_s:g} s (option 'timeout')"
                )

    def close(self) -> None:
        """Close the connection, if it is open."""
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.connection.close()

    def _ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer; repeat the request after a broken connection."""
        return self._persistently(lambda requests: self._answer(requests, verb, body))

    def _answer(self, requests: Requests, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        subject = f"{PREFIX}.{verb}.{self._stream}"
        token = requests.send(subject, encoded(body))
        timeout = max(self._settings.timeout, 2.0 * _EXPIRES)
        _, payload = requests.first(token, subject, timeout)
        found = _parsed(payload)
        error = found.get("error")
        if error and "state" not in found:
            raise refused(error)
        return found

    def _persistently(self, ask: Callable[[Requests], _T]) -> _T:
        deadline, was_serving = Deadline(self._stall_s), False
        while True:
            try:
                if self._requests is None:
                    self._requests = Requests(Connection(self._settings, max(deadline.left(), 1.0)))
                return ask(self._requests)
            except NoResponders as error:
                # During a failover, the API may become available between two requests.
                self.close()
                if deadline.passed() or was_serving:
                    raise TransactionError(self._unserved()) from error
                was_serving = not self._is_starting()
            except (Disconnected, Timeout, Away) as error:
                self.close()
                if deadline.passed():
                    raise NotReachable(f"stream {self._stream!r}: {error}") from error
            except Refused as error:
                self.close()
                raise TransactionError(self._refused(error)) from error
            except NatsError as error:
                self.close()
                raise TransactionError(f"stream {self._stream!r}: {error}") from error
            pause(_BACKOFF)

    def _is_starting(self) -> bool:
        """Return True if JetStream's API does not answer now.

        The API of transactions may then become available later, together with it.
        """
        try:
            with Connection(self._settings) as connection:
                Requests(connection).api(f"{self._settings.api_prefix}.INFO")
        except NatsError:
            return True
        return False

    def _unserved(self) -> str:
        return (
            f"stream {self._stream!r}: nobody answers {PREFIX}.OPEN.{self._stream} at "
            f"{', '.join(self._settings.servers)}. delivery=transactional needs a jetgate server, "
            "and the permission to publish there; other JetStream servers take "
            "delivery=at-least-once"
        )

    def _refused(self, error: Refused) -> str:
        hint = ""
        if error.err_code in _SUPERSEDED:
            hint = ". Another driver writes as this app; stop one of them, or give it another name"
        elif error.err_code == _OLD:
            hint = (
                ". The number was given before: write as another txnAppId, or go on with a higher "
                "one. Rows are never skipped silently"
            )
        return f"stream {self._stream!r}: {error}{hint}"

    def _stopped(self, batch: int, answer: dict[str, Any]) -> str:
        where = f"stream {self._stream!r}: batch {batch} of app {self._app!r} has stopped behind "
        where += f"{answer['promoted']} of {answer['rows']} rows"
        refused = answer.get("refused")
        error = (refused or {}).get("error") or answer.get("error") or {}
        if refused:
            where += (
                f", at row {refused['row']} of block {refused['seq']} of attempt "
                f"{refused['attempt']!r}, subject {refused['subject']!r}"
            )
        words = f"{error.get('description', '')} (err_code {error.get('err_code', 0)})"
        return f"{where}: {words}. A repeated commit continues there"


def _parsed(payload: bytes) -> dict[str, Any]:
    """Parse a JSON object; return {} for any other payload."""
    try:
        found = json.loads(payload)
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}
