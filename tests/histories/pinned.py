"""Clients of a run that use a single node over HTTP: fetch with acks, durable feed, event stream.

The clients of a single node over NATS, and with an ordered feed over WebSocket, are those of
`tests.histories.consumers` and `tests.histories.readers`.
"""

import http.client as http_client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.histories.client import Address, Addresses, Client
from tests.support.wire import Closed, Silence, Wire


class HttpConsumer(Client):
    """A client that receives the messages of a consumer over HTTP, with confirmed acknowledgements.

    Args:
        consumer: Name of its consumer on the stream LOG, which no other client uses.
    """

    stream = "LOG"

    def __init__(self, name: str, addresses: Addresses, directory: Path, *, consumer: str) -> None:
        super().__init__(name, addresses, directory)
        self.consumer = consumer

    def work(self, wire: Wire) -> None:
        raise NotImplementedError("it has a connection of another kind")

    def record(self, messages: list[dict[str, Any]], since: int) -> dict[str, dict[str, Any]]:
        """Record deliveries and an ack request for each; return members of the latter by token."""
        known: dict[str, dict[str, Any]] = {}
        for message in messages:
            about = {"stream": self.stream, "consumer": self.consumer, "seq": message["seq"]}
            self.history.write(
                "deliver",
                subject=message["subject"],
                value=message.get("text", ""),
                cseq=message.get("consumer_seq", 0),
                count=message["delivered"],
                since=since,
                **about,
            )
            known[message["token"]] = {"op": self.history.next_op(), "how": "ack", **about}
        for each in known.values():
            self.history.write("ack", "invoke", **each)
        return known

    def confirm(self, known: dict[str, dict[str, Any]], answer: dict[str, Any]) -> None:
        """Record the outcomes of acks in an answer, and remove these acks from `known`."""
        failed = {each["token"] for each in answer["failed"]}
        for token in list(known):
            self.history.write("ack", "unknown" if token in failed else "ok", **known.pop(token))

    def abandon(self, known: dict[str, dict[str, Any]]) -> None:
        """Record the outcome "unknown" for these acknowledgements."""
        for each in known.values():
            self.history.write("ack", "unknown", **each)
        known.clear()


