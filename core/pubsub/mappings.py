"""Subject mappings: what clients publish goes to another subject than the one they publish to.

A mapping has a source filter and destinations with weights in per cent. The part that is missing
to a hundred is not mapped, unless the source itself is among the destinations: then that part is
lost, by which one tries out a network that loses messages. The first mapping whose source matches
counts. Permissions, streams and answers know only the new subject.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.model.transform import Chance, Transform
from core.subjects.subject import compile_reading

CACHE_MAX = 8192
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Destination:
    """A subject (with the functions of subject transforms), and how many per cent go to it.

    `cluster`: only at the servers of that cluster; empty: at all that have none of their own.
    """

    dest: str
    weight: int = _WHOLE
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A source filter and its destinations."""

    src: str
    destinations: tuple[Destination, ...]

    def within(self, cluster: str) -> tuple[Destination, ...]:
        """Return the destinations at a server of a cluster; empty: at one that is in none."""
        own = tuple(each for each in self.destinations if each.cluster == cluster)
        return own or tuple(each for each in self.destinations if not each.cluster)


class Mappings:
    """The mappings of an account.

    Args:
        mappings: in the order in which they are tried.
        chance: numbers from 0 to less than 1.
        cluster: the name of the server's cluster; empty: it is in none.
    """

    def __init__(self, mappings: Sequence[Mapping], chance: Chance, cluster: str = "") -> None:
        self._chance = chance
        self._entries = [_Entry(each.src, each.within(cluster), chance) for each in mappings]
        self._known: dict[bytes, bytes] = {}

    def of(self, subject: bytes) -> bytes:
        """Return the subject that a message goes to; empty when it is to be lost."""
        known = self._known.get(subject)
        if known is not None:
            return known
        for entry in self._entries:
            if entry.matches(subject):
                if not entry.is_fixed:
                    return entry.draw(subject, self._chance())
                return self._keep(subject, entry.draw(subject, 0.0))
        return self._keep(subject, subject)

    def _keep(self, subject: bytes, mapped: bytes) -> bytes:
        if len(self._known) >= CACHE_MAX:
            self._known.clear()
        self._known[subject] = mapped
        return mapped


class _Entry:
    """One mapping, made ready; `is_fixed`: chance has no part in where a subject goes."""

    def __init__(self, src: str, given: tuple[Destination, ...], chance: Chance) -> None:
        # A source passes over a token `>` where it has `*`, so that no wildcard is moved.
        self._match = compile_reading([src.encode()])
        self._parts: list[tuple[int, Transform]] = []
        destinations = list(given)
        missing = _WHOLE - sum(each.weight for each in destinations)
        if missing and all(each.dest != src for each in destinations):
            destinations.append(Destination("", missing))
        below = 0
        for each in sorted(destinations, key=lambda each: each.weight):
            below += each.weight
            self._parts.append((below, Transform(src, each.dest, chance)))
        self.is_fixed = [limit for limit, _ in self._parts] == [_WHOLE] and not any(
            "random(" in each.dest.lower() for each in destinations
        )

    def matches(self, subject: bytes) -> bool:
        return b"" not in subject.split(b".") and (self._match is None or self._match(subject))

    def draw(self, subject: bytes, chance: float) -> bytes:
        at = int(chance * _WHOLE)
        for below, transform in self._parts:
            if at < below:
                return transform.mapped(subject) or b""
        return b""
