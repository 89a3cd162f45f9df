"""A small HTTP client over `http.client`, and a raw one for what no client would send."""

import contextlib
import http.client
import json
import socket
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Address = tuple[str, int]


@dataclass(frozen=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines() if line]

    @property
    def kind(self) -> str:
        """What a problem calls itself."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json()
        assert problem["status"] == self.status
        return str(problem["type"]).rpartition(":")[2]


class Web:
    """One address; a new connection for each request."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, names(headers))

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def json(self, method: str, path: str, value: object, **headers: str) -> Answer:
        all_headers = {"Content-Type": "application/json"} | names(headers)
        return self.send(method, path, json.dumps(value).encode(), all_headers)

    def publish(self, subject: str, body: bytes, **headers: str) -> Answer:
        path = f"/v1/subjects/{quote(subject, safe='')}"
        return self.send("POST", path, body, names(headers))

    def later(self, send: Callable[[], Answer]) -> Callable[[], Answer]:
        """Send in the background; what is returned waits for the answer."""
        answers: list[Answer] = []
        thread = threading.Thread(target=lambda: answers.append(send()))
        thread.start()

        def answer() -> Answer:
            thread.join(60)
            return answers[0]

        return answer

    def lines(self, body: bytes, **headers: str) -> Answer:
        all_headers = {"Content-Type": "application/x-ndjson"} | names(headers)
        return self.send("POST", "/v1/publish", body, all_headers)

    def raw(self, data: bytes, *, seconds: float = 30.0) -> bytes:
        """Send bytes as they are and read until the server closes or is done answering.

        `seconds` bound the reading alone: that many bytes need their time to be taken.
        """
        with socket.create_connection(self.address, timeout=30) as sock:
            with contextlib.suppress(ConnectionError):  # it may answer, and close, before the end
                sock.sendall(data)
            sock.settimeout(seconds)
            received = b""
            try:
                while chunk := sock.recv(65536):
                    received += chunk
                    if _is_whole(received):
                        break
            except (TimeoutError, ConnectionResetError):
                pass
            return received


def basic(user: str, password: str) -> str:
    """The value of Authorization for a user."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def names(headers: dict[str, str]) -> dict[str, str]:
    """Headers given as keyword arguments: `If_Match` becomes `If-Match`."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _is_whole(received: bytes) -> bool:
    head, blank, body = received.partition(b"\r\n\r\n")
    if not blank:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return head.startswith(b"HTTP/1.1 204") or head.startswith(b"HTTP/1.1 304")
