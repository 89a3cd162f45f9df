"""The proof of a link: who knows the secret passes, and nothing that was heard can be used."""

# Subject: routes, several nodes

import pytest

from core.errors import ProtocolError
from core.route.handshake import RouteInfo
from core.route.proof import LinkProof, Side, cluster_name, proof_of

SECRET, OTHER = b"s" * 32, b"t" * 32


def info(server_id: str, proving: LinkProof, proof: str = "") -> RouteInfo:
    return RouteInfo(server_id=server_id, nonce=proving.nonce, proof=proof)


def pair(secret: bytes = SECRET, other: bytes = SECRET) -> tuple[LinkProof, LinkProof]:
    """Who accepted and who dialled, once each knows the other's nonce."""
    accepted = LinkProof(secret, "A", has_dialled=False)
    dialled = LinkProof(other, "D", has_dialled=True)
    dialled.meet(info("A", accepted))
    accepted.meet(info("D", dialled))
    return accepted, dialled


def test_peers_with_the_same_secret_prove_it() -> None:
    accepted, dialled = pair()

    assert accepted.holds(info("D", dialled, dialled.own()))
    assert dialled.holds(info("A", accepted, accepted.own()))


def test_a_peer_with_another_secret_or_none_proves_nothing() -> None:
    accepted, dialled = pair(SECRET, OTHER)

    assert not accepted.holds(info("D", dialled, dialled.own()))
    assert not dialled.holds(info("A", accepted, accepted.own()))
    assert not accepted.holds(info("D", dialled))
    assert not accepted.holds(info("D", dialled, "é"))


def test_a_proof_of_another_link_direction_or_server_is_worth_nothing() -> None:
    accepted, dialled = pair()
    again, _ = pair()

    assert not again.holds(info("D", dialled, dialled.own()))
    assert not accepted.holds(info("A", accepted, accepted.own()))
    assert not accepted.holds(info("X", dialled, dialled.own()))
    # What the one who accepted said cannot be said back to it, by whatever name.
    echo = LinkProof(SECRET, "A", has_dialled=False)
    echo.meet(RouteInfo(server_id="D", nonce=dialled.nonce))
    assert not dialled.holds(info("A", accepted, dialled.own()))


def test_every_part_counts() -> None:
    one, two = Side("a", "n", True), Side("b", "m", False)
    proofs = {
        proof_of(SECRET, one, two),
        proof_of(SECRET, two, one),
        proof_of(OTHER, one, two),
        proof_of(SECRET, Side("b", "n", True), two),
        proof_of(SECRET, Side("a", "o", True), two),
        proof_of(SECRET, Side("a", "n", False), two),
        proof_of(SECRET, one, Side("c", "m", False)),
        proof_of(SECRET, one, Side("b", "p", False)),
    }
    assert len(proofs) == 8


@pytest.mark.parametrize("nonce", ["", "short", "x" * 31, "a\n" * 20])
def test_a_peer_without_a_nonce_gets_no_proof(nonce: str) -> None:
    proving = LinkProof(SECRET, "D", has_dialled=True)
    with pytest.raises(ProtocolError):
        proving.meet(RouteInfo(server_id="A", nonce=nonce))
    assert not proving.has_met


def test_nodes_of_one_database_have_one_name_which_is_not_the_secret() -> None:
    assert cluster_name(SECRET) == cluster_name(SECRET) != cluster_name(OTHER)
    assert SECRET.hex() not in cluster_name(SECRET)
