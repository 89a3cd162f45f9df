"""Reads of a size that the protocol chooses; asyncio and uvloop read 256 KiB.

The loop calls the protocol immediately after each read, so all connections share one buffer.
"""

import asyncio
from weakref import WeakKeyDictionary

READ_BYTES = 32 * 1024
"""Bytes of a read from an unauthenticated client.

With as many waiting bytes, at most 64 KiB are buffered per connection.
"""
BULK_BYTES = 128 * 1024
"""Bytes of a read of a body that the application awaits."""

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def read_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:
    """Return the buffer of a loop, BULK_BYTES long. Copy its content before the next read."""
    if (buffer := _buffers.get(loop)) is None:
        buffer = _buffers[loop] = memoryview(bytearray(BULK_BYTES))
    return buffer


class BoundedReads(asyncio.BufferedProtocol):
    """A protocol whose reads have at most `size` bytes."""

    def __init__(self, size: int = READ_BYTES) -> None:
        self._buffer = read_buffer(asyncio.get_running_loop())
        self._part = self._buffer[:size]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._part

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes of a read."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process bytes that were read here or by the previous protocol."""
        raise NotImplementedError


class SmallReads(BoundedReads):
    """An adapter that passes input to a protocol in pieces of at most `size` bytes.

    Parsing 256 KiB of the shortest frames takes half a second, and blocks the event loop.
    """

    def __init__(self, protocol: asyncio.Protocol, size: int) -> None:
        super().__init__(size)
        self._protocol = protocol

    def data_received(self, data: bytes) -> None:
        """Forward a read."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Forward the end of the input."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward the end of the connection."""
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Forward the pause of writing."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Forward the end of the pause."""
        self._protocol.resume_writing()


def change_protocol(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    """Set another protocol for further input. uvloop needs a pause to change its kind of reads."""
    was_reading = transport.is_reading()
    if was_reading:
        transport.pause_reading()
    transport.set_protocol(protocol)
    if was_reading:
        transport.resume_reading()
