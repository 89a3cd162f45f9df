"""Counters (ADR-49): each message of the stream adds to the total of its subject.

The total is the payload of the stored message, `{"val":"12"}`, so the newest message of a subject
contains the whole state, also after a crash. Within a batch, increments of one subject add up.

A message that a source copies contains the total of its origin. The stream adds the difference to
the total that the same origin had before, which the header `Nats-Counter-Sources` records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING

from core.goinput import text_of
from core.model.api_errors import api_error
from core.model.counter import Sources, read_sources, read_value, write_sources
from core.model.gojson import JsonError
from core.rules.stream import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.rules.stream.preconditions import LastMessages

# Exact at any length: a long `int` takes quadratic time to parse, and Python refuses it.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ZERO = Decimal(0)
_STORED = re.compile(rb'\{"val":"(-?[0-9]+)"\}')
_BEFORE_VALUE, _AFTER_VALUE = len('{"val":"'), len('"}')
_NUMBER = re.compile(r"[+-]?[0-9]+")
_ORIGIN_SUBJECT = 4
# Bytes of a total and the names of its headers, beside the digits and the values.
_FRAME = 64
# Headers that an increment may not have: it depends on the total alone.
_CONDITIONS = (
    h.ROLLUP,
    h.EXPECTED_STREAM,
    h.EXPECTED_LAST_MSG_ID,
    h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    h.EXPECTED_LAST_SEQ,
    h.EXPECTED_LAST_SUBJECT_SEQ,
)


@dataclass(frozen=True, slots=True)
class Total:
    """The total of a subject, and the part that each origin has added (None: no origins)."""

    value: Decimal = _ZERO
    sources: Sources | None = None


def check_increment(
    increment: bytes, payload: bytes, found: Mapping[bytes, bytes], *, counts: bool
) -> None:
    """Raise ApiError if an increment may not be stored.

    `found` are the message's headers, `counts` is whether the stream has counters.

    Raises:
        ApiError: JSMessageIncrInvalid for a malformed increment, or one with other conditions such
            as an expected sequence; JSMessageIncrDisabled in a stream without counters;
            JSMessageIncrPayload if the message has a payload.
    """
    if not h.is_increment(increment):
        raise api_error("JSMessageIncrInvalid")
    if not counts:
        raise api_error("JSMessageIncrDisabled")
    if payload:
        raise api_error("JSMessageIncrPayload")
    if len(found) > 1 and any(found.get(name) for name in _CONDITIONS):
        raise api_error("JSMessageIncrInvalid")


def growth(newest: LastMessages, blocks: list[bytes]) -> int:
    """Return an upper bound of the bytes that a total adds to one message of a batch.

    Args:
        newest: The last stored message of each subject of the batch.
        blocks: The header blocks of the batch.
    """
    stored = max((len(block) + len(payload) for block, payload in newest.values()), default=0)
    return stored + max(map(len, blocks), default=0) + _FRAME


class Counting:
    """The totals of the counters during the decision on one batch of publishes.

    They are the stored totals plus the increments of the batch so far. For each message call `add`,
    and `record` if it is accepted.

    Args:
        last: Returns the last sequence of a subject (0: none).
        newest: The last message of every subject of the batch that has one.
        max_msg_size: The limit of the stream in bytes (-1: no limit).
        max_payload: The limit of the server in bytes, for headers and payload together.
        evicted: Returns the subjects that lose their last message when a message is accepted, in a
            stream with discard policy `old`.
    """

    def __init__(
        self,
        last: Callable[[bytes], int],
        newest: LastMessages,
        max_msg_size: int,
        max_payload: int,
        evicted: Callable[[bytes, bytes, bytes], list[bytes]] | None = None,
    ) -> None:
        self._last = last
        self._newest = newest
        self._evicted = evicted
        self._most = max_payload if max_msg_size < 0 else min(max_msg_size, max_payload)
        self._totals: dict[bytes, Total] = {}
        # Accepted messages with a sources header of their own, from which no total is parsed yet.
        self._unread: dict[bytes, tuple[bytes, bytes]] = {}
        self._next = Total()
        # Whether a client sets the totals of origins; the header is trusted, and parsed when
        # needed.
        self._claimed_by = False
        # Payloads of the accepted messages.
        self.payloads: list[bytes] = []

    def add(
        self, subject: bytes, block: bytes, payload: bytes, found: Mapping[bytes, bytes]
    ) -> tuple[bytes, bytes]:
        """Return header block and payload of a message as they are stored.

        The totals change only when `record` confirms that the message is accepted.

        Raises:
            ApiError: JSMessageIncrMissing or JSMessageIncrInvalid for a bad increment,
                JSMessageCounterBroken for a total that cannot be parsed,
                JSStreamMessageExceedsMaximum or JSStreamHeaderExceedsMaximum for a result that is
                too large.
        """
        increment = found.get(h.INCREMENT)
        if not increment:
            raise api_error("JSMessageIncrMissing")
        if not h.is_increment(increment):
            raise api_error("JSMessageIncrInvalid")
        total = self._total(subject)
        sources = total.sources
        origin = found.get(h.STREAM_SOURCE)
        if origin:
            amount, sources = _from_origin(origin, subject, payload, sources)
            block = h.with_header(block, h.INCREMENT, str(amount).encode())
        else:
            amount = _number(increment.decode())
        value = _EXACT.add(total.value, amount)
        if sources:
            block = h.with_header(block, h.COUNTER_SOURCES, write_sources(sources))
        payload = b'{"val":"%s"}' % str(value).encode()
        if len(block) + len(payload) > self._most:
            raise api_error("JSStreamMessageExceedsMaximum")
        if len(block) > h.MAX_BLOCK:
            raise api_error("JSStreamHeaderExceedsMaximum")
        self._next = Total(value, sources)
        self._claimed_by = not sources and h.COUNTER_SOURCES in found
        return block, payload

    def record(self, subject: bytes, block: bytes, payload: bytes) -> None:
        """Confirm that the message of the last `add` is accepted, and record its total."""
        self.payloads.append(payload)
        self._totals[subject] = self._next
        if self._claimed_by:
            del self._totals[subject]
            self._unread[subject] = block, payload
        for lost in self._evicted(subject, block, payload) if self._evicted else ():
            self._totals[lost] = Total()

    def values(self) -> list[bytes]:
        """Return the totals for the acks of the accepted messages, as digits."""
        return [payload[_BEFORE_VALUE:-_AFTER_VALUE] for payload in self.payloads]

    def wipe(self) -> None:
        """Forget all totals, because the next accepted message replaces all stored messages."""
        self._totals, self._unread = {}, {}
        self._last = _never

    def _total(self, subject: bytes) -> Total:
        total = self._totals.get(subject)
        if total is not None:
            return total
        unread = self._unread.get(subject)
        if unread is not None:
            return _read(*unread)
        if not self._last(subject):
            return Total()
        stored = self._newest.get(subject)
        if stored is None:
            raise api_error("JSMessageCounterBroken")
        return _read(*stored)


def _never(_subject: bytes) -> int:
    return 0


def _read(block: bytes, payload: bytes) -> Total:
    """Parse the total in a stored message.

    Raises ApiError JSMessageCounterBroken if it cannot be parsed.
    """
    value = _value_of(payload)
    text = h.find(block, h.COUNTER_SOURCES) if block else None
    try:
        return Total(value, read_sources(text) if text else None)
    except JsonError:
        raise api_error("JSMessageCounterBroken") from None


def _value_of(payload: bytes) -> Decimal:
    """Return the total in a payload.

    Raises ApiError JSMessageCounterBroken if it cannot be parsed.
    """
    plain = _STORED.fullmatch(payload)
    try:
        return _number(plain[1].decode() if plain else read_value(payload))
    except JsonError:
        raise api_error("JSMessageCounterBroken") from None


def _number(text: str) -> Decimal:
    """Return the number at the beginning of a text (0: none), never a negative zero."""
    found = _NUMBER.match(text)
    return _EXACT.add(_ZERO, Decimal(found[0])) if found else _ZERO


def _from_origin(
    origin: bytes, subject: bytes, payload: bytes, sources: Sources | None
) -> tuple[Decimal, Sources]:
    """Return the amount that a copied message adds, and the updated totals of all origins."""
    fields = text_of(origin).split(" ")
    name = fields[_ORIGIN_SUBJECT] if len(fields) > _ORIGIN_SUBJECT else text_of(subject)
    told = _value_of(payload)
    known = dict((sources or {}).get(fields[0]) or {})
    amount = _EXACT.subtract(told, _number(known.get(name, "")))
    known[name] = str(told)
    return _EXACT.add(_ZERO, amount), {**(sources or {}), fields[0]: known}
