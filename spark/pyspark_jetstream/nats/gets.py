"""Reads of a stream message by message with STREAM.MSG.GET.

They are for streams without Direct Get that also refuse a consumer.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pyspark_jetstream.nats.errors import Refused
from pyspark_jetstream.nats.raw import Raw, nanoseconds
from pyspark_jetstream.nats.reading import Api, Part, Range
from pyspark_jetstream.nats.requests import encoded

WINDOW = 256
"""Largest number of requests that are sent before their answers are read."""

Found = dict[str, Any]


class Gets:
    """Reader of single messages by STREAM.MSG.GET, which the leader of every stream answers."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def read(self, wanted: Range, matches: Callable[[str], bool]) -> Iterator[Part]:
        """Yield the messages of a range, one `Part` for each 256 sequences.

        If all sequences of a part are missing, one request finds the next message.

        Args:
            wanted: The range.
            matches: Returns True if a subject is to be read.
        """
        at = wanted.first
        while at <= wanted.last:
            through = min(at + WINDOW - 1, wanted.last)
            found = self.points(wanted.stream, range(at, through + 1))
            if not found:
                after = self._next(wanted, through + 1)
                through = min(wanted.last, (after or wanted.last + 1) - 1)
            chosen = [message for message in found if matches(message["subject"])]
            raw = columns(chosen, wanted) if chosen else None
            yield Part(raw, through, self._api.info(wanted.stream))
            at = through + 1

    def points(self, stream: str, sequences: range | list[int]) -> list[Found]:
        """Return the messages with the given sequences (at most 256), in this order.

        Sequences that are not stored are left out.
        """
        return self._ask(stream, [{"seq": max(1, seq)} for seq in sequences])

    def newest(self, stream: str, subjects: Sequence[str]) -> list[Found]:
        """Return the newest message of each subject, for at most 256 subjects.

        Subjects without messages are left out. The server finds and reads each message in one step.
        """
        return self._ask(stream, [{"last_by_subj": subject} for subject in subjects])

    def _ask(self, stream: str, bodies: list[dict[str, Any]]) -> list[Found]:
        requests = self._api.requests
        subject = f"{self._api.prefix}.STREAM.MSG.GET.{stream}"
        asked = [requests.operation(subject, encoded(body)) for body in bodies]
        self._api.connection.send(b"".join(line for _, line in asked))
        found = []
        for token, _ in asked:
            try:
                found.append(requests.answer(token, subject)["message"])
            except Refused as error:
                if error.code != 404:
                    raise
        return found

    def _next(self, wanted: Range, sequence: int) -> int | None:
        """Return the first stored sequence from `sequence` on; None if there is none."""
        body = {"seq": max(1, sequence), "next_by_subj": ">"}
        try:
            answer = self._api.call(f"STREAM.MSG.GET.{wanted.stream}", body)
        except Refused as error:
            if error.code != 404:
                raise
            return None
        return int(answer["message"]["seq"])


def columns(found: list[Found], wanted: Range) -> Raw:
    """Convert responses of STREAM.MSG.GET to the Arrow columns of `Raw`."""
    payloads = [base64.b64decode(message.get("data", "")) for message in found]
    headers = [
        base64.b64decode(message["hdrs"]) if message.get("hdrs") else None for message in found
    ]
    empty = [None] * len(found)
    return Raw(
        [
            pa.array([message["seq"] for message in found], pa.int64()),
            pa.array([message["subject"] for message in found], pa.string()),
            pa.array([nanoseconds(message["time"]) for message in found], pa.int64()),
            pa.array(headers if wanted.headers else empty, pa.binary()),
            pa.array(payloads if wanted.data else empty, pa.binary()),
            pa.array(list(map(len, payloads)), pa.int64()),
        ],
        frozenset(),
    )
