"""The last sequence of a subject after the removal of its newest message.

The subject index in memory has only the newest message of each subject, so the message before it is
read from storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from core.jetstream.log.stream_log import StreamLog

_WINDOW, _WINDOW_MAX = 1_000, 200_000


async def last_sequences(
    log: StreamLog, subjects: Iterable[bytes], gone: Container[int]
) -> dict[bytes, int]:
    """Return {subject: its last sequence} without the sequences in `gone`.

    `gone` are messages that are about to be removed. Subjects without another message are left out.
    Raises Unavailable if PostgreSQL does not answer.
    """
    wanted = set(subjects)
    found: dict[bytes, int] = {}
    index = log.machine.index
    end = max((index.last(subject) for subject in wanted), default=0) - 1
    width = _WINDOW
    while wanted and end >= log.machine.first_seq:
        start = max(end - width + 1, log.machine.first_seq)
        names = await log.rows.names(start, end)
        for seq, subject in reversed(names):
            if subject in wanted and seq not in gone and log.is_live(seq):
                wanted.remove(subject)
                found[subject] = seq
        end, width = start - 1, min(width * 4, _WINDOW_MAX)
    return found
