"""Sets of lease groups as nodes announce them: a hexadecimal number with one bit per group."""

from collections.abc import Collection, Iterable, Mapping

Told = list[tuple[int, str]]
"""Claims, each with the mask of its groups."""


def mask_of(groups: Iterable[int]) -> str:
    """Return a set of groups as text."""
    return f"{sum(1 << group for group in set(groups)):x}"


def groups_of(mask: str) -> frozenset[int]:
    """Return the groups of a text. Raises ValueError."""
    bits = int(mask, 16)
    return frozenset(group for group in range(bits.bit_length()) if bits >> group & 1)


def told(claims: Mapping[int, int]) -> Told:
    """Encode claims by group for an announcement."""
    by_claim: dict[int, list[int]] = {}
    for group, claim in claims.items():
        by_claim.setdefault(claim, []).append(group)
    return [(claim, mask_of(groups)) for claim, groups in sorted(by_claim.items())]


def heard(claims: Collection[tuple[int, str]]) -> dict[int, int]:
    """Decode announced claims; return them by group. Raises ValueError."""
    return {group: claim for claim, mask in claims for group in groups_of(mask)}
