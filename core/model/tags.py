"""Normal forms of the tags of nodes, as in nats-server."""

from collections.abc import Iterable


def clean_tag(tag: str) -> str:
    """Return a tag in the form for comparisons: without surrounding blanks, in lower case."""
    return tag.strip().lower()


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of a node in that form, without duplicates and empty ones, in order."""
    return tuple(dict.fromkeys(filter(None, map(clean_tag, tags))))
