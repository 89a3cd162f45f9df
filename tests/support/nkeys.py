"""NATS key pairs (nkeys) and signed JWTs, generated for tests."""

import hashlib
import json
from base64 import b32encode, urlsafe_b64encode
from binascii import crc_hqx
from typing import Any

from nacl.signing import SigningKey

_SEED = 18 << 3
_KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
_UNLIMITED = {
    **dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1),
    **dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1),
    "wildcards": True,
}


class Nkey:
    """A key pair of an operator, an account or a user."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._key = SigningKey.generate()
        prefix = _KINDS[kind]
        self.public = _encode(bytes((prefix,)) + bytes(self._key.verify_key))
        head = bytes((_SEED | prefix >> 5, (prefix & 31) << 3))
        self.seed = _encode(head + bytes(self._key))

    def jwt(self, subject: "Nkey", name: str, **claims: Any) -> str:
        """Return a JWT with claims about the key `subject`, signed by this key."""
        body: dict[str, Any] = {
            "iat": 1700000000,
            "iss": self.public,
            "name": name,
            "sub": subject.public,
            "nats": {"type": subject.kind, "version": 2, **claims},
        }
        body["jti"] = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        signed = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(body)}"
        return f"{signed}.{_text(self._key.sign(signed.encode()).signature)}"


def operator_options(account: Nkey) -> dict[str, str]:
    """Return settings for nats-server: a new operator, a system account, and this account."""
    operator, system = Nkey("operator"), Nkey("account")
    own = operator.jwt(account, "APP", limits=_UNLIMITED)
    sys = operator.jwt(system, "SYS", limits={**_UNLIMITED, "mem_storage": 0, "disk_storage": 0})
    return {
        "operator": operator.jwt(operator, "OP", system_account=system.public),
        "resolver": "MEMORY",
        "resolver_preload": f"{{ {account.public}: {own}, {system.public}: {sys} }}",
        "system_account": system.public,
    }


def credentials(jwt: str, seed: str) -> str:
    """Return the text of a credentials file with a user's JWT and the seed of the user's key."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def _encode(raw: bytes) -> str:
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).rstrip(b"=").decode()


def _part(value: Any) -> str:
    return _text(json.dumps(value, separators=(",", ":")).encode())


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
