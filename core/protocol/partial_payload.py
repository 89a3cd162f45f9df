"""Collects the payload of a message that arrives in more than one read."""

from core.errors import ProtocolError

UNKNOWN_OPERATION = "Unknown Protocol Operation"
"""Text of the -ERR for an unknown operation (nats-server: behaviour observed)."""


class PartialPayload:
    """The received beginning of a payload, until its end arrives.

    Attributes:
        missing: Bytes that have not arrived, including CR LF (0: no payload has begun).
    """

    __slots__ = ("_chunks", "missing")

    def __init__(self) -> None:
        self.missing = 0
        self._chunks: list[bytes] = []

    def begin(self, start: bytes, size: int) -> None:
        """Start a payload of `size` bytes with the bytes that have arrived, fewer than `size` + 2.

        Raises ProtocolError if a byte after the payload is not the CR of CR LF.
        """
        self._chunks = [start]
        self.missing = size + 2 - len(start)
        self._check_last(start)

    def add(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Add the bytes of the next read.

        Returns the payload and the bytes after its CR LF, or None while its end is missing. Raises
        ProtocolError at the first wrong byte if CR LF does not follow the payload.
        """
        missing = self.missing
        if len(data) < missing:
            self._chunks.append(data)
            self.missing = missing - len(data)
            self._check_last(data)
            return None
        self._chunks.append(data[:missing])
        whole = b"".join(self._chunks)
        self._chunks, self.missing = [], 0
        check_end(whole, len(whole) - 2)
        return whole[:-2], data[missing:]

    def _check_last(self, chunk: bytes) -> None:
        if self.missing == 1 and chunk and chunk[-1] != 13:
            raise ProtocolError(UNKNOWN_OPERATION, "payload not followed by CR LF")


def check_end(data: bytes, stop: int) -> None:
    """Check that CR LF follows the payload that ends at index `stop` of `data`.

    Raises ProtocolError if it does not.
    """
    if data[stop] != 13 or data[stop + 1] != 10:
        raise ProtocolError(UNKNOWN_OPERATION, "payload not followed by CR LF")
