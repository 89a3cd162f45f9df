"""Which test opened a socket, in the words of the warning that it was never closed.

A socket that nobody closes is found by the garbage collector, often in a later test, which fails.
So every socket shows who opened it: what a fixture of several tests opens, the first of them.

A test that fails has frames that keep its sockets open, and that is no fault of its own. They are
let go when it ends, and what it left open is no error in any test after it. Only what is left over
is affected: what a fixture still uses stays open.
"""

import gc
import socket
import sys
import warnings
from asyncio import StreamWriter, selector_events, sslproto
from collections.abc import Callable, Generator
from typing import Any

import pytest

_FAILED = ", which failed"
_IGNORED = rf"ignore:unclosed .*, opened in .*{_FAILED}>:ResourceWarning"

_Loop: Any = selector_events.BaseSelectorEventLoop
_Transport: Any = selector_events._SelectorTransport  # type: ignore[attr-defined]
_SILENT = (StreamWriter, sslproto._SSLProtocolTransport)
"""What warns when its loop is closed, and shows neither transport nor socket."""
_openers: dict[int, str] = {}
"""The test that opened a socket, by `id`, which the next socket at its place takes over. (Sockets
have no room for another attribute, and the collector clears weak references before it warns.)"""
_failed: set[str] = set()
_running = ""


def pytest_configure(config: pytest.Config) -> None:
    """Let sockets, and the transports and loops of asyncio, show who opened them."""
    config.addinivalue_line("filterwarnings", _IGNORED)
    _replace(socket.socket, "__init__", _noting)
    _replace(socket.socket, "__repr__", lambda shown: lambda self: _named(shown(self), self))
    _replace(_Transport, "__repr__", lambda shown: lambda self: _named(shown(self), self._sock))
    _replace(_Loop, "__repr__", lambda shown: lambda self: _named(shown(self), self._ssock))
    for owner in _SILENT:
        if hasattr(owner, "__del__"):  # of a StreamWriter not in every 3.11
            _replace(owner, "__del__", _naming)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Sockets are of this test from now on; let go what it keeps, if it fails."""
    global _running
    _running = item.nodeid
    done = yield
    if item.nodeid in _failed:
        _let_go()
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notice a test that fails."""
    if report.failed:
        _failed.add(report.nodeid)


def _let_go() -> None:
    """Collect what only the frames of the last exception held, which pytest keeps for debuggers."""
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        vars(sys).pop(name, None)
    gc.collect()


def _replace(owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrapped(getattr(owner, name)))


def _noting(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: socket.socket, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        _openers[id(self)] = _running

    return __init__


def _naming(original: Callable[[Any], None]) -> Callable[[Any], None]:
    def __del__(self: Any) -> None:
        transport = getattr(self, "_transport", self)
        if transport.is_closing() or not self._loop.is_closed():
            return original(self)
        opened = getattr(transport.get_extra_info("socket"), "_sock", None)
        shown = _named(f"<{type(self).__name__}>", opened)
        warnings.warn(f"unclosed {shown} of a closed loop", ResourceWarning, stacklevel=2)
        return None

    return __del__


def _named(shown: str, opened: socket.socket | None) -> str:
    opener = _openers.get(id(opened))
    if not opener:
        return shown
    return f"{shown[:-1]}, opened in {opener}{_FAILED if opener in _failed else ''}>"
