"""Unique identifiers in the form NATS uses: 22 base-62 characters."""

import secrets

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def nuid(length: int = 22) -> str:
    """Return a random identifier of `length` base-62 characters."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
