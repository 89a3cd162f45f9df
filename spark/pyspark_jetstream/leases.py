"""Access of the Spark driver to a durable consumer.

The driver pulls batches, acknowledges progress while a batch runs, and acknowledges the batch.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pyspark_jetstream.deliveries import Deliveries, runs_of
from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import PASSES, NatsError, NoResponders
from pyspark_jetstream.nats.reading import Api
from pyspark_jetstream.nats.requests import Requests
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.nats.tries import Tries
from pyspark_jetstream.nats.work_queue import WorkQueue
from pyspark_jetstream.transport.errors import JetStreamError, NotReachable
from pyspark_jetstream.transport.translate import head_of, translated
from pyspark_jetstream.units import NANOS_PER_SECOND

log = logging.getLogger(__name__)

_ACK_WAIT = 60.0
"""`ack_wait` of a consumer that the lease creates, in seconds."""
_MAX_ACK_PENDING = 200_000
_T = TypeVar("_T")


class Lease:
    """The connection of one query to its durable consumer; a missing consumer is created.

    A thread acknowledges progress of the current batch, three times within the consumer's
    `ack_wait`.

    Args:
        settings: NATS servers and credentials.
        stream, consumer: Names of the stream and the consumer.
        filters: Filter subjects of the consumer if it is created; empty for all subjects.
    """

    def __init__(
        self, settings: Settings, stream: str, consumer: str, filters: tuple[str, ...]
    ) -> None:
        self._settings = settings
        self._stream = stream
        self._consumer = consumer
        self._filters = filters
        self._api: Api | None = None
        self._queue: WorkQueue | None = None
        self._lock = threading.RLock()
        self._held: Deliveries | None = None
        self._acked: Deliveries | None = None
        self._ended = threading.Event()
        try:
            self._interval = self._ask(self._check) / 3
        except BaseException:
            self._disconnect()
            raise
        self._reporter = threading.Thread(target=self._report, daemon=True)
        self._reporter.start()

    def incarnation(self) -> int:
        """Return the creation time of the stream, in nanoseconds since the epoch."""
        return self._ask(lambda queue: head_of(self._stream, self._info()).incarnation)

    def info(self) -> dict[str, Any]:
        """Return the response to CONSUMER.INFO.

        Raises JetStreamError if the consumer does not exist.
        """
        return self._ask(self._existing)

    def waiting(self) -> int:
        """Return the number of the consumer's messages that are undelivered or unacknowledged."""
        info = self.info()
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    def pull(self, most: int, before: Deliveries) -> Deliveries | None:
        """Pull the next batch from the consumer; return None if it has no message to deliver.

        Args:
            most: Largest number of messages.
            before: The last committed batch. Redelivered messages of it are acknowledged and
                excluded from the new batch.
        """
        known = set(before.sequences())

        def ask(queue: WorkQueue) -> Deliveries | None:
            found = queue.pull(most)
            again = [delivery for delivery in found if delivery[0] in known]
            if again:
                stale = self._batch(before, queue.prefix, again)
                self._acknowledge(stale, queue)
            fresh = dict(delivery for delivery in found if delivery[0] not in known)
            return self._batch(before, queue.prefix, list(fresh.items())) if fresh else None

        batch = self._ask(ask)
        if batch is not None:
            self.hold(batch)
        return batch

    def _batch(self, before: Deliveries, prefix: str, found: list[tuple[int, int]]) -> Deliveries:
        return Deliveries(
            self._stream,
            self._consumer,
            self.incarnation(),
            before.number + 1,
            prefix,
            runs_of(found),
        )

    def hold(self, batch: Deliveries) -> None:
        """Send progress acks (+WPI) for the batch at intervals, until `done` acknowledges it."""
        with self._lock:
            self._held = batch

    def done(self, batch: Deliveries) -> None:
        """Acknowledge all messages of a batch and wait for the server's confirmation.

        A batch that belongs to an earlier stream of the same name is not acknowledged.
        """
        if not len(batch) or batch == self._acked:
            return
        if batch.incarnation == self.incarnation():
            self._ask(partial(self._acknowledge, batch))
        with self._lock:
            self._acked = batch
            if self._held == batch:
                self._held = None

    def _acknowledge(self, batch: Deliveries, queue: WorkQueue) -> None:
        try:
            queue.acknowledge(batch.ack_subjects())
        except NoResponders:
            # Raises if the consumer does not exist: no retry of the acks could succeed
            self._existing(queue)
            raise

    def close(self) -> None:
        """Stop the progress acknowledgements and close the connection."""
        self._ended.set()
        self._reporter.join()
        with self._lock:
            self._disconnect()

    def _report(self) -> None:
        """Acknowledge progress of the current batch at each interval until the lease is closed."""
        while not self._ended.wait(self._interval):
            with self._lock:
                batch = self._held
                if batch is None:
                    continue
                try:
                    self._ask(partial(_progress, batch))
                except JetStreamError as error:
                    log.warning("progress of a batch could not be reported: %s", error)

    def _check(self, queue: WorkQueue) -> float:
        """Create the consumer if it is missing; return its `ack_wait` in seconds.

        Raises JetStreamError for a push consumer or an `ack_policy` other than explicit.
        """
        info = queue.info()
        if info is None:
            queue.create(self._filters, _ACK_WAIT, _MAX_ACK_PENDING)
            info = self._existing(queue)
        config = info["config"]
        if config.get("deliver_subject"):
            raise JetStreamError(self._unfit("is a push consumer"))
        if config.get("ack_policy") != "explicit":
            raise JetStreamError(self._unfit(f"has ack_policy {config.get('ack_policy')}"))
        return int(config["ack_wait"]) / NANOS_PER_SECOND

    def _unfit(self, reason: str) -> str:
        return (
            f"stream {self._stream!r}: consumer {self._consumer!r} {reason}; mode=consumer takes a "
            "pull consumer with explicit acknowledgements"
        )

    def _existing(self, queue: WorkQueue) -> dict[str, Any]:
        info = queue.info()
        if info is None:
            raise JetStreamError(f"stream {self._stream!r}: consumer {self._consumer!r} is gone")
        return info

    def _info(self) -> dict[str, Any]:
        assert self._api is not None, "connected"
        return self._api.info(self._stream)

    def _ask(self, ask: Callable[[WorkQueue], _T]) -> _T:
        """Call `ask` and return its result; retry transient errors on a new connection.

        Raises NotReachable if the retries are used up, JetStreamError for any other error.
        """
        tries = Tries(self._settings, self._ended.wait)
        with self._lock:
            while True:
                try:
                    return ask(self._connected(tries.left()))
                except PASSES as error:
                    self._disconnect()
                    if self._ended.is_set() or not tries.again():
                        raise NotReachable(
                            f"stream {self._stream!r}: given up after {tries.failed} tries: {error}"
                        ) from error
                except NatsError as error:
                    raise translated(error, self._stream, "NATS") from error

    def _connected(self, seconds: float) -> WorkQueue:
        if self._queue is None:
            self._api = Api(Requests(Connection(self._settings, seconds)))
            self._queue = WorkQueue(self._api, self._stream, self._consumer)
        return self._queue

    def _disconnect(self) -> None:
        api, self._api, self._queue = self._api, None, None
        if api is not None:
            api.connection.close()


def _progress(batch: Deliveries, queue: WorkQueue) -> None:
    queue.in_progress(batch.ack_subjects())
