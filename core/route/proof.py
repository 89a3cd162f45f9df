"""The mutual proof of both ends of a route that they belong to one database. No I/O.

    accepting server --- INFO (nonce) ---------------------> dialling server
                    <--- CONNECT, INFO (nonce, proof) ------
                     --- INFO (nonce, proof) -------------->

A proof is an HMAC-SHA256, keyed with the secret of the database, over both nonces, both server ids
and the role of the prover (dialled or accepted). A proof is therefore useless on another route, in
the other direction, and to an eavesdropper. The secret is never sent. A server without it can only
guess the secret itself, which is 32 random bytes.
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
"""Smallest accepted length of a nonce, in characters. A shorter nonce allows replayed proofs."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two servers of a route: the data from which its proof is computed.

    Attributes:
        server_id: Id of the server.
        nonce: Random text that the server has chosen for this route.
        has_dialled: True if the server opened the connection.
    """

    server_id: str
    nonce: str
    has_dialled: bool


def proof_of(secret: bytes, prover: Side, other: Side) -> str:
    """Return the proof, in hexadecimal, that a server knows the secret of the database.

    `prover` sends it to `other`, the server at the other end of the route.
    """
    who = "dialled" if prover.has_dialled else "accepted"
    parts = (who, prover.server_id, other.server_id, prover.nonce, other.nonce)
    text = "\n".join(("jetgate route", *parts)).encode()
    return hmac.new(secret, text, "sha256").hexdigest()


def cluster_name(secret: bytes) -> str:
    """Return the cluster name of the nodes of a database, which is derived from its secret.

    It is used if no cluster name is configured.
    """
    return "jetgate-" + hmac.new(secret, b"jetgate cluster", "sha256").hexdigest()[:12]


class LinkProof:
    """Proves over one route that both servers know the secret of one database.

    Life cycle: `introduce` returns each INFO to send, `verify` checks each INFO of the other
    server.

    Args:
        secret: Secret of the database.
        server_id: Id of this server.
        has_dialled: True if this server opened the connection.
    """

    def __init__(self, secret: bytes, server_id: str, *, has_dialled: bool) -> None:
        self.nonce = secrets.token_hex(_NONCE_BYTES)
        self._secret = secret
        self._own = Side(server_id, self.nonce, has_dialled)
        self._peer: Side | None = None

    @property
    def has_met(self) -> bool:
        """True once the other server has sent an INFO with its id and nonce."""
        return self._peer is not None

    @property
    def peer_id(self) -> str:
        """The server id in the first INFO of the other server, proved or not.

        Empty before that INFO.
        """
        return "" if self._peer is None else self._peer.server_id

    def meet(self, info: RouteInfo) -> None:
        """Record the server id and nonce of the other server.

        Raises ProtocolError if the nonce is shorter than 32 characters or either is not
        alphanumeric.
        """
        if len(info.nonce) < _NONCE_MIN or not info.nonce.isalnum() or not info.server_id.isalnum():
            raise ProtocolError(reason="asks for no proof")
        self._peer = Side(info.server_id, info.nonce, not self._own.has_dialled)

    def verify(self, info: RouteInfo) -> bool:
        """Check the proof in an INFO of the other server. Return True if it is valid.

        Return False for the first INFO that the dialling side receives: it cannot contain a proof
        yet. Raises ProtocolError if the nonce is unacceptable or the proof is wrong.
        """
        if not self.has_met:
            self.meet(info)
            if self._own.has_dialled:
                return False
        if not self.holds(info):
            raise ProtocolError(reason="has no proof")
        return True

    def introduce(self, info: RouteInfo) -> RouteInfo:
        """Return the INFO to send, with the nonce and, after the other's INFO, the proof.

        The result lacks everything that only nodes of the database may read.
        """
        proof = self.own() if self.has_met else ""
        return replace(
            info, nonce=self.nonce, proof=proof, fencing_tokens=(), offers=(), asked=False
        )

    def own(self) -> str:
        """Return the proof that this server sends.

        The first INFO of the other server must have arrived, because the proof depends on its
        nonce.
        """
        assert self._peer is not None, "met first"
        return proof_of(self._secret, self._own, self._peer)

    def holds(self, info: RouteInfo) -> bool:
        """Return True if an INFO has a valid proof of the other server.

        Its server id and nonce must be those of the first INFO of that server.
        """
        peer = self._peer
        assert peer is not None, "met first"
        wanted = proof_of(self._secret, peer, self._own)
        is_same = (info.server_id, info.nonce) == (peer.server_id, peer.nonce)
        return hmac.compare_digest(info.proof.encode(), wanted.encode()) and is_same
