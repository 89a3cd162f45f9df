"""Staging of rows for a transaction: tasks publish blocks of rows to jetgate's staging stream."""

import json
import secrets
from collections.abc import Callable, Iterator

import pyarrow as pa

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.publishing import Messages, NotStored, Publisher
from pyspark_jetstream.sink.at_least_once import check_sizes, pieces
from pyspark_jetstream.sink.ledger import Attempt, Grant, TransactionError
from pyspark_jetstream.sink.options import SinkOptions
from pyspark_jetstream.sink.rows import RowEncoder, blocks
from pyspark_jetstream.transport.errors import NotReachable

_BLOCK = 256 << 10
"""Largest size of a block in bytes; a single larger row is a block of its own."""
_BLOCKS_IN_FLIGHT = 8
_OVERHEAD = 256
"""Bytes reserved in a block for its header block and the protocol line of a row."""
_PIECE = 1024


class Staging:
    """Stages the rows of one attempt of a Spark task for a transaction.

    Life cycle: `stage`, `attempt`, `close`.

    Args:
        options: Options of the writer.
        grant: The server's permission, with the staging subject.
    """

    def __init__(self, options: SinkOptions, grant: Grant) -> None:
        self._crc32c = _crc32c()
        self._id = secrets.token_hex(11)
        self._subject = f"{grant.subject}.{self._id}".encode()
        self._publisher = Publisher(
            options.settings, _BLOCKS_IN_FLIGHT, _BLOCKS_IN_FLIGHT * _BLOCK, self._stored
        )
        self._most = min(grant.max_payload, self._publisher.max_payload) - _OVERHEAD
        self._lines: list[bytes] = []
        self._size = 0
        self._blocks = 0
        self._seqs: list[tuple[int, int]] = []
        self._rows = 0
        self._crc = 0

    def stage(self, encoder: RowEncoder, partition: int, batches: Iterator[pa.RecordBatch]) -> None:
        """Stage the rows of a partition in order; return when the server has stored all blocks."""
        for batch in batches:
            for piece in pieces(batch, _PIECE):
                subjects, lines, payloads = encoder.encode(piece)
                chunk = Messages(subjects, blocks(lines), payloads)
                check_sizes(chunk, self._most, self._rows, partition)
                self._add(chunk)
        self._send()
        self._publisher.finish()

    def attempt(self) -> Attempt:
        """Return id, sequences, row count and checksum of the staged rows, for the commit."""
        return Attempt(self._id, tuple(self._seqs), self._rows, self._crc)

    def close(self) -> None:
        """Close the connection to the server."""
        self._publisher.close()

    def _add(self, chunk: Messages) -> None:
        most = min(_BLOCK, self._most)
        for line in map(operation, chunk.subjects, chunk.blocks, chunk.payloads):
            if self._lines and self._size + len(line) > most:
                self._send()
            self._lines.append(line)
            self._size += len(line)
        self._rows += len(chunk)

    def _send(self) -> None:
        if not self._lines:
            return
        block = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        self._crc = self._crc32c(block, self._crc)
        # The id deduplicates a block that is sent again after a lost acknowledgement.
        header = b"NATS/1.0\r\nNats-Msg-Id: %b/%d\r\n\r\n" % (self._id.encode(), self._blocks)
        self._blocks += 1
        self._publisher.send(Messages([self._subject], [header], [block]))

    def _stored(self, acks: list[bytes]) -> None:
        for ack in acks:
            seq = int(json.loads(ack)["seq"])
            if self._seqs and self._seqs[-1][1] == seq - 1:
                self._seqs[-1] = (self._seqs[-1][0], seq)
            else:
                self._seqs.append((seq, seq))


def stage(
    options: SinkOptions, grant: Grant, partition: int, batches: Iterator[pa.RecordBatch]
) -> Attempt:
    """Stage the rows of a partition under a new attempt id; return the attempt for the commit.

    Raises:
        RowError: A row is not a valid message.
        TransactionError: The server refused a block.
        NotReachable: The server was unavailable for longer than the option `timeout`.
    """
    staging = None
    try:
        staging = Staging(options, grant)
        staging.stage(RowEncoder(options.shape, partition), partition, batches)
        return staging.attempt()
    except NotStored as error:
        raise TransactionError(f"partition {partition} cannot be staged: {error}") from error
    except NatsError as error:
        raise NotReachable(f"staging partition {partition}: {error}") from error
    finally:
        if staging is not None:
            staging.close()


def operation(subject: bytes, headers: bytes, payload: bytes) -> bytes:
    """Encode a row as PUB, or HPUB if it has headers, without reply subject.

    A staged block is a sequence of these.
    """
    if headers:
        sizes = len(headers), len(headers) + len(payload)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, *sizes, headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def _crc32c() -> Callable[[bytes, int], int]:
    """Return the function that continues a CRC-32C. Raises TransactionError without the package."""
    try:
        from crc32c import crc32c
    except ImportError:
        raise TransactionError(
            "delivery=transactional needs the package crc32c in the Python of the executors: "
            "pip install 'pyspark-jetstream[transactions]'"
        ) from None
    found: Callable[[bytes, int], int] = crc32c
    return found
