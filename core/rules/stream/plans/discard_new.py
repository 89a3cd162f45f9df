"""The limits of a stream with discard policy `new`, counted message by message.

Only such a stream must know its exact counts inside a batch of publishes: messages replaced by a
new message free space for it, and a message that exceeds a limit is refused. The rules are those of
nats-server:

- A subject at its limit frees space by removing its oldest message, regardless of `max_msgs`, and
  regardless of `max_bytes` if that message is at least as large as the new one.
- A roll-up is refused like any other message, except under `discard_new_per_subject`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from core.rules.stream.state.wildcard_purges import PurgedFilters, covered
from core.subjects.subject import has_wildcard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.preconditions import StoredRows


class Capacity:
    """The counts of messages and bytes of a stream with discard policy `new`, within a batch.

    They begin with the committed counts; `refusal` checks a message of the batch of publishes,
    `count` adds an accepted one.

    Args:
        machine: The committed state of the stream.
        replaced: The stored messages of subjects that roll-ups of the batch replace, if the subject
            index does not contain them.
    """

    def __init__(self, machine: StreamMachine, replaced: StoredRows) -> None:
        self.machine = machine
        self.msgs = machine.msgs
        self.bytes = machine.bytes
        self._replaced = replaced
        self._sizes: dict[bytes, deque[int]] = {}
        self._wiped = False
        self._purged = PurgedFilters()

    def refusal(self, subject: bytes, size: int, rollup: bytes) -> str:
        """Return the reason why a message of `size` bytes exceeds a limit ("": it does not).

        `rollup` is the kind of its roll-up (b"": none).
        """
        machine = self.machine
        sizes = self._sizes_of(subject)
        full = 0 < machine.limit <= len(sizes)
        if full and machine.config.discard_new_per_subject and not rollup:
            return "maximum messages per subject exceeded"
        if machine.max_msgs and self.msgs >= machine.max_msgs and not full:
            return "maximum messages exceeded"
        if (
            machine.max_bytes
            and self.bytes + size > machine.max_bytes
            and not (full and sizes[0] >= size)
        ):
            return "maximum bytes exceeded"
        return ""

    def count(self, subject: bytes, size: int, rollup: bytes) -> None:
        """Add an accepted message of `size` bytes, and subtract the messages that it replaces."""
        if rollup == b"all":
            self._sizes.clear()
            self._wiped = True
            self.msgs = self.bytes = 0
        elif rollup and has_wildcard(subject):
            self._release_room(subject)
        sizes = self._sizes_of(subject)
        sizes.append(size)
        self.msgs += 1
        self.bytes += size
        keep = 1 if rollup == b"sub" else self.machine.limit
        while 0 < keep < len(sizes):
            self.msgs -= 1
            self.bytes -= sizes.popleft()

    def _release_room(self, pattern: bytes) -> None:
        """Subtract the messages that a roll-up with a wildcard subject removes."""
        gone = covered(self._sizes, pattern)
        if not self._wiped and not self._purged.have(pattern):
            gone += self.machine.index.covered(pattern)
        for subject in dict.fromkeys(gone):
            sizes = self._sizes_of(subject)
            self.msgs -= len(sizes)
            self.bytes -= sum(sizes)
            del self._sizes[subject]
        self._purged.add(pattern)

    def _sizes_of(self, subject: bytes) -> deque[int]:
        sizes = self._sizes.get(subject)
        if sizes is None:
            stored: Sequence[tuple[int, int]] | None = None
            if not self._wiped and not self._purged.have(subject):
                stored = self.machine.index.of_subject(subject)
                if stored is None:
                    stored = self._replaced.get(subject)
            sizes = self._sizes[subject] = deque(size for _, size in stored or ())
        return sizes
