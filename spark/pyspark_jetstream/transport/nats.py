"""The transport `nats`: pages of a stream over the official protocol, from any JetStream server.

Ranges are read by batches of Direct Get where the stream allows it, else by an ordered consumer,
else (work queues and the like, which a reader must not touch) message by message.
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
"""Sequences of a range for which a consumer is made first."""

_POLL = 0.1
_AGAIN = (*PASSES, Behind)
_T = TypeVar("_T")


class NatsTransport:
    """Reads streams over one connection, which is made when needed and made again when it breaks.

    Args:
        settings: Servers and secrets.
        limits: How much is asked for at once.
        direct: Whether Direct Get is tried first; a test of the other ways says no.
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
        """What the stream holds now."""
        return head_of(stream, self._call(stream, f"STREAM.INFO.{stream}"))

    def seq_at(self, stream: str, ts: int) -> int:
        """First sequence stored at or after a time in ns; `last_seq + 1` if there is none."""
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
        """The end of a batch that begins behind `after`, estimated from the head.

        With filters it begins before the first message that matches, so no batch is empty.
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
        """The first message from a sequence on that matches a filter; None without one."""
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
        """The messages from `first` to `last`, page by page (see `Transport`)."""
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
        """The range by the first of the ways that is open; another one goes on where one ends."""
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
        """How the stream may be read, the cheapest way first."""
        api = self._opened()
        config = api.info(wanted.stream)["config"]
        gets, pulls, direct = (
            Gets(api),
            OrderedPulls(api, self._limits),
            DirectGet(api, self._limits),
        )
        ways: list[Callable[[Range], Iterator[Part]]] = []
        if self._direct and (config.get("allow_direct") or config.get("mirror_direct")):
            ways.append(direct.read)
        # A consumer would make a stream of another retention keep or remove messages for it.
        if config.get("retention") == "limits":
            # Deliveries cost a server half of what Direct Get does, a consumer some milliseconds.
            ways.insert(0 if wanted.last - wanted.first >= _LONG else len(ways), pulls.read)
        ways.append(lambda rest: gets.read(rest, lambda name: subjects.matches(rest.filters, name)))
        return ways

    def _await_last(self, stream: str, last: int) -> None:
        """Wait until the server knows a sequence that was given out before."""
        deadline = Deadline(self._settings.timeout)
        while (found := head_of(stream, self._opened().info(stream)).last_seq) < last:
            if deadline.passed():
                raise NotReachable(
                    f"stream {stream!r} is at sequence {found} at {self._where}, the read goes to "
                    f"{last}: a server that lags behind, or one that lost its end"
                )
            pause(_POLL)

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Single messages by ascending sequence; those that are not there are left out."""
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
        """The last message of each subject, among those up to a sequence (see `Transport`).

        Up to 1024 subjects are one state of the stream, by one request. Of more subjects the
        sequences are collected first, and what is replaced meanwhile is left out where `up_to` is
        given. Where it is not, the leader is asked which subjects there are, and those that were
        not met are looked for by name: none that is there all the time is left out.
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
        """The same by Direct Get; None where that is not served or there are too many subjects."""
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
        """The same by reading all subjects up to `end`."""
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
        """The subjects that the stream has now, as its leader says."""
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
        """The last messages of subjects, each found and read in one state of the stream."""
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
        """When the first message at or behind a sequence was stored, in ns; None without one."""
        found = self._next(stream, seq, ">")
        return None if found is None else nanoseconds(found["time"])

    def consumers(self, stream: str) -> list[Consumer]:
        """The stream's consumers, by name."""
        found: list[Consumer] = []
        last_seq = self.head(stream).last_seq
        while True:
            answer = self._call(stream, f"CONSUMER.LIST.{stream}", {"offset": len(found)})
            some = answer.get("consumers") or []
            found += [consumer_of(info, last_seq) for info in some]
            if not some or len(found) >= int(answer.get("total", 0)):
                return sorted(found, key=lambda one: one.name)

    def may_lag(self) -> bool:
        """Never: the leader of a stream answers STREAM.INFO."""
        return False

    def close(self) -> None:
        """Close the connection."""
        api, self._api = self._api, None
        if api is not None:
            api.connection.close()

    @property
    def _where(self) -> str:
        return self._api.connection.server if self._api else ", ".join(self._settings.servers)

    def _opened(self) -> Api:
        if self._api is None:
            self._api = Api(Requests(Connection(self._settings, self._tries.left())))
        return self._api

    def _call(self, stream: str, subject: str, body: dict[str, Any] | None = None) -> Any:
        return self._retried(stream, lambda api: api.call(subject, body))

    def _retried(self, stream: str, ask: Callable[[Api], _T]) -> _T:
        """Ask, on a new connection where the old one broke; failures in the transport's terms."""
        while True:
            try:
                found = ask(self._opened())
            except _AGAIN as error:
                self._again(error)
            except NatsError as error:
                raise translated(error, stream, self._where) from error
            else:
                self._tries.restart()
                return found

    def _again(self, error: NatsError) -> None:
        """Prepare another try. Raises NotReachable when there were enough."""
        self.close()
        if not self._tries.again():
            tries = self._tries.failed
            self._tries.restart()
            raise NotReachable(f"given up after {tries} tries: {error}") from error
