"""Raises the limit on open file descriptors; refuses connections near it."""

import asyncio
import contextlib
import logging
from typing import Any

log = logging.getLogger(__name__)

_QUIET_S = 60.0
_RESERVE_MAX = 128
_LIMIT_MAX = 1 << 20  # kernels refuse more, regardless of the hard limit


def soft_limit() -> int:
    """Return the soft limit on open file descriptors of this process; 0: there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


class DescriptorReserve:
    """Keeps some file descriptors free for essential connections, such as those to PostgreSQL.

    The kernel assigns the lowest free number, so the number of a new descriptor shows how many are
    in use. Connections over NATS may use all but a reserve of a quarter of the limit, at most 128;
    HTTP and WebSocket may use half of the reserve too.

    Attributes:
        refused: Number of refused connections.
    """

    def __init__(self) -> None:
        self.refused = 0
        self._limit = soft_limit()
        self._reserve = min(self._limit // 4, _RESERVE_MAX)
        self._last_told = 0.0

    def is_needed(self, transport: asyncio.BaseTransport, *, for_http: bool = False) -> bool:
        """Return whether a new connection must be refused to keep the reserve free.

        `for_http`: the connection may use half of the reserve. Refusals are logged once a minute.
        """
        sock: Any = transport.get_extra_info("socket")
        if not self._limit or sock is None:
            return False
        if sock.fileno() < self._limit - (self._reserve // 2 if for_http else self._reserve):
            return False
        self.refused += 1
        now = asyncio.get_running_loop().time()
        if self.refused == 1 or now - self._last_told > _QUIET_S:
            self._last_told = now
            log.error(
                "file descriptors run out (ulimit -n %d): connections are refused, %d so far",
                self._limit,
                self.refused,
            )
        return True


def use_all_descriptors() -> None:
    """Raise the soft limit on open file descriptors to the hard limit.

    Shells and service managers set it to 1,024, for programs that call select(); this server needs
    one descriptor per client. Child processes inherit the raised limit.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, _LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with contextlib.suppress(OSError, ValueError):  # macOS refuses the hard limit it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
