"""Socket reads of limited size; asyncio and uvloop read 256 KiB.

The event loop calls the protocol immediately after each read, so all connections share one buffer.
"""

import asyncio
from weakref import WeakKeyDictionary

READ_BYTES = 32 * 1024
"""Maximum bytes of one read from an unauthenticated client.

As many bytes may wait unprocessed, so at most 64 KiB are buffered per connection.
"""
BULK_BYTES = 128 * 1024
"""Maximum bytes of one read of a body that the application awaits."""

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def read_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:
    """Return the read buffer of an event loop, BULK_BYTES long.

    Copy its content before the next read.
    """
    if (buffer := _buffers.get(loop)) is None:
        buffer = _buffers[loop] = memoryview(bytearray(BULK_BYTES))
    return buffer


class BoundedReads(asyncio.BufferedProtocol):
    """An asyncio protocol whose reads have at most `size` bytes."""

    def __init__(self, size: int = READ_BYTES) -> None:
        self._buffer = read_buffer(asyncio.get_running_loop())
        self._part = self._buffer[:size]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._part

    def buffer_updated(self, nbytes: int) -> None:
        """Process the `nbytes` bytes that the last read has put into the buffer."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process input; it may have been read before this protocol was set."""
        raise NotImplementedError


class SmallReads(BoundedReads):
    """An adapter that passes input to another protocol, at most `size` bytes at once.

    Parsing 256 KiB of the shortest WebSocket frames would block the event loop for half a second.
    """

    def __init__(self, protocol: asyncio.Protocol, size: int) -> None:
        super().__init__(size)
        self._protocol = protocol

    def data_received(self, data: bytes) -> None:
        """Forward input to the protocol."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Forward the end of the input to the protocol."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward the end of the connection to the protocol."""
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Forward the pause of writing to the protocol."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Forward the end of the pause to the protocol."""
        self._protocol.resume_writing()


def change_protocol(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    """Set another protocol for further input of a transport.

    uvloop changes its kind of reads only if reading is paused meanwhile.
    """
    was_reading = transport.is_reading()
    if was_reading:
        transport.pause_reading()
    transport.set_protocol(protocol)
    if was_reading:
        transport.resume_reading()
