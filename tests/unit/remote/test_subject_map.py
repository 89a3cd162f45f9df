"""Subjects of another system, here and back."""

# Subject: remotes

import pytest

from core.remote.subject_map import SubjectMap

HUB = SubjectMap("hub")


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (b"$JS.ACK.S.C.1.7.3.1700000000.0", b"$JS.ACK.hub._.S.C.1.7.3.1700000000.0"),
        (b"$JS.ACK.dom.HASH.S.C.1.7.3.17.0.rnd", b"$JS.ACK.hub.dom:HASH.S.C.1.7.3.17.0.rnd"),
        (b"$JS.ACK._.HASH.S.C.1.7.3.17.0", b"$JS.ACK.hub._:HASH.S.C.1.7.3.17.0"),
    ],
)
def test_an_acknowledgement_finds_back(there: bytes, here: bytes) -> None:
    assert HUB.ack_here(there) == here
    assert HUB.ack_there(here) == there


@pytest.mark.parametrize(
    "subject", [b"$JS.ACK.hub.C.1.1.1.17.0", b"$JS.ACK.hub._.S", b"$JS.ACK.hub"]
)
def test_an_acknowledgement_of_a_stream_of_the_same_name_is_not_carried(subject: bytes) -> None:
    assert HUB.ack_there(subject) == b""


def test_a_reply_that_is_no_acknowledgement_stays() -> None:
    assert HUB.ack_here(b"_INBOX.x") == b"_INBOX.x"
    assert HUB.flow_here(b"") == b""


def test_flow_control_finds_back() -> None:
    here = HUB.flow_here(b"$JS.FC.S.C.abcd")

    assert here == b"$JS.hub.FC.S.C.abcd"
    assert HUB.flow_there(here) == b"$JS.FC.S.C.abcd"


def test_a_stalled_consumer_names_its_request_as_it_is_here() -> None:
    block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: $JS.FC.S.C.abcd\r\n\r\n"

    assert b"\r\nNats-Consumer-Stalled: $JS.hub.FC.S.C.abcd\r\n" in HUB.stalled_here(block)


def test_requests_change_their_prefix() -> None:
    assert HUB.there(b"$JS.hub.API.STREAM.INFO.S") == b"$JS.API.STREAM.INFO.S"
