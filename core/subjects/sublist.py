"""A trie of subscriptions by subject filter, with one level per token.

`Sublist.match` returns the items whose filter matches a subject, and whether the subject's last
token could change the result. If no node of the level before has literal children, all subjects
that differ only in the last token have the same result. Callers then cache one result for all
one-time reply subjects of an inbox.

Items are compared by identity. One filter may have very many items, so a list of more than 16
becomes a dictionary. Branches without items are removed.
"""

from typing import Generic, TypeVar

T = TypeVar("T")

_LIST_MAX = 16


class _Node(Generic[T]):
    """One node: the items whose filter ends here, and the nodes of the next token."""

    __slots__ = ("children", "items", "star", "tail")

    def __init__(self) -> None:
        self.items: list[T] | dict[T, None] | None = None
        self.tail: list[T] | dict[T, None] | None = None  # filters that end here with `>`
        self.children: dict[bytes, _Node[T]] | None = None
        self.star: _Node[T] | None = None

    def is_empty(self) -> bool:
        return not (self.items or self.tail or self.children or self.star)


class Sublist(Generic[T]):
    """A map from subject filters to items; several items may have the same filter.

    Attributes:
        count: Number of items.
        inserts: Number of items ever added.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self.count = 0
        self.inserts = 0

    def insert(self, pattern: bytes, item: T) -> None:
        """Add an item under a filter, which must be valid."""
        node = self._root
        parts = pattern.split(b".")
        last = parts.pop()
        for part in parts:
            node = _descend(node, part)
        if last == b">":
            node.tail = _added(node.tail, item)
        else:
            node = _descend(node, last)
            node.items = _added(node.items, item)
        self.count += 1
        self.inserts += 1

    def remove(self, pattern: bytes, item: T) -> bool:
        """Remove an item from a filter; return False if the filter does not have the item."""
        path: list[tuple[_Node[T], bytes]] = []
        node = self._root
        parts = pattern.split(b".")
        is_tail = parts[-1] == b">"
        for part in parts[:-1] if is_tail else parts:
            path.append((node, part))
            below = node.star if part == b"*" else (node.children or {}).get(part)
            if below is None:
                return False
            node = below
        if not _removed(node.tail if is_tail else node.items, item):
            return False
        self.count -= 1
        for parent, part in reversed(path):
            if not node.is_empty():
                break
            if part == b"*":
                parent.star = None
            elif parent.children is not None:
                del parent.children[part]
            node = parent
        return True

    def match(self, subject: bytes) -> tuple[list[T], bool]:
        """Return the items whose filter matches a subject, and whether its last token matters.

        The second value is False if all subjects with the same preceding tokens match the same
        items. A subject with an empty token matches no item.
        """
        found: list[T] = []
        parts = subject.split(b".")
        if b"" in parts:
            return found, True
        last = parts.pop()
        level = [self._root]
        for part in parts:
            below: list[_Node[T]] = []
            for node in level:
                if node.tail:
                    found.extend(node.tail)
                if node.children is not None and (child := node.children.get(part)) is not None:
                    below.append(child)
                if node.star is not None:
                    below.append(node.star)
            level = below
        matters = False
        for node in level:
            if node.tail:
                found.extend(node.tail)
            if node.children:
                matters = True
                if (child := node.children.get(last)) is not None and child.items:
                    found.extend(child.items)
            if node.star is not None and node.star.items:
                found.extend(node.star.items)
        return found, matters


def _descend(node: _Node[T], part: bytes) -> _Node[T]:
    if part == b"*":
        if node.star is None:
            node.star = _Node()
        return node.star
    if node.children is None:
        node.children = {}
    child = node.children.get(part)
    if child is None:
        child = node.children[part] = _Node()
    return child


def _added(items: list[T] | dict[T, None] | None, item: T) -> list[T] | dict[T, None]:
    if items is None:
        return [item]
    if isinstance(items, dict):
        items[item] = None
        return items
    items.append(item)
    return items if len(items) <= _LIST_MAX else dict.fromkeys(items)


def _removed(items: list[T] | dict[T, None] | None, item: T) -> bool:
    if not items or item not in items:
        return False
    if isinstance(items, dict):
        del items[item]
    else:
        items.remove(item)
    return True
