r"""Checks of stream and consumer names: 1 to 255 bytes, without white space and `. * > \ /`."""

import re
from hashlib import sha256

NAME_MAX = 255
DESCRIPTION_MAX = 4096
METADATA_MAX = 128 * 1024

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of NATS' short identifiers, in base 62."""

_FORBIDDEN = re.compile(r"[ \t\r\n\f.*>\\/]")


def is_valid_name(name: str) -> bool:
    """Return whether a stream or consumer name is valid, apart from its length."""
    return name != "" and _FORBIDDEN.search(name) is None


def has_path_separator(name: str) -> bool:
    """Return whether a name contains a slash or backslash, for which there is a special error."""
    return "/" in name or "\\" in name


def metadata_size(metadata: dict[str, str]) -> int:
    """Return the total size of all keys and values, in bytes."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def short_hash(text: str) -> bytes:
    """Return a hash of 8 base-62 characters, as nats-server puts it into peer ids and names."""
    digest = sha256(text.encode()).digest()
    return "".join(BASE62[byte % 62] for byte in digest[:8]).encode()
