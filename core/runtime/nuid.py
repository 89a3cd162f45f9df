"""Random unique identifiers: in the form of NATS (22 base-62 characters), and as numbers."""

import secrets

_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE = len(_ALPHABET)
_TABLE = bytes(_ALPHABET[value % _BASE] for value in range(256))
# Bytes that would make the first characters of the alphabet more likely than the others.
_UNEVEN = bytes(range(256 - 256 % _BASE, 256))


def nuid(length: int = 22) -> str:
    """Return a random identifier of `length` base-62 characters."""
    made = b""
    while len(made) < length:
        made += secrets.token_bytes(length + 8).translate(_TABLE, _UNEVEN)
    return made[:length].decode()


def random_id() -> int:
    """Return a random number from 1 to 2^62, which fits a `bigint` of PostgreSQL."""
    return secrets.randbits(62) + 1
