"""Reads of a stream by batched Direct Get: ranges of sequences, or newest messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.nats.errors import Disconnected, Refused, Timeout
from pyspark_jetstream.nats.headers import Status, status_of
from pyspark_jetstream.nats.raw import Raw, from_direct, rows_through
from pyspark_jetstream.nats.reading import Api, Behind, Limits, NotServed, Part, Range
from pyspark_jetstream.nats.requests import encoded

_BEHIND_PAUSE = 0.05
_SILENCE = 2.0
"""Seconds without data after which the client sends a probe, in case the request was dropped."""
_BEYOND = 2**62
"""A sequence that no stream contains, for probes."""
_STATE_BYTES = 64 << 20
TOO_MANY = 413


@dataclass(frozen=True, slots=True)
class Batch:
    """The answer to one batched Direct Get: messages (None if there are none) and final status."""

    raw: Raw | None
    end: Status

    @property
    def complete(self) -> bool:
        """True if no later message matches the request, as far as the answering replica knows."""
        return self.end.code == 404 or self.end.headers.get("Nats-Num-Pending") == "0"


class DirectGet:
    """Reader of a stream with `allow_direct`; it requests one batch ahead of its caller."""

    def __init__(self, api: Api, limits: Limits) -> None:
        self._api = api
        self._limits = limits

    def read(self, wanted: Range) -> Iterator[Part]:
        """Yield the messages of a range, one `Part` for each batch that the server returns.

        Raises:
            NotServed: The stream has no Direct Get, there are several filters, or a mirror answers
                instead of the stream, which may lack messages of the stream.
            Behind: The answering replica lacks a message of the leader for longer than the timeout.
        """
        if len(wanted.filters) > 1:
            raise NotServed("Direct Get takes one filter")
        api = self._api
        at = wanted.first
        token, line = self._operation(wanted, at)
        api.connection.send(line)
        while True:
            batch = self._collect(token, wanted)
            raw = batch.raw and rows_through(batch.raw, wanted.last)
            through = self._through(batch, wanted, at)
            at = through + 1
            more = at <= wanted.last
            if more:
                token, line = self._operation(wanted, at)
            asked, subject = api.info_beside(wanted.stream, line if more else b"")
            yield Part(raw, through, api.requests.answer(asked, subject))
            if not more:
                return

    def _operation(self, wanted: Range, at: int) -> tuple[bytes, bytes]:
        body: dict[str, Any] = {
            "seq": at,
            "batch": min(self._limits.rows, wanted.last - at + 1),
            "max_bytes": self._limits.bytes,
        }
        if wanted.filters:
            body["next_by_subj"] = wanted.filters[0]
        return self._request(wanted.stream, body)

    def _request(self, stream: str, body: dict[str, Any]) -> tuple[bytes, bytes]:
        subject = f"{self._api.prefix}.DIRECT.GET.{stream}"
        return self._api.requests.operation(subject, encoded(body))

    def _collect(self, token: bytes, wanted: Range) -> Batch:
        """Wait for the whole answer to a request."""
        requests = self._api.requests
        self._await(wanted.stream, token)
        columns = requests.columns(token)
        requests.done(token)
        end = status_of(columns.headers.pop())
        columns.payloads.pop()
        assert end is not None
        if end.code == 503:
            raise NotServed(f"{wanted.stream} has no Direct Get")
        if end.code not in (204, 404, TOO_MANY):
            raise Refused(end.code, 0, f"Direct Get of {wanted.stream}: {end.text}")
        if not columns.headers:
            return Batch(None, end)
        raw = from_direct(
            columns.headers, columns.payloads, with_headers=wanted.headers, with_data=wanted.data
        )
        if raw.streams != {wanted.stream.encode()}:
            raise NotServed(f"a mirror answers Direct Get of {wanted.stream}")
        return Batch(raw, end)

    def _await(self, stream: str, token: bytes) -> None:
        """Wait for the status that ends the answer to a request.

        A server without storage drops the requests that arrive meanwhile. It answers the requests
        of one connection in order. So after `_SILENCE` the client sends a probe for a sequence that
        no stream contains. An answer to the probe proves that the server dropped the request.
        Without such an answer, the server is still searching.

        Raises:
            Disconnected: The server dropped the request.
            Timeout: No data arrived within the timeout of the settings.
        """
        requests, connection = self._api.requests, self._api.connection
        what, timeout = f"Direct Get of {stream}", connection.settings.timeout
        deadline = Deadline(timeout)
        asked: list[bytes] = []

        def over(one: bytes) -> bool:
            blocks = requests.columns(one).headers
            return bool(blocks) and status_of(blocks[-1]) is not None

        while not over(token):
            silence = min(_SILENCE, deadline.left())
            before = len(requests.columns(token).headers)
            try:
                connection.wait(lambda: over(token) or any(map(over, asked)), silence, what)
            except Timeout:
                if len(requests.columns(token).headers) > before:
                    deadline = Deadline(timeout)
                if deadline.passed():
                    told = f"{connection.server} did not answer {what} within {timeout:g} s"
                    raise Timeout(told) from None
                probe, line = self._request(stream, {"seq": _BEYOND, "batch": 1})
                asked.append(probe)
                connection.send(line)
            else:
                if not over(token):
                    raise Disconnected(f"{connection.server} has dropped a {what}")
        for one in asked:
            requests.done(one)

    def _through(self, batch: Batch, wanted: Range, at: int) -> int:
        """Return the last sequence up to which the batch from sequence `at` on is complete.

        If the batch seems to end the range, the leader is asked, because another replica may have
        answered.
        """
        reached = at - 1 if batch.raw is None else min(batch.raw.last, wanted.last)
        if reached == wanted.last or not batch.complete:
            return reached
        missing = self._next_at_leader(wanted, reached + 1)
        if missing is None or missing > wanted.last:
            return wanted.last
        if batch.raw is None:
            self._wait_for(wanted, missing)
        return reached

    def _wait_for(self, wanted: Range, sequence: int) -> None:
        """Wait until Direct Get finds a message that the leader has, or the leader has removed
        it.
        """
        deadline = Deadline(self._api.connection.settings.timeout)
        one = Range(wanted.stream, sequence, sequence)
        while True:
            token, line = self._request(wanted.stream, {"seq": sequence, "batch": 1})
            self._api.connection.send(line)
            if self._collect(token, one).raw is not None:
                return
            if self._next_at_leader(wanted, sequence) != sequence:
                return
            if deadline.passed():
                raise Behind(
                    f"Direct Get of {wanted.stream} does not find sequence {sequence}, which the "
                    "leader has: the replica that answers is behind"
                )
            pause(_BEHIND_PAUSE)

    def _next_at_leader(self, wanted: Range, sequence: int) -> int | None:
        """Ask the leader for the first matching sequence from `sequence` on; None if there is
        none.
        """
        body = {"seq": sequence, "next_by_subj": (wanted.filters or (">",))[0]}
        try:
            found = self._api.call(f"STREAM.MSG.GET.{wanted.stream}", body)
        except Refused as error:
            if error.code != 404:
                raise
            return None
        return int(found["message"]["seq"])

    def last(
        self, wanted: Range, filters: Sequence[str], up_to: int | None
    ) -> Iterator[tuple[Raw | None, bool]]:
        """Yield the newest message of each matching subject, by ascending sequence.

        Each item is a tuple of the messages and a flag. The flag is True if more than 1024 subjects
        match, the limit of one request; the messages are None then. One request reads one
        consistent state of the stream. More than 64 MiB take several requests. A message that is
        replaced between two requests is left out if `up_to` is set; without `up_to`, its
        replacement follows.

        Args:
            wanted: The stream, and the parts of messages to read.
            filters: Subject filters.
            up_to: Last sequence of the state to read; None for the current state.
        """
        at = 1
        while True:
            body: dict[str, Any] = {
                "multi_last": list(filters),
                "seq": at,
                "batch": 1024,
                "max_bytes": _STATE_BYTES,
            }
            if up_to is not None:
                body["up_to_seq"] = up_to
            token, line = self._request(wanted.stream, body)
            self._api.connection.send(line)
            batch = self._collect(token, wanted)
            yield batch.raw, batch.end.code == TOO_MANY
            if batch.raw is None or batch.complete:
                return
            at = batch.raw.last + 1
