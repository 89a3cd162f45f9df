"""Names of tests in warnings about unclosed sockets: the `repr` of a socket names its opener.

The garbage collector often detects an unclosed socket during a later test, which then fails. The
opener is the test that ran when the socket was created, also if a fixture created it.

The traceback of a failed test keeps its sockets open, which is not a fault of the test. Therefore
tracebacks are released when a failed test ends, and its unclosed sockets cause no error later.
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
"""Types whose warning about a closed event loop names neither transport nor socket."""
_openers: dict[int, str] = {}
"""The test that opened a socket, by `id` of the socket; a later socket may reuse the id.

(Sockets accept no further attributes, and the garbage collector clears weak references before it
warns.)
"""
_failed: set[str] = set()
_running = ""


def pytest_configure(config: pytest.Config) -> None:
    """Make the `repr` of sockets, asyncio transports and event loops name the opening test."""
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
    """Record this test as the opener of new sockets; if it fails, release its traceback."""
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
    """Release the last exception, which pytest keeps for debuggers, and collect its objects."""
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
