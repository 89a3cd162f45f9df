"""Subject transforms: compute the subject under which a message is stored or republished.

A transform has a source filter and a destination, validated by `core.model.mapping`. This module
compiles them to one function per destination token. Positions and sizes are in bytes, as in
nats-server.
"""

from collections.abc import Callable

from core.goinput import parse_int
from core.model.mapping import function_call
from core.subjects.subject import matches

Token = Callable[[list[bytes]], bytes]
"""Makes one token of the destination (it may contain dots) from the tokens of a subject."""
Chance = Callable[[], float]
"""Returns a random number, at least 0 and below 1."""

CACHE_MAX = 8192
_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_WILD = frozenset((b"*", b">"))


class Transform:
    """A compiled transform. Source and destination must have passed `check_mapping`.

    An empty source matches every subject, an empty destination changes nothing.

    Args:
        src: The source filter.
        dest: The destination.
        chance: The random numbers for the function `random`.

    Attributes:
        varies: True if the result is random: equal subjects may be mapped to different ones.
    """

    def __init__(self, src: str, dest: str, chance: Chance) -> None:
        self.src = (src or ">").encode()
        self.dest = (dest or ">").encode()
        self._is_identity = not dest or (self.src == self.dest == b">")
        source = self.src.split(b".")
        places = [i for i, token in enumerate(source) if token == b"*"]
        tokens = self.dest.split(b".")
        self._rest = len(source) - 1 if tokens[-1] == b">" else None
        if self._rest is not None:
            tokens.pop()
        made = [_token(token, places, chance) for token in tokens]
        self._tokens = [make for make, _ in made]
        self.varies = any(varies for _, varies in made)
        self._cache: dict[bytes, bytes] = {}

    def apply(self, subject: bytes) -> bytes | None:
        """Return the new subject of a message; None if it has none.

        None if the source does not match, or if the subject contains a wildcard token itself.
        """
        if not self._is_identity and not _WILD.isdisjoint(subject.split(b".")):
            return None
        return self.mapped(subject)

    def mapped(self, subject: bytes) -> bytes | None:
        """Return the new subject of a message; None if the source does not match.

        Unlike in `apply`, the subject may contain wildcard tokens.
        """
        if self._is_identity:
            return subject if matches(subject, self.src) else None
        if not matches(subject, self.src):
            return None
        have = subject.split(b".")
        parts = [make(have) for make in self._tokens]
        if self._rest is not None:
            parts += have[self._rest :]
        return b".".join(parts)

    def apply_all(self, subjects: list[bytes]) -> list[bytes]:
        """Return the new subject of each message; one that the source does not match is unchanged.

        Results are cached for later calls.
        """
        if self._is_identity:
            return subjects
        if self.varies:
            return [self.apply(subject) or subject for subject in subjects]
        cache = self._cache
        new = set(subjects).difference(cache)
        if new:
            if len(cache) + len(new) > CACHE_MAX:
                cache.clear()
                new = set(subjects)
            cache.update((subject, self.apply(subject) or subject) for subject in new)
        mapped = list(map(cache.__getitem__, subjects))
        if len(cache) > CACHE_MAX:
            cache.clear()
        return mapped


def _token(token: bytes, places: list[int], chance: Chance) -> tuple[Token, bool]:
    """Return the function that makes a destination token, and whether its result is random."""
    text = token.decode("utf-8", "surrogateescape")

    def place(index: str) -> int:
        number = parse_int(index.strip(" ")) or 0
        # The reference server takes the first token for a wildcard that does not exist.
        return places[number - 1] if 1 <= number <= len(places) else 0

    if text[:1] == "$" and parse_int(text[1:]) is not None:
        return _pick(place(text[1:])), False
    call = function_call(text)
    if call is None:
        return lambda _: token, False
    name, arguments = call
    if name == "wildcard":
        return _pick(place(arguments[0])), False
    if name == "partition":
        # Without wildcards in the source, the whole subject is hashed, regardless of the arguments.
        hashed = [place(index) for index in arguments[1:]] if places else []
        return _partition(int(arguments[0]), hashed), False
    if name == "random":
        count = int(arguments[0])
        return lambda _: b"%d" % int(chance() * max(count, 1)), True
    at = place(arguments[0])
    if name == "split":
        return _split(at, arguments[1]), False
    return _sliced(_CUTS[name], at, int(arguments[1])), False


def _pick(place: int) -> Token:
    return lambda have: have[place] if place < len(have) else b""


def _partition(buckets: int, places: list[int]) -> Token:
    buckets &= _FNV_MASK  # the reference server treats a negative number as a large one

    def make(have: list[bytes]) -> bytes:
        key = b"".join([have[place] for place in places]) if places else b".".join(have)
        return b"%d" % (fnv1a(key) % buckets if buckets else 0)

    return make


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of `data`."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _FNV_MASK
    return value


def _split(place: int, separator: str) -> Token:
    between = separator.encode("utf-8", "surrogateescape")

    def make(have: list[bytes]) -> bytes:
        if not between:
            parts = [char.encode("utf-8", "surrogateescape") for char in _text(have[place])]
        else:
            parts = have[place].split(between)
        out = b""
        for i, part in enumerate(parts):
            out += part
            if i < len(parts) - 1 and parts[i + 1] and not (i == 0 and not part):
                out += b"."
        return out

    return make


def _text(token: bytes) -> str:
    return token.decode("utf-8", "surrogateescape")


def _sliced(slice_of: Callable[[bytes, int], bytes], place: int, size: int) -> Token:
    def make(have: list[bytes]) -> bytes:
        token = have[place]
        return slice_of(token, size) if 0 < size < len(token) else token

    return make


def _slice_from_left(token: bytes, size: int) -> bytes:
    return b".".join(token[i : i + size] for i in range(0, len(token), size))


def _slice_from_right(token: bytes, size: int) -> bytes:
    first = len(token) % size
    parts = [token[:first]] if first else []
    return b".".join(parts + [token[i : i + size] for i in range(first, len(token), size)])


_CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitfromleft": lambda token, size: token[:size] + b"." + token[size:],
    "splitfromright": lambda token, size: token[:-size] + b"." + token[-size:],
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}
