"""Republishing the stored messages of a stream under another subject (`republish`).

Messages are republished after COMMIT and before the acks, as in nats-server, and only to subjects
with a subscriber. Headers contain the stream, the subject, the sequence, the time and the previous
sequence of the subject, so that a plain subscriber can detect gaps.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from core.model.gotime import format_time
from core.model.transform import Transform
from core.subjects.subject import is_valid_literal

if TYPE_CHECKING:
    from core.model.segment import Segment
    from core.model.stream import StreamConfig
    from core.pubsub.account import Account


class Republisher:
    """Republishes the messages of one stream whose configuration has `republish`."""

    def __init__(self, config: StreamConfig, account: Account) -> None:
        assert config.republish is not None, "made for streams that republish"
        self._account = account
        self._name = config.name.encode()
        self._transform = Transform(config.republish.src, config.republish.dest, random.random)
        self._headers_only = config.republish.headers_only

    def prepare(
        self, segment: Segment, last_seqs: dict[bytes, int]
    ) -> list[tuple[bytes, int, int]]:
        """Return (destination, index, previous sequence of the subject) of messages to republish.

        Leaves out destinations without a subscriber.

        Args:
            segment: The accepted messages of a plan, including those that newer messages of the
                plan replace.
            last_seqs: The last sequence of each subject before the plan; updated here.
        """
        # A mapping function may produce an invalid subject: with a wildcard or an empty token.
        heard: dict[bytes, bytes] = {}
        for subject in set(segment.subjects):
            to = self._transform.apply(subject)
            if to is not None and is_valid_literal(to) and self._account.has_interest(to):
                heard[subject] = to
        if not heard:
            return []
        found: list[tuple[bytes, int, int]] = []
        for place, subject in enumerate(segment.subjects):
            to = heard.get(subject)
            if to is not None:
                found.append((to, place, last_seqs.get(subject, 0)))
                last_seqs[subject] = segment.seqs[place]
        return found

    def send(self, segment: Segment, found: list[tuple[bytes, int, int]]) -> None:
        """Publish the messages that `prepare` returned to their destinations."""
        publish, bare = self._account.publish, self._headers_only
        for to, place, last in found:
            payload = segment.payloads[place]
            size = b"Nats-Msg-Size: %d\r\n" % len(payload) if bare else b""
            headers = segment.headers[place] if segment.headers is not None else None
            block = (
                b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
                b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n%b\r\n"
            ) % (
                headers[:-2] if headers else b"NATS/1.0\r\n",
                self._name,
                segment.subjects[place],
                segment.seqs[place],
                format_time(segment.times[place]).encode(),
                last,
                size,
            )
            publish(to, b"", block, b"" if bare else payload)
