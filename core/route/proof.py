"""The proof that both ends of a link know the secret of one database. No I/O.

    who accepted --- INFO (nonce) ----------------------> who dialled
                <--- CONNECT, INFO (nonce, proof) -------
                 --- INFO (nonce, proof) --------------->

A proof is an HMAC-SHA256 by the secret over both nonces, both server ids and who of the two proves
himself: none is of use on another link, in the other direction, or to whoever listened. The secret
does not travel; who accepts, or answers a dial, without it learns nothing that could be tried
against anything but the secret itself, which is 32 random bytes.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from msgspec.structs import replace

from core.errors import ProtocolError
from core.route.handshake import RouteInfo

_NONCE_BYTES = 24
_NONCE_MIN = 32
"""Characters: who sends a shorter nonce wants proofs that can be used again."""


@dataclass(frozen=True, slots=True)
class Side:
    """One end of a link: its server id and its nonce, and whether it dialled."""

    server_id: str
    nonce: str
    has_dialled: bool


def proof_of(secret: bytes, prover: Side, other: Side) -> str:
    """Return by what `prover` shows `other` that it knows the secret."""
    who = "dialled" if prover.has_dialled else "accepted"
    parts = (who, prover.server_id, other.server_id, prover.nonce, other.nonce)
    text = "\n".join(("jetgate route", *parts)).encode()
    return hmac.new(secret, text, "sha256").hexdigest()


def cluster_name(secret: bytes) -> str:
    """Return the name that all nodes of a database have in common."""
    return "jetgate-" + hmac.new(secret, b"jetgate cluster", "sha256").hexdigest()[:12]


class Proving:
    """The proofs of one link.

    Args:
        secret: that of the database.
        server_id: that of this server.
        has_dialled: whether this server did.
    """

    def __init__(self, secret: bytes, server_id: str, *, has_dialled: bool) -> None:
        self.nonce = secrets.token_hex(_NONCE_BYTES)
        self._secret = secret
        self._own = Side(server_id, self.nonce, has_dialled)
        self._peer: Side | None = None

    @property
    def has_met(self) -> bool:
        """Whether the peer has said who it is."""
        return self._peer is not None

    @property
    def peer_id(self) -> str:
        """The server id that the peer claims; empty: it has not yet."""
        return "" if self._peer is None else self._peer.server_id

    def meet(self, info: RouteInfo) -> None:
        """Take who the peer is. Raises ProtocolError if it is not one that proves anything."""
        if len(info.nonce) < _NONCE_MIN or not info.nonce.isalnum() or not info.server_id.isalnum():
            raise ProtocolError(reason="asks for no proof")
        self._peer = Side(info.server_id, info.nonce, not self._own.has_dialled)

    def take(self, info: RouteInfo) -> bool:
        """Take an INFO: True once the peer has proved itself, False where it waits for a proof.

        Raises ProtocolError.
        """
        if not self.has_met:
            self.meet(info)
            if self._own.has_dialled:
                return False
        if not self.holds(info):
            raise ProtocolError(reason="has no proof")
        return True

    def introduce(self, info: RouteInfo) -> RouteInfo:
        """Return what is said of this server before it is known whether the peer belongs here."""
        proof = self.own() if self.has_met else ""
        return replace(info, nonce=self.nonce, proof=proof, claims=(), offers=(), asked=False)

    def own(self) -> str:
        """Return the proof for the peer that was met."""
        assert self._peer is not None, "met first"
        return proof_of(self._secret, self._own, self._peer)

    def holds(self, info: RouteInfo) -> bool:
        """Whether the peer that was met proves that it knows the secret."""
        peer = self._peer
        assert peer is not None, "met first"
        wanted = proof_of(self._secret, peer, self._own)
        is_same = (info.server_id, info.nonce) == (peer.server_id, peer.nonce)
        return hmac.compare_digest(info.proof.encode(), wanted.encode()) and is_same
