"""Detection of messages in a requested range that are no longer stored, and the reaction to it.

The missing messages themselves are unknown: a sequence may have been deleted, purged, expired,
replaced or rolled up. So reports name the missing sequences, and a cause only if it is evident.
"""

import logging

from pyspark_jetstream.transport.base import Head
from pyspark_jetstream.transport.errors import DataLoss, NotReachedYet, StreamRecreated

log = logging.getLogger(__name__)


class LossPolicy:
    """The policy of the option `failOnDataLoss`.

    Args:
        mode: `true` raises, `false` logs a warning and continues, `strict` raises also for missing
            sequences in between.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode

    @property
    def goes_on(self) -> bool:
        """True if a loss does not end the query."""
        return self._mode == "false"

    def unreached(self, head: Head, seq: int, option: str) -> None:
        """Report an option that names a position behind the end. Raises NotReachedYet."""
        error = NotReachedYet(head.stream, option, seq, head.last_seq)
        if not self.goes_on:
            raise error
        log.warning("%s (failOnDataLoss=false)", error)

    def recreated(self, head: Head, incarnation: int) -> bool:
        """Return True if the position belongs to an earlier stream of this name.

        Raises StreamRecreated unless losses are allowed.
        """
        if head.incarnation == incarnation:
            return False
        error = StreamRecreated(head.stream, incarnation, head.incarnation)
        if self._mode != "false":
            raise error
        log.warning("%s (failOnDataLoss=false)", error)
        return True

    def trimmed(self, head: Head, after: int, through: int) -> int:
        """Return the number of sequences after `after` that lie below the stream's first one.

        Raises DataLoss if there are any, unless losses are allowed.
        """
        lost = min(head.first_seq - 1, through) - after
        if lost <= 0:
            return 0
        self._lost(
            f"stream {head.stream!r}: sequences {after + 1} to {after + lost} are not stored any "
            f"more, the first stored one is {head.first_seq}: up to {lost} messages were "
            "removed by limits, expiry, acknowledgement or a purge before they were read"
        )
        return lost

    def beyond(self, head: Head, seq: int, what: str) -> bool:
        """Return True if a position is behind the end of the stream.

        Raises DataLoss in that case, unless losses are allowed.

        Args:
            head: State of the stream.
            seq: The position.
            `what`: Name of the position in the message.
        """
        if seq <= head.last_seq:
            return False
        self._lost(
            f"stream {head.stream!r}: {what} is sequence {seq}, but the last one is "
            f"{head.last_seq}: the server was restored from an older state, or the database that "
            "is read lags behind by more than the option 'timeout'"
        )
        return True

    def removed(self, stream: str, first: int, last: int, missing: int) -> None:
        """Report the number of missing sequences in between. Raises DataLoss when strict."""
        if not missing:
            return
        text = (
            f"stream {stream!r}: {missing} of the sequences {first} to {last} are not stored: "
            "deleted, expired, replaced by newer messages of their subjects, or never used"
        )
        if self._mode == "strict":
            raise DataLoss(f"{text} (failOnDataLoss=strict)")
        log.info("%s", text)

    def _lost(self, text: str) -> None:
        if self._mode != "false":
            raise DataLoss(f"{text} (failOnDataLoss={self._mode}, false goes on)")
        log.warning("%s (failOnDataLoss=false)", text)
