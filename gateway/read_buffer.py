"""Reads of a size that their protocol chooses, where asyncio's and uvloop's are 256 KiB.

The loop reads, and tells the protocol at once, so all connections of a loop share one buffer.
"""

import asyncio
from weakref import WeakKeyDictionary

READ_BYTES = 32 * 1024
"""A read of a peer that may be anybody: with as much that waits, at most 64 KiB are held of it."""
BULK_BYTES = 128 * 1024
"""A read of a body that the application has asked for."""

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def read_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:
    """The buffer of a loop, BULK_BYTES. What is in it is copied before the next read."""
    if (buffer := _buffers.get(loop)) is None:
        buffer = _buffers[loop] = memoryview(bytearray(BULK_BYTES))
    return buffer


class BoundedReads(asyncio.BufferedProtocol):
    """A protocol whose reads have at most `size` bytes."""

    def __init__(self, size: int = READ_BYTES) -> None:
        self._buffer = read_buffer(asyncio.get_running_loop())
        self._part = self._buffer[:size]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._part

    def buffer_updated(self, nbytes: int) -> None:
        """Take a read."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what was read, here or by the protocol before."""
        raise NotImplementedError


class SmallReads(BoundedReads):
    """Stands before a protocol and hands on what comes, in pieces of `size` bytes at most.

    A read of 256 KiB of the shortest frames takes half a second, and everybody else waits.
    """

    def __init__(self, protocol: asyncio.Protocol, size: int) -> None:
        super().__init__(size)
        self._protocol = protocol

    def data_received(self, data: bytes) -> None:
        """Hand on a read."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on the end."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on that the connection is gone."""
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Hand on that the socket takes no more for now."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that the socket takes more."""
        self._protocol.resume_writing()


def change_protocol(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    """Let another protocol have what comes next. uvloop reads in the old way until it is paused."""
    was_reading = transport.is_reading()
    if was_reading:
        transport.pause_reading()
    transport.set_protocol(protocol)
    if was_reading:
        transport.resume_reading()
