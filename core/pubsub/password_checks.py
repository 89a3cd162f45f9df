"""The queue of password checks that compute a hash (bcrypt), and the threads that run them.

Any client may cause a check, so checks must neither block other clients nor occupy the whole
machine. They use half of the processors. Waiting checks are served round-robin, alternately by
client address and by user name. So an attacker at one address, or of one user, delays others by a
few checks. Of one address or one user the newest check runs first, since the client of the oldest
is about to time out. If too many wait, the oldest is dropped. A check whose connections have all
closed is not run. Equal credentials that one address sends several times at once are checked once.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from core.auth.authenticator import Authenticator, SlowCheck
from core.runtime.listening import client_network

ADDRESS_MAX = 256
"""Largest number of waiting checks for one client address."""
USER_MAX = 32
"""Largest number of waiting checks for one user name."""


class Waiter(Protocol):
    """A connection that waits for a password check. Both methods are called on the event loop."""

    def check_begins(self) -> None:
        """Record that a thread now computes the hash, so that the check will have a result soon."""
        ...

    def check_ends(self, is_right: bool | None) -> None:
        """Apply the result: True if the credentials are right, None if the check was dropped."""
        ...


class QueuedCheck:
    """A password check that waits for a thread or runs.

    `waiters` has the connections that wait for its result. A waiting check without any is dropped.
    """

    __slots__ = ("address", "authenticator", "check", "is_running", "waiters")

    def __init__(self, authenticator: Authenticator, check: SlowCheck, address: str) -> None:
        self.authenticator = authenticator
        self.check = check
        self.address = address
        self.waiters: list[Waiter] = []
        self.is_running = False


_Groups = dict[str, dict[QueuedCheck, None]]
"""Waiting checks by address or user, oldest first. The first group is served next."""


class PasswordChecks:
    """The queue and the threads for the password checks of one server.

    Args:
        threads: Number of hashes computed at once; 0: half of the processors. One address or user
            gets at most half of the threads, but at least one.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or max((os.cpu_count() or 1) // 2, 1)
        self._each_max = max(self._threads // 2, 1)
        self._executor: Executor | None = None
        self._queued: dict[tuple[str, SlowCheck], QueuedCheck] = {}
        self._by_address: _Groups = {}
        self._by_user: _Groups = {}
        self._running: Counter[tuple[str, str]] = Counter()
        self._running_count = 0
        self._is_user_next = False

    @property
    def waiting(self) -> int:
        """Number of password checks that wait for a thread."""
        return len(self._queued) - self._running_count

    def submit(
        self, authenticator: Authenticator, check: SlowCheck, address: str, waiter: Waiter
    ) -> QueuedCheck:
        """Queue a check of the credentials that a connection from `address` has sent.

        `waiter` gets the result by `check_ends`. Return the queued check, for `cancel`.
        """
        address = client_network(address)
        queued = self._queued.get((address, check))
        if queued is None:
            queued = QueuedCheck(authenticator, check, address)
            self._queued[address, check] = queued
            self._by_address.setdefault(address, {})[queued] = None
            self._by_user.setdefault(check.user, {})[queued] = None
        queued.waiters.append(waiter)
        if queued.is_running:
            waiter.check_begins()
        self._drop_oldest(self._by_address.get(address, {}), ADDRESS_MAX)
        self._drop_oldest(self._by_user.get(check.user, {}), USER_MAX)
        self._start()
        return queued

    def cancel(self, queued: QueuedCheck, waiter: Waiter) -> None:
        """Remove a connection from the waiters of a check.

        Drop the check if it waits and has none left.
        """
        if waiter in queued.waiters:
            queued.waiters.remove(waiter)
        if not queued.waiters and not queued.is_running:
            self._remove(queued)

    def _start(self) -> None:
        while self._running_count < self._threads and (queued := self._next()) is not None:
            if queued.authenticator.is_verified(queued.check):
                self._remove(queued)
                asyncio.get_running_loop().call_soon(_finish_waiters, queued.waiters, True)
            else:
                self._run(queued)

    def _next(self) -> QueuedCheck | None:
        """Choose the check to run next, and move its address or user to the end of the round."""
        self._is_user_next = not self._is_user_next
        groups = self._by_user if self._is_user_next else self._by_address
        for key, group in groups.items():
            for queued in reversed(group):
                if self._may_run(queued):
                    groups[key] = groups.pop(key)
                    return queued
        return None

    def _may_run(self, queued: QueuedCheck) -> bool:
        return all(self._running[key] < self._each_max for key in _keys(queued))

    def _run(self, queued: QueuedCheck) -> None:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # most servers hash nothing

            self._executor = ThreadPoolExecutor(self._threads, "password")
        self._leave_groups(queued)
        queued.is_running = True
        self._running_count += 1
        self._running.update(_keys(queued))
        for waiter in list(queued.waiters):
            waiter.check_begins()
        work = asyncio.get_running_loop().run_in_executor(self._executor, queued.check.run)
        work.add_done_callback(partial(self._ended, queued))

    def _ended(self, queued: QueuedCheck, work: "asyncio.Future[bool]") -> None:
        self._running_count -= 1
        self._running -= Counter(_keys(queued))
        del self._queued[queued.address, queued.check]
        is_right = not work.cancelled() and work.exception() is None and work.result()
        if is_right:
            queued.authenticator.remember(queued.check)
        _finish_waiters(queued.waiters, is_right)
        self._start()

    def _drop_oldest(self, group: dict[QueuedCheck, None], most: int) -> None:
        if len(group) > most:
            oldest = next(iter(group))
            self._remove(oldest)
            asyncio.get_running_loop().call_soon(_finish_waiters, oldest.waiters, None)

    def _remove(self, queued: QueuedCheck) -> None:
        key = queued.address, queued.check
        if self._queued.get(key) is queued:  # otherwise it was removed before
            del self._queued[key]
            self._leave_groups(queued)

    def _leave_groups(self, queued: QueuedCheck) -> None:
        user = queued.check.user
        for groups, key in ((self._by_address, queued.address), (self._by_user, user)):
            del groups[key][queued]
            if not groups[key]:
                del groups[key]


def _keys(queued: QueuedCheck) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("address", queued.address), ("user", queued.check.user)


def _finish_waiters(waiters: Iterable[Waiter], is_right: bool | None) -> None:
    for waiter in list(waiters):
        waiter.check_ends(is_right)
