"""How much of what was written a peer has not taken."""

import asyncio
import contextlib
import struct


def untaken(transport: asyncio.Transport) -> int:
    """Return how many bytes of a transport's socket wait, here and in the kernel, where it tells.

    The kernel asks for more only when much of its own room is free again. Who reads slowly takes
    bytes all the time without showing in the buffer of the transport.
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
