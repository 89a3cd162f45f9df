"""A client of `/v1/ws`, and one of server-sent events, as simple as can be."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.gateway.frame_contract import check

Address = tuple[str, int]
JSON, PACK = "js.v1.json", "js.v1.msgpack"


class Socket:
    """One connection; frames are dictionaries."""

    def __init__(
        self,
        address: Address,
        protocol: str = JSON,
        *more: str,
        headers: dict[str, str] | None = None,
        path: str = "/v1/ws",
        welcomed: bool = True,
    ) -> None:
        self.packed = protocol == PACK
        self.ids = 0
        self._connecting = connect(
            "ws://{}:{}".format(*address) + path,
            subprotocols=[Subprotocol(name) for name in (protocol, *more)],
            additional_headers=headers,
            compression=None,
            max_size=None,
            proxy=None,
            open_timeout=30,
        )
        self.ws: ClientConnection = self._connecting.__enter__()
        self.earlier_frames: list[dict[str, Any]] = []
        self.welcome = self.next("welcome") if welcomed else {}

    def send(self, *frames: dict[str, Any]) -> None:
        """Send one frame, or several as an array."""
        value = frames[0] if len(frames) == 1 else frames
        self.ws.send(msgspec.msgpack.encode(value) if self.packed else json.dumps(value))

    def frame(self, within: float = 30) -> dict[str, Any]:
        """The next frame, which is as the contract says."""
        data = self.ws.recv(timeout=within)
        assert isinstance(data, bytes) is self.packed
        value: dict[str, Any]
        value = msgspec.msgpack.decode(data) if isinstance(data, bytes) else json.loads(data)
        check("send", value, packed=self.packed)
        return value

    def next(self, kind: str, **members: object) -> dict[str, Any]:
        """The next frame of a type and with these members; others are kept for later."""
        for kept in self.earlier_frames:
            if kept["type"] == kind and members.items() <= kept.items():
                self.earlier_frames.remove(kept)
                return kept
        while True:
            frame = self.frame()
            if frame["type"] == kind and members.items() <= frame.items():
                return frame
            self.earlier_frames.append(frame)

    def ask(self, kind: str, **members: Any) -> dict[str, Any]:
        """Send a frame and return its answer."""
        self.ids += 1
        self.send({"type": kind, "id": self.ids} | members)
        return self.answer(self.ids)

    def answer(self, ident: int) -> dict[str, Any]:
        """The answer to a frame."""
        while True:
            frame = self.frame()
            if frame.get("id") == ident and frame["type"] != "msg":
                return frame
            self.earlier_frames.append(frame)

    def refused(self, kind: str, **members: Any) -> tuple[int, str]:
        """Send a frame and return status and kind of the problem."""
        answer = self.ask(kind, **members)
        assert answer["type"] == "error", answer
        problem = answer["problem"]
        return problem["status"], str(problem["type"]).rpartition(":")[2]

    def messages(self, sid: int, count: int) -> list[dict[str, Any]]:
        """The next messages of a feed."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += self.next("msg", sid=sid)["messages"]
        assert len(found) == count, found
        return found

    def closed(self) -> tuple[int, str]:
        """Code and reason of the close that comes."""
        with pytest.raises(ConnectionClosed) as ended:
            self._read_all()
        assert ended.value.rcvd is not None, "cut off"
        return ended.value.rcvd.code, ended.value.rcvd.reason

    def _read_all(self) -> None:
        while True:
            self.frame()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connecting.__exit__(None, None, None)


class Events:
    """Server-sent events as a browser reads them."""

    def __init__(self, sock: socket.socket) -> None:
        self._reader = sock.makefile("rb")
        self.status = int(self._reader.readline().split()[1])
        self.head: dict[str, str] = {}
        while (line := self._reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            self.head[name.lower()] = value.strip()
        self._text = b""

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.close()

    def next(self) -> dict[str, Any]:
        """The next event, `data` decoded; comments are passed over. Raises EOFError at the end."""
        while True:
            while b"\n\n" not in self._text:
                size = int(self._reader.readline() or b"0", 16)
                if not size:
                    raise EOFError
                self._text += self._reader.read(size)
                self._reader.readline()
            event, _, self._text = self._text.partition(b"\n\n")
            lines = (line.partition(": ") for line in event.decode().split("\n") if line[:1] != ":")
            fields: dict[str, Any] = {name: value for name, _, value in lines}
            if "data" in fields:
                return fields | {"data": json.loads(fields["data"])}


@contextmanager
def following(address: Address, path: str, **headers: str) -> Iterator[Events]:
    """Open an event stream."""
    with socket.create_connection(address, timeout=30) as sock:
        lines = [f"GET {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        with closing(Events(sock)) as events:
            yield events
