"""Waiting for a stream that was deleted and may be created again."""

import time

from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.transport.errors import StreamNotFound

_POLL = 0.1


def head_when_there(transport: Transport, stream: str, seconds: float) -> Head:
    """The head of a stream, once it is there.

    Raises:
        StreamNotFound: It was not created within so many seconds.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return transport.head(stream)
        except StreamNotFound:
            if time.monotonic() >= until:
                raise
        time.sleep(_POLL)
