"""The history of a run, and its checker.

The rules are those of a log that never loses acknowledged messages: see `check`. The history has
the order in which this process observed events; one connection never reorders them.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """The history of one run. Values are unique per publisher: `<publisher>-<n>`."""

    attempts: Counter[bytes] = field(default_factory=Counter)
    acked: dict[bytes, int] = field(default_factory=dict)
    conflicting: list[tuple[bytes, int, int]] = field(default_factory=list)
    events: list[tuple[str, int, bytes]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, value: bytes) -> None:
        """Record that a value is about to be sent (again)."""
        with self.lock:
            self.attempts[value] += 1

    def ack(self, value: bytes, seq: int) -> None:
        """Record that the server acknowledged a value at a sequence."""
        with self.lock:
            before = self.acked.setdefault(value, seq)
            if before != seq:
                self.conflicting.append((value, before, seq))

    def delivered(self, seq: int, value: bytes) -> None:
        """Record a delivery to the consumer."""
        with self.lock:
            self.events.append(("delivered", seq, value))

    def confirm(self, seq: int) -> None:
        """Record that the server answered an acknowledgement."""
        with self.lock:
            self.events.append(("confirmed", seq, b""))


Stored = dict[int, tuple[bytes, int]]  # sequence -> value, time in nanoseconds


def check(ledger: Ledger, stored: Stored, *, with_id: set[bytes]) -> list[str]:
    """Return every contradiction between the final log and the history; empty when there is none.

    Args:
        ledger: Messages sent, acknowledged and delivered.
        stored: Every message that can be read at the end.
        with_id: Names of the publishers whose messages have a message id.
    """
    return [
        *_promises(ledger, stored),
        *_unknown_messages(ledger, stored),
        *_copies(ledger, stored, with_id),
        *_order(ledger, stored),
        *_deliveries(ledger, stored),
    ]


def _promises(ledger: Ledger, stored: Stored) -> list[str]:
    wrong = [f"{v!r} was promised at {a} and at {b}" for v, a, b in ledger.conflicting]
    for value, seq in ledger.acked.items():
        found = stored.get(seq)
        if found is None:
            wrong.append(f"lost: {value!r} was acknowledged at {seq}, where nothing is")
        elif found[0] != value:
            wrong.append(f"lost: {value!r} was acknowledged at {seq}, where {found[0]!r} is")
    return wrong


def _unknown_messages(ledger: Ledger, stored: Stored) -> list[str]:
    return [
        f"{value!r} at {seq} was never sent"
        for seq, (value, _) in stored.items()
        if value not in ledger.attempts
    ]


def _copies(ledger: Ledger, stored: Stored, with_id: set[bytes]) -> list[str]:
    wrong = []
    for value, copies in Counter(value for value, _ in stored.values()).items():
        allowed = 1 if value.split(b"-")[0] in with_id else ledger.attempts[value]
        if copies > allowed:
            wrong.append(f"{value!r} is stored {copies} times, {allowed} allowed")
    return wrong


def _order(ledger: Ledger, stored: Stored) -> list[str]:
    wrong = []
    last_time = 0
    for seq in sorted(stored):
        if stored[seq][1] < last_time:
            wrong.append(f"time goes back at {seq}")
        last_time = stored[seq][1]
    if stored and sorted(stored) != list(range(min(stored), max(stored) + 1)):
        wrong.append("there are gaps between the sequences")
    return wrong + _order_of_publishers(ledger, stored)


def _order_of_publishers(ledger: Ledger, stored: Stored) -> list[str]:
    """Check that values sent once by a publisher are stored in the order of sending.

    A publisher sends ascending numbers, on one connection after the other. A repeated value has no
    place in that order: a value that was refused (10008: storage unavailable) or unanswered is sent
    again after later values were acknowledged. If the refused message was stored after all, it is a
    second copy, which `_copies` finds; with a message id, the answer to the second would contain
    the sequence of the first.
    """
    wrong = []
    last: dict[bytes, tuple[int, int]] = {}
    once = [(value, seq) for seq, (value, _) in stored.items() if ledger.attempts[value] == 1]
    for value, seq in sorted(once, key=lambda pair: int(pair[0].partition(b"-")[2])):
        name, _, number = value.partition(b"-")
        before = last.get(name, (0, 0))
        if seq < before[1]:
            wrong.append(f"order: {value!r} is at {seq}, {name!r}-{before[0]} at {before[1]}")
        last[name] = (int(number), seq)
    return wrong


def _deliveries(ledger: Ledger, stored: Stored) -> list[str]:
    wrong = []
    confirmed: set[int] = set()
    delivered: set[int] = set()
    for kind, seq, value in ledger.events:
        if kind == "confirmed":
            confirmed.add(seq)
            continue
        delivered.add(seq)
        if seq in confirmed:
            wrong.append(f"{seq} was delivered again after its acknowledgement was confirmed")
        elif seq in stored and stored[seq][0] != value:
            wrong.append(f"{seq} was delivered as {value!r}, stored is {stored[seq][0]!r}")
        elif seq not in stored:
            wrong.append(f"{seq} was delivered ({value!r}) and is not stored")
    wrong += [f"{seq} was never delivered" for seq in sorted(set(stored) - delivered)]
    return wrong
