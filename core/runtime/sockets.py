"""Functions for the socket of an asyncio transport."""

import asyncio
import contextlib
import struct


def untaken(transport: asyncio.Transport) -> int:
    """Return the unacknowledged bytes: transport buffer plus the kernel's send queue.

    The transport's buffer alone does not show the progress of a slow reader, because the kernel
    accepts more bytes only when much of its own buffer is free. On Windows only the transport's
    buffer counts.
    """
    size = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    try:
        from fcntl import ioctl
        from termios import TIOCOUTQ
    except ImportError:  # Windows
        return size
    if sock is not None:
        with contextlib.suppress(OSError):
            size += struct.unpack("i", ioctl(sock.fileno(), TIOCOUTQ, bytes(4)))[0]
    return size


def end_writing(transport: asyncio.Transport) -> None:
    """Half-close a connection after its pending output (TCP FIN).

    Nothing is done over TLS or after a reset of the connection.
    """
    if transport.can_write_eof() and not transport.is_closing():
        # After a reset shutdown fails, and the loop calls connection_lost in a later tick.
        with contextlib.suppress(OSError):
            transport.write_eof()
