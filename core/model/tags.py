"""Normal forms of the tags of nodes, as in nats-server."""

from collections.abc import Iterable


def clean_tag(tag: str) -> str:
    """Return a tag without surrounding blanks, in lower case; tags are compared in this form."""
    return tag.strip().lower()


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without surrounding blanks, in lower case, without duplicates and empty ones."""
    return tuple(dict.fromkeys(filter(None, map(clean_tag, tags))))
