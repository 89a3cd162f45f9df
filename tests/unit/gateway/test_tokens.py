"""Ack tokens."""

# Subject: HTTP

import hmac
from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.formats.ack_tokens import AckTokens, BadToken

REPLY = b"$JS.ACK.S.C.2.30.4.1700000000000000000.5"
tokens = AckTokens(b"k" * 32)


def test_a_token_opens_to_the_subject_it_was_made_from() -> None:
    assert tokens.open(tokens.seal(REPLY)) == (REPLY, ("S", "C"))


def test_both_forms_of_ack_subjects_are_read() -> None:
    long = b"$JS.ACK._.ACCHASH1.S.C.2.30.4.1700000000000000000.5"

    assert tokens.open(tokens.seal(long)) == (long, ("S", "C"))


def test_sealed_text_that_is_no_ack_subject_is_no_token() -> None:
    with pytest.raises(BadToken):
        tokens.open(tokens.seal(b"$JS.ACK.S.C.2.30.4"))


def test_another_key_opens_nothing() -> None:
    with pytest.raises(BadToken):
        AckTokens(b"j" * 32).open(tokens.seal(REPLY))


def test_a_message_without_ack_has_no_token() -> None:
    assert tokens.seal(b"") == ""
    assert tokens.seal(b"_INBOX.a.b") == ""


@given(st.text(max_size=200))
def test_no_text_opens_by_chance(text: str) -> None:
    with pytest.raises(BadToken):
        tokens.open(text)


@given(st.integers(0, 10_000), st.integers(1, 63))
def test_no_change_of_a_token_opens(position: int, change: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    token = tokens.seal(REPLY)
    at = position % (len(token) - 1)  # the last character has bits that mean nothing
    other = alphabet[(alphabet.index(token[at]) + change) % 64]

    with pytest.raises(BadToken):
        tokens.open(token[:at] + other + token[at + 1 :])


def test_a_token_is_the_hmac_of_its_ack_subject() -> None:
    own = hmac.digest(b"k" * 32, b"jetgate ack token v1", "sha256")
    mac = hmac.digest(own, REPLY.removeprefix(b"$JS.ACK."), "sha256")[:12]

    raw = urlsafe_b64decode(tokens.seal(REPLY) + "===")

    assert raw == mac + REPLY.removeprefix(b"$JS.ACK.")
