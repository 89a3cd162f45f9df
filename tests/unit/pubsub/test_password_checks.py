"""The queue of password checks: who comes next, who goes, and what is not computed."""

# Subject: routing, permissions

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import bcrypt
import pytest

from core.auth.authenticator import Authenticator, SlowCheck
from core.auth.users import User, Users
from core.protocol.connect import Connect
from core.pubsub.password_checks import ADDRESS_MAX, USER_MAX, PasswordChecks, QueuedCheck
from tests.support.scenario import running

_HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
_USERS = Users(users=(User("ann", _HASH), User("bob", _HASH[:-1] + "x")))


class _Threads(Executor):
    """Computes nothing by itself: the test says what a check has found."""

    def __init__(self) -> None:
        self.running: list[tuple[SlowCheck, Future[Any]]] = []
        self.begun = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work: Future[Any] = Future()
        self.running.append((fn.__self__, work))  # type: ignore[attr-defined]
        self.begun += 1
        return work


class _Waiter:
    def __init__(self) -> None:
        self.has_begun = False
        self.found: list[bool | None] = []

    def check_begins(self) -> None:
        self.has_begun = True

    def check_ends(self, is_right: bool | None) -> None:
        self.found.append(is_right)


class _World:
    """Checks on threads that the test moves."""

    def __init__(self, threads: int = 1) -> None:
        self.checks = PasswordChecks(threads)
        self.threads = self.checks._executor = _Threads()
        self.authenticator = Authenticator(_USERS)

    def ask(
        self, address: str, user: str, password: str, connection_type: str = "STANDARD"
    ) -> tuple[_Waiter, QueuedCheck]:
        connect = Connect(user=user, password=password)
        check = self.authenticator.authenticate(connect, connection_type)
        assert isinstance(check, SlowCheck)
        waiter = _Waiter()
        return waiter, self.checks.submit(self.authenticator, check, address, waiter)

    async def end(self, is_right: bool = False) -> SlowCheck:
        """End the first check that runs."""
        check, work = self.threads.running.pop(0)
        work.set_result(is_right)
        for _ in range(4):
            await asyncio.sleep(0)
        return check

    async def ticks_until(self, waiter: _Waiter) -> int:
        """How many checks of others are made before somebody's."""
        count = 0
        while not waiter.has_begun:
            await self.end()
            count += 1
        return count


@running
async def test_a_check_from_another_address_is_soon_next() -> None:
    world = _World()
    for number in range(200):
        world.ask("192.0.2.1", "bob", f"guess {number}")
        world.ask("192.0.2.1", f"nobody {number}", "guess")
    ann, _ = world.ask("192.0.2.9", "ann", "right")

    assert await world.ticks_until(ann) <= 4


@running
async def test_a_check_of_another_user_is_soon_next() -> None:
    world = _World()
    for number in range(200):
        world.ask(f"192.0.2.{number}", "bob", "guess")
    ann, _ = world.ask("192.0.2.1", "ann", "right")

    assert await world.ticks_until(ann) <= 4


@running
async def test_the_last_check_of_the_same_user_and_address_is_next() -> None:
    world = _World()
    for number in range(200):
        world.ask("192.0.2.1", "ann", f"guess {number}")
    ann, _ = world.ask("192.0.2.1", "ann", "right")

    assert await world.ticks_until(ann) == 1


@running
async def test_one_address_or_user_has_half_of_the_threads() -> None:
    world = _World(threads=4)
    for number in range(20):
        world.ask("192.0.2.1", f"nobody {number}", "guess")
    assert len(world.threads.running) == 2

    for number in range(20):
        world.ask(f"198.51.100.{number}", "bob", "guess")
    assert len(world.threads.running) == 4


@running
async def test_a_network_of_ipv6_is_one_address() -> None:
    world = _World(threads=4)
    for number in range(20):
        world.ask(f"2001:db8::{number:x}", f"nobody {number}", "guess")
    assert len(world.threads.running) == 2

    world.ask("2001:db8:0:1::1", "ann", "right")
    assert len(world.threads.running) == 3


@running
async def test_a_check_whose_connection_has_closed_is_not_made() -> None:
    world = _World()
    asked = [world.ask("192.0.2.1", "bob", f"guess {number}") for number in range(30)]
    for waiter, queued in asked:
        world.checks.cancel(queued, waiter)
    await world.end()

    assert world.threads.begun == 1  # the one that had begun
    assert world.checks.waiting == 0
    assert not any(waiter.found for waiter, _ in asked)


@running
async def test_a_check_that_was_given_up_takes_nothing_from_another_with_its_credentials() -> None:
    world = _World()
    world.ask("192.0.2.1", "bob", "first")
    waiter, given_up = world.ask("192.0.2.1", "bob", "guess")
    world.checks.cancel(given_up, waiter)
    again, _ = world.ask("192.0.2.1", "bob", "guess")
    world.checks.cancel(given_up, waiter)
    await world.end()

    assert again.has_begun


@running
async def test_the_same_credentials_of_one_address_are_computed_once() -> None:
    world = _World()
    asked = [world.ask("192.0.2.1", "ann", "right") for _ in range(30)]
    waiter, queued = asked[0]
    world.checks.cancel(queued, waiter)
    await world.end(is_right=True)

    assert world.threads.begun == 1
    assert [waiter.found for waiter, _ in asked] == [[], *([[True]] * 29)]
    assert all(waiter.has_begun for waiter, _ in asked)


@running
async def test_a_password_checked_for_one_address_is_valid_for_others() -> None:
    world = _World()
    asked = [world.ask(f"192.0.2.{number}", "ann", "right") for number in range(30)]
    await world.end(is_right=True)

    assert world.threads.begun == 1
    assert all(waiter.found == [True] for waiter, _ in asked)


@running
async def test_credentials_that_cannot_be_right_here_are_a_check_of_their_own() -> None:
    world = _World()
    limited = User("ann", _HASH, connection_types=frozenset(("WEBSOCKET",)))
    world.authenticator = Authenticator(Users(users=(limited,)))
    refused, _ = world.ask("192.0.2.1", "ann", "right")
    taken, _ = world.ask("192.0.2.1", "ann", "right", "WEBSOCKET")
    await world.end(is_right=False)
    await world.end(is_right=True)

    assert (refused.found, taken.found) == ([False], [True])


@pytest.mark.parametrize(
    ("most", "address", "user"),
    [(USER_MAX, "192.0.2.{}", "bob"), (ADDRESS_MAX, "192.0.2.1", "nobody {}")],
)
@running
async def test_the_oldest_goes_where_too_many_wait(most: int, address: str, user: str) -> None:
    world = _World()
    world.ask("198.51.100.1", "ann", "right")  # runs
    asked = [
        world.ask(address.format(number), user.format(number), f"guess {number}")[0]
        for number in range(most + 3)
    ]
    await asyncio.sleep(0)

    assert world.checks.waiting == most
    assert [waiter.found for waiter in asked[:4]] == [[None]] * 3 + [[]]


@running
async def test_a_check_that_fails_is_a_refusal() -> None:
    world = _World()
    waiter, _ = world.ask("192.0.2.1", "bob", "guess")
    after, _ = world.ask("192.0.2.1", "ann", "right")
    world.threads.running.pop(0)[1].set_exception(MemoryError())
    for _ in range(4):
        await asyncio.sleep(0)

    assert waiter.found == [False]
    assert after.has_begun
