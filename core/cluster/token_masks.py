"""Sets of lease groups as nodes announce them: a hexadecimal number with one bit per group."""

from collections.abc import Collection, Iterable, Mapping

from core.units import LeaseGroup

TokenMasks = list[tuple[int, str]]
"""Fencing tokens, each with the mask of its groups."""


def mask_of(groups: Iterable[LeaseGroup]) -> str:
    """Return a set of groups as text."""
    return f"{sum(1 << group for group in set(groups)):x}"


def groups_of(mask: str) -> frozenset[LeaseGroup]:
    """Return the groups of a text. Raises ValueError."""
    bits = int(mask, 16)
    return frozenset(LeaseGroup(group) for group in range(bits.bit_length()) if bits >> group & 1)


def encode_tokens(tokens: Mapping[LeaseGroup, int]) -> TokenMasks:
    """Encode tokens by group for an announcement."""
    by_token: dict[int, list[LeaseGroup]] = {}
    for group, token in tokens.items():
        by_token.setdefault(token, []).append(group)
    return [(token, mask_of(groups)) for token, groups in sorted(by_token.items())]


def decode_tokens(tokens: Collection[tuple[int, str]]) -> dict[LeaseGroup, int]:
    """Decode announced tokens; return them by group. Raises ValueError."""
    return {group: token for token, mask in tokens for group in groups_of(mask)}