class RestConsumer(HttpConsumer):
    """A client that fetches and acknowledges over HTTP."""

    def connect(self, nats: Address, http: Address) -> None:
        connection = http_client.HTTPConnection(*http, timeout=self.time_limit)
        try:
            connection.connect()
            self.history.conn += 1
            while not self.stopping.is_set() and self._fetch(connection):
                pass
        finally:
            connection.close()
        self.stopping.wait(0.05)

    def _fetch(self, connection: http_client.HTTPConnection) -> bool:
        """Fetch and acknowledge one batch; return False if the node is not ready."""
        since = time.monotonic_ns()
        status, answer = self._ask(connection, "fetch", {"batch": 50, "expires": "1s"})
        if status == 200:
            known = self.record(answer["messages"], since)
            try:
                about = {"tokens": list(known), "sync": True}
                status, answer = self._ask(connection, "ack", about)
                if status == 200:
                    self.confirm(known, answer)
            finally:
                self.abandon(known)
        return status in (200, 204)

    def _ask(
        self, connection: http_client.HTTPConnection, verb: str, body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        path = f"/v1/streams/{self.stream}/consumers/{self.consumer}:{verb}"
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            replies = answer.read()
        except http_client.HTTPException as error:
            raise OSError(str(error)) from error
        return answer.status, json.loads(replies) if answer.status == 200 else {}


class SocketConsumer(HttpConsumer):
    """A client with a durable feed over WebSocket, which acknowledges on the same connection."""

    def connect(self, nats: Address, http: Address) -> None:
        url = f"ws://{http[0]}:{http[1]}/v1/ws"
        open_: dict[int, dict[str, dict[str, Any]]] = {}
        try:
            with connect(url, open_timeout=self.time_limit, close_timeout=1, proxy=None) as ws:
                self.history.conn += 1
                self._follow(ws, open_)
        except WebSocketException as error:
            self.stopping.wait(0.05)
            raise Closed(str(error)) from error
        finally:
            for known in open_.values():
                self.abandon(known)

    def _follow(self, ws: Any, open_: dict[int, dict[str, dict[str, Any]]]) -> None:
        since, number = time.monotonic_ns(), 2
        sub = {"type": "sub", "id": 1, "sid": 1, "stream": self.stream, "consumer": self.consumer}
        ws.send(json.dumps(sub))
        for frame in frames_of(self, ws):
            if frame["type"] == "acked":
                self.confirm(open_.pop(frame["id"]), frame)
            elif frame["type"] in ("error", "ended"):
                raise Closed(json.dumps(frame))
            elif frame["type"] == "msg":
                number += 1
                open_[number] = self.record(frame["messages"], since)
                tokens = list(open_[number])
                ack = {"type": "ack", "id": number, "tokens": tokens, "sync": True}
                ws.send(json.dumps(ack))


def frames_of(client: Client, ws: Any) -> Iterator[dict[str, Any]]:
    """Yield decoded frames of a WebSocket until the client's `stopping` is set.

    Raises TimeoutError if the server does not answer.
    """
    quiet = 0
    while not client.stopping.is_set():
        try:
            told = json.loads(ws.recv(timeout=client.time_limit / 5))
        except TimeoutError:
            quiet += 1
            if quiet > 5:
                raise
            ws.send('{"type": "ping", "id": 2}')
            continue
        quiet = 0
        yield from told if isinstance(told, list) else [told]


class TailReader(Client):
    """A client that reads a stream by server-sent events and resumes after the last event id."""

    stream = "LOG"

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self.last = 0
        self._id = ""

    def work(self, wire: Wire) -> None:
        raise NotImplementedError("it has a connection of another kind")

    def connect(self, nats: Address, http: Address) -> None:
        head = [
            # HTTP/1.0: the server sends the events without chunked encoding, until the end.
            f"GET /v1/streams/{self.stream}/tail?from=all HTTP/1.0",
            f"Host: {http[0]}:{http[1]}",
            *([f"Last-Event-ID: {self._id}"] if self._id else []),
        ]
        try:
            with socket.create_connection(http, timeout=self.time_limit) as sock:
                sock.sendall("\r\n".join([*head, "", ""]).encode())
                self.history.conn += 1
                self._follow(sock)
        finally:
            self.stopping.wait(0.05)

    def _follow(self, sock: socket.socket) -> None:
        replies = self._parts(sock, b"\r\n\r\n")
        status = next(replies, b"").split(b"\r\n")[0]
        if b" 200 " not in status:
            raise Closed(status.decode())
        for part in replies:
            fields = dict(line.split(": ", 1) for line in part.decode().split("\n") if ": " in line)
            if "data" in fields:
                self._receive(fields.get("event", ""), json.loads(fields["data"]))
                self._id = fields.get("id", self._id)

    def _parts(self, sock: socket.socket, end: bytes) -> Iterator[bytes]:
        """Yield the head of the response, then each event. Raises Silence if no data arrives."""
        sock.settimeout(self.time_limit / 5)
        heard, quiet = b"", 0
        while not self.stopping.is_set():
            try:
                data = sock.recv(65536)
            except TimeoutError:
                quiet += 1
                if quiet > 5:
                    raise Silence("no event came for long") from None
                continue
            if not data:
                return
            quiet, heard = 0, heard + data
            while end in heard:
                part, _, heard = heard.partition(end)
                end = b"\n\n"
                yield part

    def _receive(self, kind: str, told: dict[str, Any]) -> None:
        if kind == "end":
            raise Closed(json.dumps(told))
        if kind in ("position", "gap"):
            if not told.get("recovered", True):
                self.history.write("read", "fail", stream=self.stream, text=json.dumps(told))
            return
        self.last = told["seq"]
        self.history.write(
            "read",
            stream=self.stream,
            subject=told["subject"],
            value=told.get("text", ""),
            seq=self.last,
        )
