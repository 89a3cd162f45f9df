"""Asynchronous iterations that end when they are dropped or the client is closed."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Iterations:
    """The open iterations of one client.

    This object refers to each generator until the generator ends. Otherwise the garbage collector
    would end a generator and its connection in any order.
    """

    def __init__(self) -> None:
        self._open: set[AsyncGenerator[Any, None]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def hold(self, generator: AsyncGenerator[Any, None]) -> None:
        """Hold a reference to a generator that starts."""
        self._open.add(generator)

    async def end(self, generator: AsyncGenerator[Any, None]) -> None:
        """End a generator. If a task is reading it, it ends later, with its connection."""
        self._open.discard(generator)
        with suppress(RuntimeError):
            await generator.aclose()

    def forget(self, generator: AsyncGenerator[Any, None]) -> None:
        """Release the reference to a generator that has ended."""
        self._open.discard(generator)

    def drop(self, generator: AsyncGenerator[Any, None], loop: asyncio.AbstractEventLoop) -> None:
        """End a generator whose iterator was dropped.

        The garbage collector calls this method, in any thread.
        """
        if generator in self._open and not loop.is_closed():
            loop.call_soon_threadsafe(self._end_soon, generator)

    def _end_soon(self, generator: AsyncGenerator[Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self.end(generator))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """End all generators."""
        for generator in list(self._open):
            await self.end(generator)
        if self._closing:
            await asyncio.wait(self._closing)


class Iteration(AsyncIterator[T], Generic[T]):
    """The iterator over a generator; the generator ends soon after this iterator is dropped."""

    def __init__(self, iterations: Iterations, generator: AsyncGenerator[T, None]) -> None:
        self._iterations = iterations
        self._generator = generator
        self._is_begun = False

    def __aiter__(self) -> Iteration[T]:
        return self

    async def __anext__(self) -> T:
        if not self._is_begun:
            self._is_begun = True
            self._iterations.hold(self._generator)
            loop = asyncio.get_running_loop()
            dropped = weakref.finalize(self, self._iterations.drop, self._generator, loop)
            dropped.atexit = False
        try:
            return await anext(self._generator)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._iterations.forget(self._generator)
            raise

    async def aclose(self) -> None:
        """End the generator now."""
        await self._iterations.end(self._generator)
