"""Checks of subjects in configurations, as text: validity, overlap, containment.

Published messages are checked by `core.subjects`, on bytes. The results here must equal those of
nats-server even where they are odd, because clients see them as errors.
"""

from collections.abc import Iterable, Sequence

_SPACE = " \t\n\r\f"


def is_valid_subject(subject: str) -> bool:
    """Return whether a subject has no empty token, no white space, and `>` only as last token."""
    if not subject:
        return False
    tokens = subject.split(".")
    for index, token in enumerate(tokens):
        if not token or any(char in _SPACE for char in token):
            return False
        if token == ">" and index != len(tokens) - 1:
            return False
    return True


def is_literal(subject: str) -> bool:
    """Return whether a subject has no wildcard token (`*` or `>`)."""
    return not any(token in ("*", ">") for token in subject.split("."))


def is_valid_publish_subject(subject: str) -> bool:
    """Return whether a message may have this subject: it is valid and has no wildcards."""
    return is_valid_subject(subject) and is_literal(subject)


def is_subset(subject: str, of: str) -> bool:
    """Return whether the filter `of` matches every subject that the filter `subject` matches."""
    tokens, wider = subject.split("."), of.split(".")
    for index, want in enumerate(wider):
        if index >= len(tokens) or not want:
            return False
        if want == ">":
            return True
        have = tokens[index]
        if have in ("", ">") or (have == "*" and want != "*"):
            return False
        if want[0] != "*" and have != want:
            return False
    return len(tokens) == len(wider)


def collide(one: str, other: str) -> bool:
    """Return whether some subject matches both filters."""
    if one == other:
        return True
    if is_literal(one):
        return not is_literal(other) and is_subset(one, other)
    if is_literal(other):
        return is_subset(other, one)
    left, right = one.split("."), other.split(".")
    if len(left) != len(right) and ">" not in min(left, right, key=len):
        return False
    return all(_can_match(a, b) for a, b in zip(left, right, strict=False))


def _can_match(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one[0] in "*>" or other[0] in "*>" or one == other


class _Node:
    """A token in the trie, with the next tokens.

    `ends` counts subjects that end with it, `total` all subjects that contain it at this place.
    """

    __slots__ = ("children", "ends", "total")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.ends = 0
        self.total = 0


class SubjectTrie:
    """A trie of subject filters that finds overlap and containment without pairwise comparisons."""

    def __init__(self, subjects: Iterable[str] = ()) -> None:
        self._root = _Node()
        for subject in subjects:
            self.add(subject)

    def add(self, subject: str) -> None:
        self._change(subject, 1)

    def remove(self, subject: str) -> None:
        """Remove a subject that was added; if it was added several times, once."""
        self._change(subject, -1)

    def _change(self, subject: str, by: int) -> None:
        node = self._root
        for token in subject.split("."):
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = _Node()
            child.total += by
            node = child
        node.ends += by

    def collides(self, subject: str) -> bool:
        """Return whether some subject matches both `subject` and a filter in the trie."""
        nodes = [self._root]
        for token in subject.split("."):
            if any(_has(node, ">") for node in nodes):
                return True
            if token == ">":
                return any(child.total for node in nodes for child in node.children.values())
            if token == "*":
                nodes = [c for node in nodes for c in node.children.values() if c.total]
            else:
                nodes = _next(nodes, token)
            if not nodes:
                return False
        return any(node.ends for node in nodes)

    def covers(self, subject: str) -> bool:
        """Return whether a filter in the trie matches all subjects that `subject` matches."""
        nodes = [self._root]
        for token in subject.split("."):
            if any(_has(node, ">") for node in nodes):
                return True
            if token == ">":
                return False
            nodes = _next(nodes, token)
            if not nodes:
                return False
        return any(node.ends for node in nodes)


def _has(node: _Node, token: str) -> bool:
    child = node.children.get(token)
    return child is not None and child.total > 0


def _next(nodes: list[_Node], token: str) -> list[_Node]:
    tokens = (token,) if token == "*" else (token, "*")
    return [node.children[t] for node in nodes for t in tokens if _has(node, t)]


PAIRWISE_MAX = 64
"""Largest number of subjects that are compared pairwise, with exactly nats-server's results."""


def first_collision(subjects: Sequence[str]) -> tuple[int, int] | None:
    """Return the indexes of the first two subjects that overlap; None if no two do."""
    later = SubjectTrie(subjects) if len(subjects) > PAIRWISE_MAX else None
    for index, subject in enumerate(subjects):
        if later is not None:
            later.remove(subject)
            if not later.collides(subject):
                continue
        for other in range(index + 1, len(subjects)):
            if collide(subjects[other], subject):
                return index, other
    return None


def any_within_another(subjects: Sequence[str]) -> bool:
    """Return whether one of the subjects is a subset of another one."""
    if len(subjects) > PAIRWISE_MAX:
        rest = SubjectTrie(subjects)
        for subject in subjects:
            rest.remove(subject)
            if rest.covers(subject):
                return True
            rest.add(subject)
        return False
    return any(
        is_subset(subject, other)
        for index, subject in enumerate(subjects)
        for place, other in enumerate(subjects)
        if place != index
    )


def any_collision(some: Sequence[str], candidates: Iterable[str]) -> bool:
    """Return whether a filter in `some` overlaps a filter in `candidates`."""
    if len(some) > PAIRWISE_MAX:
        patterns = SubjectTrie(some)
        return any(patterns.collides(other) for other in candidates)
    heads = {mine.partition(".")[0] for mine in some}
    if not any(head[:1] in "*>" for head in heads):
        # The first token is then enough to exclude most candidates.
        firsts = ((other, other.partition(".")[0]) for other in candidates)
        candidates = (other for other, head in firsts if head in heads or head[:1] in "*>")
    return any(collide(other, mine) for other in candidates for mine in some)
