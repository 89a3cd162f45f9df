"""The `state` member of STREAM.INFO: counts, first and last message, gaps, consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.model.stream import StreamState

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.jetstream.log.message import Message
    from core.jetstream.log.stream_log import StreamLog

_TRIES = 3


async def state_of(
    log: StreamLog, consumers: Callable[[], int], *, deleted: bool, subjects: dict[str, int] | None
) -> StreamState:
    """Return the stream's state for STREAM.INFO.

    Raises Unavailable if PostgreSQL does not answer.

    Args:
        log: The log of the stream.
        consumers: Returns the number of the stream's consumers.
        deleted: Whether to list the sequences between first and last that have no message.
        subjects: Subjects to list with their message counts; None: no list.
    """
    await log.loaded()
    machine = log.machine
    for _ in range(_TRIES):
        first = await log.first_message()
        lost = await _gaps(log) if deleted and _missing(log) else []
        if _agrees(log, first) and len(lost) == (_missing(log) if deleted else 0):
            break
        # The log changed during the reads, or storage is ahead of memory.
        await log.await_commit()
    empty = not machine.msgs
    first_seq = machine.last_seq + 1 if empty else log.first_seq
    if empty and not machine.first_seq:
        first_seq = 0
    # An unused file store of nats-server counts sequence 0 as deleted.
    never = deleted and not first_seq and machine.on_file
    return StreamState(
        messages=machine.msgs,
        bytes=machine.bytes,
        first_seq=first_seq,
        first_ts=first[1] if first is not None else 0,
        last_seq=machine.last_seq,
        last_ts=machine.last_ts,
        num_subjects=len(machine.index),
        subjects=subjects or {},
        num_deleted=_missing(log) + never,
        deleted=(0,) if never else tuple(lost),
        consumer_count=consumers(),
    )


def _missing(log: StreamLog) -> int:
    """Count the sequences between the first and the last that have no message."""
    machine = log.machine
    return machine.last_seq - log.first_seq + 1 - machine.msgs if machine.msgs else 0


def _agrees(log: StreamLog, first: Message | None) -> bool:
    """Return whether the first message read (None: no message) agrees with the state in memory."""
    if first is None:
        return not log.machine.msgs
    return first[0] == log.first_seq and log.is_live(first[0]) and _missing(log) >= 0


async def _gaps(log: StreamLog) -> list[int]:
    """List the sequences between first and last that have no message.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine, last = log.machine, log.machine.last_seq
    rows = await log.rows.names(machine.first_seq, last)
    there = {seq for seq, _ in rows if log.is_live(seq)}
    for segment, start in log.tail.since(last + 1):
        there.update(seq for seq in segment.seqs[start:] if log.is_live(seq))
    first, end = min(there, default=last + 1), machine.last_seq + 1
    return [seq for seq in range(first, end) if seq not in there]
