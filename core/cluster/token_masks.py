"""Encoding of lease groups in announcements: a hexadecimal number with bit n set for group n."""

from collections.abc import Collection, Iterable, Mapping

from core.units import LeaseGroup

TokenMasks = list[tuple[int, str]]
"""Fencing tokens, each with the mask (hexadecimal bit set) of its lease groups."""


def mask_of(groups: Iterable[LeaseGroup]) -> str:
    """Return a set of lease groups as a hexadecimal number with one bit per group."""
    return f"{sum(1 << group for group in set(groups)):x}"


def groups_of(mask: str) -> frozenset[LeaseGroup]:
    """Return the lease groups of a mask. Raises ValueError if it is no hexadecimal number."""
    bits = int(mask, 16)
    return frozenset(LeaseGroup(group) for group in range(bits.bit_length()) if bits >> group & 1)


def encode_tokens(tokens: Mapping[LeaseGroup, int]) -> TokenMasks:
    """Encode the fencing tokens of lease groups for an announcement."""
    by_token: dict[int, list[LeaseGroup]] = {}
    for group, token in tokens.items():
        by_token.setdefault(token, []).append(group)
    return [(token, mask_of(groups)) for token, groups in sorted(by_token.items())]


def decode_tokens(tokens: Collection[tuple[int, str]]) -> dict[LeaseGroup, int]:
    """Return the fencing tokens by lease group from an announcement.

    Raises ValueError if a mask is no hexadecimal number.
    """
    return {group: token for token, mask in tokens for group in groups_of(mask)}
