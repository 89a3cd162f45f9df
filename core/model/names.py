"""Names of streams and consumers: 1 to 255 bytes, none of white space `. * > \\ /`."""

import re
from hashlib import sha256

NAME_MAX = 255
DESCRIPTION_MAX = 4096
METADATA_MAX = 128 * 1024

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORBIDDEN = re.compile(r"[ \t\r\n\f.*>\\/]")


def is_valid_name(name: str) -> bool:
    """Whether a stream or consumer may be called so (its length apart)."""
    return name != "" and _FORBIDDEN.search(name) is None


def has_path_separator(name: str) -> bool:
    """Whether the name holds a slash or a backslash, which have an error of their own."""
    return "/" in name or "\\" in name


def metadata_size(metadata: dict[str, str]) -> int:
    """The bytes of all keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def short_hash(text: str) -> bytes:
    """Eight characters that stand for a text, as the reference makes them."""
    return bytes(_DIGITS[byte % 62] for byte in sha256(text.encode()).digest()[:8])
