"""Waiting for a deleted stream to be created again."""

import time

from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.transport.errors import StreamNotFound

_POLL = 0.1


def head_when_there(transport: Transport, stream: str, seconds: float) -> Head:
    """Return the state of a stream; wait up to `seconds` if the stream does not exist.

    Raises:
        StreamNotFound: The stream was not created within `seconds`.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return transport.head(stream)
        except StreamNotFound:
            if time.monotonic() >= until:
                raise
        time.sleep(_POLL)
