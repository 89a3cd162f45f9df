"""The private parts of uvicorn that the façade uses: another uvicorn fails by their names."""

# Subject: HTTP

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.http import protocol, server, uvicorn_parts, websocket_protocol
from gateway.http.uvicorn_parts import (
    Config,
    Flow,
    RequestCycle,
    Server,
    ServerState,
    WebSocketsSansIOProtocol,
)

SIGNATURES: dict[Callable[..., Any], tuple[str, ...]] = {
    RequestCycle.__init__: (
        "self",
        "scope",
        "transport",
        "flow",
        "logger",
        "access_logger",
        "access_log",
        "default_headers",
        "message_event",
        "expect_100_continue",
        "keep_alive",
        "on_response",
    ),
    Flow.__init__: ("self", "transport"),
    Server.startup: ("self", "sockets"),
    Server.main_loop: ("self",),
    Server.on_tick: ("self", "counter"),
    Server.shutdown: ("self", "sockets"),
    Server.serve: ("self", "sockets"),
    Server.capture_signals: ("self",),
    WebSocketsSansIOProtocol.__init__: ("self", "config", "server_state", "app_state", "_loop"),
    WebSocketsSansIOProtocol.connection_made: ("self", "transport"),
    WebSocketsSansIOProtocol.connection_lost: ("self", "exc"),
    WebSocketsSansIOProtocol.data_received: ("self", "data"),
    WebSocketsSansIOProtocol.handle_connect: ("self", "event"),
    WebSocketsSansIOProtocol.handle_events: ("self",),
    WebSocketsSansIOProtocol.handle_ping: ("self",),
    WebSocketsSansIOProtocol.handle_parser_exception: ("self",),
    WebSocketsSansIOProtocol.send_receive_event_to_app: ("self",),
    WebSocketsSansIOProtocol.receive: ("self",),
    WebSocketsSansIOProtocol.send: ("self", "message"),
    uvicorn_parts.get_local_addr: ("transport",),
    uvicorn_parts.get_remote_addr: ("transport",),
    uvicorn_parts.is_ssl: ("transport",),
}

USERS: dict[str, tuple[object, str, type]] = {
    "cycle in arrived_body": (uvicorn_parts.arrived_body, "cycle", RequestCycle),
    "cycle in send_response": (uvicorn_parts.send_response, "cycle", RequestCycle),
    "cycle in HttpProtocol": (protocol.HttpProtocol, "cycle", RequestCycle),
    "self in RequestCycle": (RequestCycle, "self", RequestCycle),
    "flow in HttpProtocol": (protocol.HttpProtocol, "_flow", Flow),
    "self in Flow": (Flow, "self", Flow),
    "config in HttpProtocol": (protocol.HttpProtocol, "_config", Config),
    "state in HttpProtocol": (protocol.HttpProtocol, "_state", ServerState),
    "self in the server": (server._Server, "self", server._Server),
    "state in the server": (server._Server, "state", ServerState),
    "self in WebSocketProtocol": (
        websocket_protocol.WebSocketProtocol,
        "self",
        websocket_protocol.WebSocketProtocol,
    ),
}
"""Code, the name of a variable or attribute in it, and the class of its values."""


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda each: each.__qualname__)
def test_a_function_of_uvicorn_takes_these_parameters(function: Callable[..., Any]) -> None:
    assert tuple(inspect.signature(function).parameters) == SIGNATURES[function]


@pytest.mark.parametrize("user", USERS)
def test_objects_of_uvicorn_have_the_attributes_that_are_used(user: str) -> None:
    code, name, cls = USERS[user]
    used = set(_attributes_of(code, name))
    missing = used - set(_attributes(cls))

    assert used, f"nothing is used of {name}: correct USERS"
    assert not missing, f"{cls.__qualname__} has no {', '.join(sorted(missing))}"


def test_status_lines_are_bytes_with_a_line_break() -> None:
    assert uvicorn_parts.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"


def _tree(code: object) -> ast.AST:
    assert inspect.isclass(code) or inspect.isfunction(code)
    return ast.parse(textwrap.dedent(inspect.getsource(code)))


def _attributes_of(code: object, name: str) -> Iterator[str]:
    """Yield the attributes of `name` and of `self.name` in the code."""
    for node in ast.walk(_tree(code)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            if (isinstance(owner, ast.Name) and owner.id == name) or (
                isinstance(owner, ast.Attribute) and owner.attr == name
            ):
                yield node.attr


def _attributes(cls: type) -> Iterator[str]:
    """Yield the attributes of a class, and those that its methods assign to `self`.

    A subclass of ours declares only names with an underscore: others must be uvicorn's.
    """
    yield from dir(cls)
    for each in cls.__mro__:
        yield from getattr(each, "__annotations__", ())
        if each.__module__ in ("builtins", "asyncio.protocols"):
            continue
        is_uvicorn = each.__module__.startswith("uvicorn.")
        for node in ast.walk(_tree(each)):
            if (
                isinstance(node, ast.Attribute)
                and (is_uvicorn or node.attr.startswith("_"))
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                yield node.attr
