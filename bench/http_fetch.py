"""The load of fetches over HTTP: as JSON with acknowledgements, or as NDJSON without."""

import gc
import re
import select
import time
from dataclasses import dataclass

from bench.http_wire import HttpConnection, http_address, is_whole, json_request
from bench.load import Measure, fill, processor_of
from bench.peers import Peer
from bench.wire import CHUNK, Connection, LoadError

BATCH = 500
LINES = 1000
FETCHERS = 4
_TOKEN = re.compile(rb'"token":"([A-Za-z0-9_-]+)"')


@dataclass(slots=True)
class Fetch:
    """Fetch stored messages over four connections, as acknowledged batches of 500 or as `lines`.

    Lines are NDJSON, 1,000 per answer, each with its ack token, and are not acknowledged. `server`
    is the processor time of the server per message, in microseconds.
    """

    count: int
    lines: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        name = f"FETCH{run}"
        fill(peer, name, count, 100)
        connection = Connection(peer.address)
        config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1}
        connection.api(f"CONSUMER.CREATE.{name}.C", {"stream_name": name, "config": config})
        gc.disable()
        try:
            used = processor_of(peer)
            seconds = self._run(peer, name, count)
            used = processor_of(peer) - used
        finally:
            gc.enable()
        connection.flush()
        info = connection.api(f"CONSUMER.INFO.{name}.C")
        assert info["num_ack_pending"] == (count if self.lines else 0), info
        connection.close()
        return {"rate": count / seconds, "server": used / count}

    def _run(self, peer: Peer, name: str, count: int) -> float:
        path = f"/v1/streams/{name}/consumers/C"
        wanted = b'{"batch":%d,"no_wait":true}' % (LINES if self.lines else BATCH)
        accept = "application/x-ndjson" if self.lines else "application/json"
        fetch = json_request("POST", f"{path}:fetch", wanted, Accept=accept)
        poll = select.epoll()
        fetchers: dict[int, _Fetcher] = {}
        start = time.perf_counter()
        for _ in range(FETCHERS):
            fetcher = _Fetcher(HttpConnection(http_address(peer)), fetch, f"{path}:ack")
            fetcher.acks = not self.lines
            fetchers[fetcher.connection.sock.fileno()] = fetcher
            poll.register(fetcher.connection.sock.fileno(), select.EPOLLIN)
            fetcher.connection.send(fetch)
        while sum(one.done for one in fetchers.values()) < count:
            events = poll.poll(20)
            if not events:
                raise LoadError(f"{[one.done for one in fetchers.values()]} of {count}")
            for fd, _ in events:
                fetchers[fd].read()
        seconds = time.perf_counter() - start
        poll.close()
        for one in fetchers.values():
            one.connection.close()
        return seconds


class _Fetcher:
    """A connection that fetches a batch, acknowledges it, and then fetches the next one."""

    def __init__(self, connection: HttpConnection, fetch: bytes, ack_path: str) -> None:
        self.connection = connection
        self.done = 0
        self.acks = True
        self._fetch = fetch
        self._ack_path = ack_path
        self._answer = b""
        self._acked = 0

    def read(self) -> None:
        """Read the available bytes; when the answer is complete, send the next request."""
        data = self.connection.sock.recv(CHUNK)
        self._answer += data
        if not data or not self._answer.startswith(b"HTTP/1.1 2"):
            raise LoadError(f"answered {self._answer[:300]!r}")
        if not is_whole(self._answer):
            return
        answer, self._answer = self._answer, b""
        if not self.acks:
            self.done += answer.count(b'"token":"')
        elif self._acked:
            if b'"failed":[]' not in answer:
                raise LoadError(f"answered {answer[:300]!r}")
            self.done, self._acked = self.done + self._acked, 0
        elif tokens := _TOKEN.findall(answer):
            self._acked = len(tokens)
            body = b'{"tokens":["%s"]}' % b'","'.join(tokens)
            self.connection.send(json_request("POST", self._ack_path, body))
            return
        self.connection.send(self._fetch)
