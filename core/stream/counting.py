"""Counters (ADR-49): each message of the stream adds to what its subject amounts to.

The total is the payload of the stored message, `{"val":"12"}`, so the newest message of a subject
is all there is to know: nothing is kept beside the log that could disagree with it after a crash.
Within a batch increments of one subject build on each other.

A copy of a counter elsewhere says what the total is there. What it adds here is the difference
to what the same origin said last, which the header `Nats-Counter-Sources` remembers.
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
from core.stream import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.stream.facts import LastMessages

# Exact at any length: a long `int` takes quadratic time to read, and Python refuses to.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ZERO = Decimal(0)
_STORED = re.compile(rb'\{"val":"(-?[0-9]+)"\}')
_BEFORE_VALUE, _AFTER_VALUE = len('{"val":"'), len('"}')
_NUMBER = re.compile(r"[+-]?[0-9]+")
_ORIGIN_SUBJECT = 4
# What a total and the names of its headers need beside the digits and the values.
_FRAME = 64
# An increment depends on nothing but the total.
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
    """What a subject amounts to, and what of it came from where."""

    value: Decimal = _ZERO
    sources: Sources | None = None


def check_increment(
    increment: bytes, payload: bytes, found: Mapping[bytes, bytes], *, counts: bool
) -> None:
    """Refuse an increment that is none, has no counter, or says more than that.

    Raises ApiError JSMessageIncrDisabled, JSMessageIncrPayload or JSMessageIncrInvalid.
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
    """Return about how many bytes counting adds to one message of a batch, rather too many."""
    stored = max((len(block) + len(payload) for block, payload in newest.values()), default=0)
    return stored + max(map(len, blocks), default=0) + _FRAME


class Counting:
    """Totals of one batch: what is stored, and what the batch has added so far.

    Args:
        last: returns the last sequence of a subject (0: none).
        newest: the last message of every subject of the batch that has one.
        max_msg_size: of the stream (-1: no limit).
        max_payload: of the server, for headers and payload together.
        evicted: returns the subjects that lose their last message with an accepted one, in a stream
            that discards old messages.
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
        # Accepted messages with a header of their own that no total has read yet.
        self._unread: dict[bytes, tuple[bytes, bytes]] = {}
        self._next = Total()
        # Whether a client claims what origins said; it is believed, and read when it is needed.
        self._claims = False
        # Payloads of the accepted messages.
        self.payloads: list[bytes] = []

    def add(
        self, subject: bytes, block: bytes, payload: bytes, found: Mapping[bytes, bytes]
    ) -> tuple[bytes, bytes]:
        """Return header block and payload as a message is stored, once `take` says that it is.

        Raises ApiError: JSMessageIncrMissing or JSMessageIncrInvalid for a bad increment,
        JSMessageCounterBroken where the total cannot be read, JSStreamMessageExceedsMaximum or
        JSStreamHeaderExceedsMaximum when the message became too large.
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
        self._claims = not sources and h.COUNTER_SOURCES in found
        return block, payload

    def take(self, subject: bytes, block: bytes, payload: bytes) -> None:
        """Take it that the message that was added last is accepted."""
        self.payloads.append(payload)
        self._totals[subject] = self._next
        if self._claims:
            del self._totals[subject]
            self._unread[subject] = block, payload
        for lost in self._evicted(subject, block, payload) if self._evicted else ():
            self._totals[lost] = Total()

    def values(self) -> list[bytes]:
        """Return the totals that the acknowledgements of the accepted messages tell."""
        return [payload[_BEFORE_VALUE:-_AFTER_VALUE] for payload in self.payloads]

    def wipe(self) -> None:
        """Forget every total: the message that is about to be taken replaces all there is."""
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
    """Read a stored message. Raises ApiError JSMessageCounterBroken."""
    value = _value_of(payload)
    text = h.find(block, h.COUNTER_SOURCES) if block else None
    try:
        return Total(value, read_sources(text) if text else None)
    except JsonError:
        raise api_error("JSMessageCounterBroken") from None


def _value_of(payload: bytes) -> Decimal:
    """Return the total that a payload tells. Raises ApiError JSMessageCounterBroken."""
    plain = _STORED.fullmatch(payload)
    try:
        return _number(plain[1].decode() if plain else read_value(payload))
    except JsonError:
        raise api_error("JSMessageCounterBroken") from None


def _number(text: str) -> Decimal:
    """Return the number that a text begins with (0: none), never a negative zero."""
    found = _NUMBER.match(text)
    return _EXACT.add(_ZERO, Decimal(found[0])) if found else _ZERO


def _from_origin(
    origin: bytes, subject: bytes, payload: bytes, sources: Sources | None
) -> tuple[Decimal, Sources]:
    """Return what a copy adds, and what is known of its origins with it."""
    fields = text_of(origin).split(" ")
    name = fields[_ORIGIN_SUBJECT] if len(fields) > _ORIGIN_SUBJECT else text_of(subject)
    told = _value_of(payload)
    known = dict((sources or {}).get(fields[0]) or {})
    amount = _EXACT.subtract(told, _number(known.get(name, "")))
    known[name] = str(told)
    return _EXACT.add(_ZERO, amount), {**(sources or {}), fields[0]: known}
