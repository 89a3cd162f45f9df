"""Detection of data loss, and the reaction by the option `failOnDataLoss`.

Data loss means that messages in the range of a query are no longer stored. Their cause is usually
unknown: they may be deleted, purged, expired, replaced or rolled up. So reports name the missing
sequences, and a cause only if it is evident.
"""

import logging

from pyspark_jetstream.transport.base import Head
from pyspark_jetstream.transport.errors import DataLoss, NotReachedYet, StreamRecreated

log = logging.getLogger(__name__)


class LossPolicy:
    """The reaction to data loss, by the option `failOnDataLoss`.

    Args:
        mode: `true` raises DataLoss, `false` logs a warning and continues, `strict` raises also for
            sequences that are missing between stored ones.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode

    @property
    def goes_on(self) -> bool:
        """True if the query continues after a data loss (`failOnDataLoss=false`)."""
        return self._mode == "false"

    def unreached(self, head: Head, seq: int, option: str) -> None:
        """Report that an option names a sequence after the last one of the stream.

        Raises NotReachedYet, or logs a warning if `failOnDataLoss` is false.

        Args:
            head: State of the stream.
            seq: The sequence that the option names.
            option: Name of the option.
        """
        error = NotReachedYet(head.stream, option, seq, head.last_seq)
        if not self.goes_on:
            raise error
        log.warning("%s (failOnDataLoss=false)", error)

    def recreated(self, head: Head, incarnation: int) -> bool:
        """Return True if the stream was deleted and created again since the query read it.

        Raises StreamRecreated in that case, unless `failOnDataLoss` is false.

        Args:
            head: Current state of the stream.
            incarnation: Creation time of the stream that the query read, in nanoseconds since the
                epoch.
        """
        if head.incarnation == incarnation:
            return False
        error = StreamRecreated(head.stream, incarnation, head.incarnation)
        if self._mode != "false":
            raise error
        log.warning("%s (failOnDataLoss=false)", error)
        return True

    def trimmed(self, head: Head, after: int, through: int) -> int:
        """Return the number of sequences of a range that lie before the first stored message.

        Raises DataLoss if there are any, unless `failOnDataLoss` is false.

        Args:
            head: State of the stream.
            after: The sequence before the range.
            through: The last sequence of the range.
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
        """Return True if a sequence is after the last one of the stream.

        Raises DataLoss in that case, unless `failOnDataLoss` is false.

        Args:
            head: State of the stream.
            seq: The sequence.
            `what`: Name of the sequence in the error message.
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
        """Report missing messages between stored ones: raise DataLoss if `strict`, else log.

        Args:
            stream: Name of the stream.
            first, last: Range of the read sequences, inclusive.
            missing: Number of messages in the range that are not stored; 0 reports nothing.
        """
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
