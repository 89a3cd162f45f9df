"""Subject mappings: a message that a client publishes gets another subject than its own.

A mapping has a source filter and destinations with weights in per cent. The first mapping whose
source matches is used. If the weights sum to less than 100, the rest of the messages keeps its
subject. If the source itself is among the destinations, the rest is dropped; this simulates a
network that loses messages. Permissions, streams and replies see only the new subject.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.model.transform import Chance, Transform
from core.subjects.subject import compile_reading

CACHE_MAX = 8192
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination of a mapping.

    Attributes:
        dest: The new subject, with the functions of subject transforms.
        weight: Per cent of the messages that get this subject.
        cluster: Use it only on servers of this cluster; empty: on servers without a destination for
            their own cluster.
    """

    dest: str
    weight: int = _WHOLE
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A subject mapping: the source filter `src` and its destinations."""

    src: str
    destinations: tuple[Destination, ...]

    def within(self, cluster: str) -> tuple[Destination, ...]:
        """Return the destinations that are used on a server of a cluster.

        Empty name: no cluster.
        """
        own = tuple(each for each in self.destinations if each.cluster == cluster)
        return own or tuple(each for each in self.destinations if not each.cluster)


class Mappings:
    """The subject mappings of an account; `of` maps a subject.

    Args:
        mappings: The mappings in the order in which they are tried.
        chance: Returns random numbers from 0 to less than 1.
        cluster: The name of the server's cluster; empty: none.
    """

    def __init__(self, mappings: Sequence[Mapping], chance: Chance, cluster: str = "") -> None:
        self._chance = chance
        self._entries = [_Entry(each.src, each.within(cluster), chance) for each in mappings]
        self._known: dict[bytes, bytes] = {}

    def of(self, subject: bytes) -> bytes:
        """Return the subject under which a message is delivered.

        Empty if the message is to be dropped.
        """
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
    """One compiled mapping.

    `is_fixed` is True if it maps each subject to one other, independent of chance.
    """

    def __init__(self, src: str, given: tuple[Destination, ...], chance: Chance) -> None:
        # A `*` of the source does not match a literal token `>`: no wildcard is mapped.
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
