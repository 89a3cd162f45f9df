"""Tags of nodes, as nats-server takes and compares them."""

from collections.abc import Iterable


def clean_tag(tag: str) -> str:
    """Return a tag as it is compared: without blanks around it, in lower case."""
    return tag.strip().lower()


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that a node has which was given these: each once, no empty ones."""
    return tuple(dict.fromkeys(filter(None, map(clean_tag, tags))))
