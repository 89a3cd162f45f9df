"""Reads of a range of a stream by an ephemeral pull consumer, without acknowledgements.

The consumer sequences in the deliveries show whether one was lost.
"""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pyspark_jetstream.nats.errors import Away, Disconnected, NatsError, Refused
from pyspark_jetstream.nats.headers import Status, status_of
from pyspark_jetstream.nats.parser import Columns
from pyspark_jetstream.nats.raw import Raw, from_deliveries, rows_through
from pyspark_jetstream.nats.reading import Api, Limits, NotServed, Part, Range
from pyspark_jetstream.nats.requests import encoded
from pyspark_jetstream.units import NANOS_PER_SECOND

_INACTIVE = 300
"""`inactive_threshold` of the consumer in seconds: the server removes it if the reader stops."""


class OrderedPulls:
    """Reader of a stream by a pull consumer that exists only during `read`."""

    def __init__(self, api: Api, limits: Limits) -> None:
        self._api = api
        self._limits = limits

    def read(self, wanted: Range, policy: dict[str, Any] | None = None) -> Iterator[Part]:
        """Yield the messages of a range, one `Part` for each pull request.

        Args:
            wanted: The range.
            policy: Members of the consumer's configuration that replace the start by sequence; None
                to start at `wanted.first`.

        Raises:
            NotServed: The stream refused the consumer; `max_consumers` may be reached.
            Disconnected: A delivery was lost or the consumer was removed. The caller may read again
                from the end of the last part.
        """
        name = f"spark{secrets.token_hex(8)}"
        pull = _Pull(self._api, wanted, self._create(name, wanted, policy), self._limits)
        try:
            yield from pull.parts()
        finally:
            pull.close()
            with suppress(NatsError):
                self._api.call(f"CONSUMER.DELETE.{wanted.stream}.{name}")

    def _create(self, name: str, wanted: Range, policy: dict[str, Any] | None) -> str:
        config: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE * NANOS_PER_SECOND,
            "headers_only": not wanted.data,
        }
        config |= policy or {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(wanted.first, 1),
        }
        if wanted.filters:
            config["filter_subjects"] = list(wanted.filters)
        body = {"stream_name": wanted.stream, "config": config, "action": "create"}
        try:
            self._api.call(f"CONSUMER.CREATE.{wanted.stream}.{name}", body)
        except Refused as error:
            if error.code == 404 or isinstance(error, Away):
                raise
            raise NotServed(f"{wanted.stream} takes no consumer: {error}") from error
        return name


class _Pull:
    """The pull requests to one consumer, one at a time.

    The next request is sent before the messages of the previous one are yielded.
    """

    def __init__(self, api: Api, wanted: Range, name: str, limits: Limits) -> None:
        self._api = api
        self._wanted = wanted
        self._subject = f"{api.prefix}.CONSUMER.MSG.NEXT.{wanted.stream}.{name}"
        self._inbox = f"{api.connection.settings.inbox_prefix}.{secrets.token_hex(11)}"
        self._limits = limits
        self._sid, self._columns = api.connection.subscribe(f"{self._inbox}.*")
        self._pulls = 0
        self._asked = 0
        self._delivered = 0

    def parts(self) -> Iterator[Part]:
        """Pull and yield parts until the range is complete."""
        wanted, api = self._wanted, self._api
        through = wanted.first - 1
        api.connection.send(self._operation(through))
        while through < wanted.last:
            status = self._collect()
            raw, pending = self._delivered_rows()
            if raw is not None:
                through = raw.last
                raw = rows_through(raw, wanted.last)
            if pending == 0 or (status is not None and status.code == 404) or through > wanted.last:
                through = wanted.last
            more = self._operation(through) if through < wanted.last else b""
            asked, subject = api.info_beside(wanted.stream, more)
            yield Part(raw, through, api.requests.answer(asked, subject))

    def _operation(self, through: int) -> bytes:
        """Return the next pull request, for messages after `through` and not beyond the range."""
        self._pulls += 1
        self._asked = min(self._limits.rows, self._wanted.last - through)
        body = encoded({"batch": self._asked, "max_bytes": self._limits.bytes, "no_wait": True})
        reply = f"{self._inbox}.{self._pulls}"
        return f"PUB {self._subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"

    def _collect(self) -> Status | None:
        """Wait for the end of the current pull.

        Returns the status that ended it, or None if the batch is full.
        """
        connection = self._api.connection
        ended: list[Status] = []

        def over() -> bool:
            status = _drop_statuses(self._columns, f"{self._inbox}.{self._pulls}".encode())
            if status is not None:
                ended.append(status)
            return bool(ended) or len(self._columns) >= self._asked

        connection.wait(over, connection.settings.timeout, f"a pull of {self._wanted.stream}")
        if not ended:
            return None
        status = ended[0]
        if status.code in (404, 408) or "batch completed" in status.text.lower():
            return status
        if "exceeds maxbytes" in status.text.lower():
            if not len(self._columns):
                # A single message exceeds max_bytes: raise the limit
                self._limits = type(self._limits)(self._limits.rows, self._limits.bytes * 4)
            return status
        raise Disconnected(f"{self._wanted.stream}: {status.code} {status.text}")

    def _delivered_rows(self) -> tuple[Raw | None, int | None]:
        """Return the delivered messages and the number pending after them; (None, None) if there
        are none.
        """
        columns = self._columns
        if not len(columns):
            return None, None
        first, last = columns.replies[0].split(b"."), columns.replies[-1].split(b".")
        place = 6 if len(first) == 9 else 8
        if int(first[place]) != self._delivered + 1 or int(last[place]) != self._delivered + len(
            columns
        ):
            raise Disconnected(f"a delivery of {self._wanted.stream} was lost")
        self._delivered += len(columns)
        raw = from_deliveries(
            columns.subjects,
            columns.replies,
            columns.headers,
            columns.payloads,
            with_headers=self._wanted.headers,
            with_data=self._wanted.data,
        )
        columns.clear()
        return raw, int(last[place + 2])

    def close(self) -> None:
        """Unsubscribe, if the connection still works."""
        with suppress(NatsError):
            self._api.connection.unsubscribe(self._sid)


def _drop_statuses(columns: Columns, current: bytes) -> Status | None:
    """Remove statuses from the deliveries; return the one that ends the current pull, if any.

    Statuses of earlier pulls are ignored: their deliveries already showed the end.
    """
    found = None
    while b"" in columns.replies:
        place = columns.replies.index(b"")
        status = status_of(columns.headers[place])
        if columns.subjects[place] == current and status is not None and status.code != 100:
            found = status
        for column in (columns.subjects, columns.replies, columns.headers, columns.payloads):
            del column[place]
    return found
