"""A durable pull consumer of a work queue: pull messages, acknowledge progress, acknowledge."""

import secrets
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pyspark_jetstream.nats.errors import Disconnected, Refused
from pyspark_jetstream.nats.headers import status_of
from pyspark_jetstream.nats.reading import Api
from pyspark_jetstream.units import NANOS_PER_SECOND

_ACKS = 1024
"""Number of acks that are sent before the client waits for their confirmations."""
_PULL_BYTES = 4 << 20
_NOT_FOUND = 10014

Delivery = tuple[int, int]
"""Stream sequence and consumer sequence of one message."""


class WorkQueue:
    """One durable pull consumer, used over one connection.

    Args:
        api: JetStream's API over the connection.
        stream, consumer: Names of the stream and the consumer.
    """

    def __init__(self, api: Api, stream: str, consumer: str) -> None:
        self._api = api
        self._stream = stream
        self._consumer = consumer
        self._inbox = f"{api.connection.settings.inbox_prefix}.{secrets.token_hex(11)}"
        self._sid, self._columns = api.connection.subscribe(f"{self._inbox}.*")
        self._pulls = 0
        self.prefix = ""
        """Start of all ack subjects up to the consumer's name; "" before the first delivery."""

    def info(self) -> dict[str, Any] | None:
        """Return the response of CONSUMER.INFO; None if the consumer does not exist."""
        try:
            return dict(self._api.call(f"CONSUMER.INFO.{self._stream}.{self._consumer}"))
        except Refused as error:
            if error.err_code != _NOT_FOUND:
                raise
            return None

    def create(self, filters: tuple[str, ...], ack_wait: float, max_pending: int) -> None:
        """Create the durable consumer, with explicit acks and all messages of the stream.

        Args:
            filters: Filter subjects; empty for all.
            ack_wait: Seconds after which an unacknowledged message is redelivered.
            max_pending: Largest number of unacknowledged messages (`max_ack_pending`).
        """
        config: dict[str, Any] = {
            "durable_name": self._consumer,
            "name": self._consumer,
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait * NANOS_PER_SECOND),
            "max_ack_pending": max_pending,
        }
        if filters:
            config["filter_subjects"] = list(filters)
        body = {"stream_name": self._stream, "config": config, "action": "create"}
        self._api.call(f"CONSUMER.CREATE.{self._stream}.{self._consumer}", body)

    def pull(self, most: int) -> list[Delivery]:
        """Pull the messages that the consumer can deliver now, at most `most`.

        Returns the sequences of each; payloads are dropped.
        """
        found: list[Delivery] = []
        while len(found) < most:
            some = self._pull(most - len(found))
            found += some
            if not some:
                break
        return found

    def _pull(self, most: int) -> list[Delivery]:
        self._pulls += 1
        reply = f"{self._inbox}.{self._pulls}"
        body = b'{"batch":%d,"max_bytes":%d,"no_wait":true}' % (most, _PULL_BYTES)
        subject = f"{self._api.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._api.connection.send(
            f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"
        )
        found: list[Delivery] = []
        ended: list[str] = []

        def over() -> bool:
            columns = self._columns
            parts = zip(columns.subjects, columns.replies, columns.headers, strict=True)
            for name, ack, block in parts:
                if ack:
                    found.append(self._delivery(ack))
                elif name == reply.encode() and (status := status_of(block)):
                    if status.code not in (404, 408, 409) or "deleted" in status.text.lower():
                        raise Disconnected(f"{self._consumer}: {status.code} {status.text}")
                    ended.append(status.text)
            columns.clear()
            return bool(ended) or len(found) >= most

        connection = self._api.connection
        connection.wait(over, connection.settings.timeout, f"a pull of {self._consumer}")
        return found

    def _delivery(self, ack: bytes) -> Delivery:
        words = ack.split(b".")
        place = 4 if len(words) == 9 else 6
        self.prefix = b".".join(words[:place]).decode()
        return int(words[place + 1]), int(words[place + 2])

    def acknowledge(self, subjects: Iterable[str]) -> None:
        """Acknowledge messages by their ack subjects; wait until the server has confirmed all."""
        requests = self._api.requests
        waiting = iter(subjects)
        while some := list(islice(waiting, _ACKS)):
            asked = [requests.operation(subject, b"+ACK") for subject in some]
            self._api.connection.send(b"".join(line for _, line in asked))
            for (token, _), subject in zip(asked, some, strict=True):
                requests.first(token, subject)

    def in_progress(self, subjects: Iterator[str]) -> None:
        """Send +WPI (in progress) to ack subjects, which restarts `ack_wait` of the messages.

        Returns after the server has received all of them.
        """
        lines = (f"PUB {subject} 4\r\n+WPI\r\n".encode() for subject in subjects)
        while some := b"".join(islice(lines, _ACKS)):
            self._api.connection.send(some)
        self._api.connection.flush()
