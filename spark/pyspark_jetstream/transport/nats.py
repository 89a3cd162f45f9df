"""The transport `nats`: reads a stream over the NATS protocol, from any JetStream server.

Ranges are read by batched Direct Get if the stream allows it, else by an ordered pull consumer.
Streams with another retention than limits are read message by message, because a consumer would
change which messages they keep.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream import subjects
from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.nats.direct import DirectGet
from pyspark_jetstream.nats.errors import PASSES, Denied, NatsError
from pyspark_jetstream.nats.gets import WINDOW, Found, Gets, columns
from pyspark_jetstream.nats.pulls import OrderedPulls
from pyspark_jetstream.nats.raw import nanoseconds
from pyspark_jetstream.nats.reading import Api, Behind, Limits, NotServed, Part, Range
from pyspark_jetstream.nats.requests import Requests
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.nats.tries import Tries
from pyspark_jetstream.transport.base import Consumer, Head, Page, Wanted, bound_by_head
from pyspark_jetstream.transport.errors import NotReachable, Refused
from pyspark_jetstream.transport.newest import Newest
from pyspark_jetstream.transport.translate import (
    consumer_of,
    head_of,
    rfc3339,
    rows_of,
    runs,
    translated,
)

_LONG = 20_000
"""Number of sequences from which a consumer is tried before Direct Get."""

_POLL = 0.1
_AGAIN = (*PASSES, Behind)
_T = TypeVar("_T")


class NatsTransport:
    """A `base.Transport` over one NATS connection, opened on first use and again after a failure.

    Args:
        settings: Servers and credentials.
        limits: Size of one request; None for the defaults of `Limits`.
        direct: False to skip Direct Get, for tests of the other ways.
    """

    def __init__(
        self, settings: Settings, limits: Limits | None = None, *, direct: bool = True
    ) -> None:
        self._settings = settings
        self._limits = limits or Limits()
        self._direct = direct
        self._api: Api | None = None
        self._tries = Tries(settings)

    def head(self, stream: str) -> Head:
        """Return the current state of a stream."""
        return head_of(stream, self._call(stream, f"STREAM.INFO.{stream}"))

    def seq_at(self, stream: str, ts: int) -> int:
        """Return the first sequence stored at or after a time; `last_seq + 1` if there is none.

        `ts` is in nanoseconds since the epoch.
        """
        body = {"start_time": rfc3339(ts)}
        try:
            found = self._call(stream, f"STREAM.MSG.GET.{stream}", body)
        except Refused as error:
            if error.code != 404:
                raise
            return self.head(stream).last_seq + 1
        return int(found["message"]["seq"])

    def bound(
        self,
        stream: str,
        after: int,
        last: int,
        filters: tuple[str, ...],
        rows: int | None,
        size: int | None,
    ) -> int:
        """Return the last sequence of a limited batch, estimated from the state of the stream.

        With filters, the estimate begins at the first matching message, so the batch is not empty.
        The arguments are those of `Transport.bound`.
        """
        head = self.head(stream)
        if filters:
            found = [self._next(stream, after + 1, one) for one in filters]
            first = min((int(one["seq"]) for one in found if one is not None), default=last + 1)
            if first > last:
                return last
            after = first - 1
        return bound_by_head(head, after, last, rows, size)

    def _next(self, stream: str, seq: int, filter_: str) -> dict[str, Any] | None:
        """Return the first message from a sequence on that matches a filter; None if there is
        none.
        """
        body = {"seq": max(1, seq), "next_by_subj": filter_}
        try:
            found = self._call(stream, f"STREAM.MSG.GET.{stream}", body)
        except Refused as error:
            if error.code != 404:
                raise
            return None
        return dict(found["message"])

    def pages(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the messages in a range of sequences; the arguments are those of `Transport.pages`.

        After a transient failure it continues on a new connection, after the last page.
        """
        filters = () if ">" in filters else filters
        at = max(first, 1)
        while at <= last:
            try:
                self._await_last(stream, last)
                whole = Range(stream, at, last, filters, wanted.headers, wanted.data)
                for part in self._parts(whole):
                    page = Page(head_of(stream, part.info), rows_of(part.raw), part.through)
                    at = part.through + 1
                    self._tries.restart()
                    yield page
            except _AGAIN as error:
                self._again(error)
            except NatsError as error:
                raise translated(error, stream, self._where) from error

    def _parts(self, wanted: Range) -> Iterator[Part]:
        """Yield the range by the first way of reading that works; after a refusal the next one
        continues.
        """
        at = wanted.first
        failure: NatsError = NotServed(f"there is no way to read {wanted.stream}")
        for way in self._ways(wanted):
            rest = replace(wanted, first=at)
            try:
                for part in way(rest):
                    at = part.through + 1
                    yield part
                return
            except (NotServed, Denied) as error:
                failure = error
        raise failure

    def _ways(self, wanted: Range) -> list[Callable[[Range], Iterator[Part]]]:
        """Return the methods that can read the stream, cheapest first."""
        api = self._connected()
        config = api.info(wanted.stream)["config"]
        gets, pulls, direct = (
            Gets(api),
            OrderedPulls(api, self._limits),
            DirectGet(api, self._limits),
        )
        ways: list[Callable[[Range], Iterator[Part]]] = []
        if self._direct and (config.get("allow_direct") or config.get("mirror_direct")):
            ways.append(direct.read)
        # With another retention, a consumer would make the stream keep or remove messages.
        if config.get("retention") == "limits":
            # A consumer takes milliseconds to create; its deliveries cost the server half as much
            # as Direct Get.
            ways.insert(0 if wanted.last - wanted.first >= _LONG else len(ways), pulls.read)
        ways.append(lambda rest: gets.read(rest, lambda name: subjects.matches(rest.filters, name)))
        return ways

    def _await_last(self, stream: str, last: int) -> None:
        """Wait until the server's last sequence is at least `last`. Raises NotReachable on
        timeout.
        """
        deadline = Deadline(self._settings.timeout)
        while (found := head_of(stream, self._connected().info(stream)).last_seq) < last:
            if deadline.passed():
                raise NotReachable(
                    f"stream {stream!r} is at sequence {found} at {self._where}, the read goes to "
                    f"{last}: a server that lags behind, or one that lost its end"
                )
            pause(_POLL)

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Yield the messages with the given sequences, without those that are not stored."""
        for run in runs(seqs):
            if len(run) > 1:
                chosen = pa.array(run, pa.int64())
                for page in self.pages(stream, run[0], run[-1], (), wanted):
                    mask = pc.is_in(page.rows.column("seq"), chosen)
                    yield Page(page.head, page.rows.filter(mask), page.through)
        single = [run[0] for run in runs(seqs) if len(run) == 1]
        for begin in range(0, len(single), WINDOW):
            yield self._singles(stream, single[begin : begin + WINDOW], wanted)

    def _singles(self, stream: str, seqs: list[int], wanted: Wanted) -> Page:
        def ask(api: Api) -> Page:
            found = Gets(api).points(stream, seqs)
            whole = Range(stream, seqs[0], seqs[-1], (), wanted.headers, wanted.data)
            raw = columns(found, whole) if found else None
            return Page(head_of(stream, api.info(stream)), rows_of(raw), seqs[-1])

        return self._retried(stream, ask)

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the last message of each subject up to a sequence; see `Transport.last_by_subject`.

        One request reads up to 1024 subjects in one consistent state of the stream. For more
        subjects, the method first reads the sequences of all messages. With `up_to`, messages that
        are replaced in between are left out. Without it, the leader lists the subjects, and missing
        ones are read by name, so no subject that exists throughout the read is left out.
        """
        head = self.head(stream)
        if up_to is None and filters and all(map(subjects.is_literal, filters)):
            yield from self._by_name(stream, head, filters, wanted)
            return
        end = head.last_seq if up_to is None else min(up_to, head.last_seq)
        seen: set[str] = set()
        if end >= 1:
            limit = None if up_to is None else end
            pages = self._retried(
                stream, lambda api: self._newest(api, stream, filters, limit, wanted)
            )
            for rows in self._scanned(stream, filters, end, wanted) if pages is None else pages:
                names = rows.column("subject").to_pylist()
                fresh = pa.array([name not in seen for name in names], pa.bool_())
                seen.update(names)
                yield Page(head, rows.filter(fresh), end)
        if up_to is None:
            rest = self._subjects(stream, filters) - seen
            yield from self._by_name(stream, head, sorted(rest), wanted)

    def _newest(
        self,
        api: Api,
        stream: str,
        filters: tuple[str, ...],
        up_to: int | None,
        wanted: Wanted,
    ) -> list[pa.RecordBatch] | None:
        """Read the messages by Direct Get; None if it is not available, or for too many
        subjects.
        """
        if not self._direct or not api.info(stream)["config"].get("allow_direct"):
            return None
        whole = Range(stream, 1, 0, filters, wanted.headers, wanted.data)
        found = []
        try:
            for raw, many in DirectGet(api, self._limits).last(whole, filters or (">",), up_to):
                if many:
                    return None
                if raw is not None:
                    found.append(rows_of(raw))
        except NotServed:
            return None
        return found

    def _scanned(
        self, stream: str, filters: tuple[str, ...], end: int, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """Yield the last message of each subject, found by reading all sequences up to `end`."""
        newest = Newest()
        for page in self.pages(stream, 1, end, filters, Wanted(headers=False, data=False)):
            newest.add(page.rows)
        rows = newest.rows()
        if not wanted.headers and not wanted.data:
            yield from rows.to_batches()
            return
        for page in self.points(stream, rows.column("seq").to_pylist(), wanted):
            yield page.rows

    def _subjects(self, stream: str, filters: tuple[str, ...]) -> set[str]:
        """Return the current subjects of the stream, from its leader."""
        found: set[str] = set()
        for one in filters or (">",):
            offset, total = 0, 1
            while offset < total:
                body = {"subjects_filter": one, "offset": offset}
                answer = self._call(stream, f"STREAM.INFO.{stream}", body)
                some = answer["state"].get("subjects") or {}
                found.update(some)
                offset += len(some)
                total = int(answer.get("total", 0)) if some else 0
        return found

    def _by_name(
        self, stream: str, head: Head, names: Sequence[str], wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the last message of each subject, each found and read in one step."""
        whole = Range(stream, 1, 0, (), wanted.headers, wanted.data)
        for begin in range(0, len(names), WINDOW):
            some = names[begin : begin + WINDOW]

            def ask(api: Api, some: Sequence[str] = some) -> list[Found]:
                return Gets(api).newest(stream, some)

            found = self._retried(stream, ask)
            if found:
                found.sort(key=lambda message: int(message["seq"]))
                yield Page(head, rows_of(columns(found, whole)), head.last_seq)

    def stored_at(self, stream: str, seq: int) -> int | None:
        """Return the time of the first message at or after a sequence; None if there is none.

        The time is in nanoseconds since the epoch.
        """
        found = self._next(stream, seq, ">")
        return None if found is None else nanoseconds(found["time"])

    def consumers(self, stream: str) -> list[Consumer]:
        """Return the state of the stream's consumers, sorted by name."""
        found: list[Consumer] = []
        last_seq = self.head(stream).last_seq
        while True:
            answer = self._call(stream, f"CONSUMER.LIST.{stream}", {"offset": len(found)})
            some = answer.get("consumers") or []
            found += [consumer_of(info, last_seq) for info in some]
            if not some or len(found) >= int(answer.get("total", 0)):
                return sorted(found, key=lambda one: one.name)

    def may_lag(self) -> bool:
        """Return False: the leader of a stream answers STREAM.INFO, so its state is current."""
        return False

    def close(self) -> None:
        """Close the connection, if it is open."""
        api, self._api = self._api, None
        if api is not None:
            api.connection.close()

    @property
    def _where(self) -> str:
        return self._api.connection.server if self._api else ", ".join(self._settings.servers)

    def _connected(self) -> Api:
        if self._api is None:
            self._api = Api(Requests(Connection(self._settings, self._tries.left())))
        return self._api

    def _call(self, stream: str, subject: str, body: dict[str, Any] | None = None) -> Any:
        return self._retried(stream, lambda api: api.call(subject, body))

    def _retried(self, stream: str, ask: Callable[[Api], _T]) -> _T:
        """Call `ask`; retry transient failures on a new connection. Raises JetStreamError for
        others.
        """
        while True:
            try:
                found = ask(self._connected())
            except _AGAIN as error:
                self._again(error)
            except NatsError as error:
                raise translated(error, stream, self._where) from error
            else:
                self._tries.restart()
                return found

    def _again(self, error: NatsError) -> None:
        """Close the connection and pause before a retry. Raises NotReachable if attempts are
        exhausted.
        """
        self.close()
        if not self._tries.again():
            tries = self._tries.failed
            self._tries.restart()
            raise NotReachable(f"given up after {tries} tries: {error}") from error
