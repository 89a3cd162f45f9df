"""Names of streams and consumers: 1 to 255 bytes, without white space and `. * > \\ /`."""

import re
from hashlib import sha256

NAME_MAX = 255
DESCRIPTION_MAX = 4096
METADATA_MAX = 128 * 1024

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of NATS' short identifiers."""

_FORBIDDEN = re.compile(r"[ \t\r\n\f.*>\\/]")


def is_valid_name(name: str) -> bool:
    """Decide whether a name of a stream or consumer is valid, apart from its length."""
    return name != "" and _FORBIDDEN.search(name) is None


def has_path_separator(name: str) -> bool:
    """Decide whether a name contains a slash or backslash, which has an error of its own."""
    return "/" in name or "\\" in name


def metadata_size(metadata: dict[str, str]) -> int:
    """Return the bytes of all keys and values together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def short_hash(text: str) -> bytes:
    """Return the hash of 8 base-62 characters that the reference server puts into names."""
    digest = sha256(text.encode()).digest()
    return "".join(BASE62[byte % 62] for byte in digest[:8]).encode()
