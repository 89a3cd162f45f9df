"""Sets of lease groups and fencing tokens, as nodes announce them."""

# Subject: several nodes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.token_masks import decode_tokens, encode_tokens, groups_of, mask_of
from core.units import LeaseGroup
from tests.support.lease_groups import by_group

GROUPS = st.sets(st.integers(0, 255))
TOKENS = st.dictionaries(st.integers(0, 255), st.integers(1, 2**63 - 1))


@given(GROUPS)
def test_an_encoded_set_is_decoded_unchanged(groups: set[LeaseGroup]) -> None:
    assert groups_of(mask_of(groups)) == groups


@given(TOKENS)
def test_encoded_tokens_are_decoded_unchanged(tokens: dict[LeaseGroup, int]) -> None:
    assert decode_tokens(encode_tokens(tokens)) == tokens


@given(TOKENS)
def test_each_token_is_encoded_once_the_lowest_first(tokens: dict[LeaseGroup, int]) -> None:
    assert [token for token, _ in encode_tokens(tokens)] == sorted(set(tokens.values()))


def test_the_text_is_a_bit_for_each_group() -> None:
    """Nodes of other releases read it."""
    assert mask_of([]) == "0"
    assert mask_of(map(LeaseGroup, (0, 4, 4, 9))) == "211"
    assert encode_tokens(by_group({0: 7, 9: 7, 4: 3})) == [(3, "10"), (7, "201")]
    assert encode_tokens({}) == []


def test_of_a_group_listed_twice_the_higher_token_counts() -> None:
    assert decode_tokens([(3, "3"), (7, "1")]) == {0: 7, 1: 3}


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x"])
def test_invalid_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        groups_of(text)
    with pytest.raises(ValueError, match="invalid literal"):
        decode_tokens([(1, "1"), (2, text)])
