"""The name of the test that opened a socket, shown in the warning that the socket was not closed.

The garbage collector finds an unclosed socket, often during a later test, which then fails. So the
representation of every socket names its opener; for a fixture of several tests, the first of them.

The traceback frames of a failed test keep its sockets open, which is not a fault of the test. They
are released when it ends, and sockets that it left open are no error in later tests. Sockets that
a fixture still uses stay open.
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
"""Types that warn when their loop is closed, without naming transport or socket."""
_openers: dict[int, str] = {}
"""The test that opened a socket, by `id` of the socket; a later socket may reuse the id.

(Sockets have no room for another attribute, and the collector clears weak references before it
warns.)
"""
_failed: set[str] = set()
_running = ""


def pytest_configure(config: pytest.Config) -> None:
    """Make sockets, asyncio transports and loops name their openers."""
    config.addinivalue_line("filterwarnings", _IGNORED)
    _replace(socket.socket, "__init__", _noting)
    _replace(socket.socket, "__repr__", lambda shown: lambda self: _named(shown(self), self))
    _replace(_Transport, "__repr__", lambda shown: lambda self: _named(shown(self), self._sock))
    _replace(_Loop, "__repr__", lambda shown: lambda self: _named(shown(self), self._ssock))
    for owner in _SILENT:
        if hasattr(owner, "__del__"):  # not every Python 3.11 has one in StreamWriter
            _replace(owner, "__del__", _naming)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Attribute new sockets to this test; release those that it keeps, if it fails."""
    global _running
    _running = item.nodeid
    done = yield
    if item.nodeid in _failed:
        _forget()
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a test that fails."""
    if report.failed:
        _failed.add(report.nodeid)


def _forget() -> None:
    """Collect objects that only the last exception holds: pytest keeps its frames for debuggers."""
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
        sock = getattr(transport.get_extra_info("socket"), "_sock", None)
        shown = _named(f"<{type(self).__name__}>", sock)
        warnings.warn(f"unclosed {shown} of a closed loop", ResourceWarning, stacklevel=2)
        return None

    return __del__


def _named(shown: str, sock: socket.socket | None) -> str:
    opener = _openers.get(id(sock))
    if not opener:
        return shown
    return f"{shown[:-1]}, opened in {opener}{_FAILED if opener in _failed else ''}>"
