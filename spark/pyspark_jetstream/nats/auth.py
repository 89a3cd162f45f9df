"""The credentials of a client in the NATS operation CONNECT: tokens, passwords, nkeys, JWTs."""

import base64
import binascii
import re
from typing import Any

from pyspark_jetstream.nats.errors import Rejected
from pyspark_jetstream.nats.settings import Settings

_SEED_PREFIX = 18 << 3
_USER_PREFIX = 20 << 3
_SECTION = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s*(\S+?)\s*-{3,}END \1-{3,}")


def credentials(settings: Settings, nonce: str) -> dict[str, Any]:
    """Return the members of CONNECT that authenticate the client.

    Secrets given as `env:NAME` or `file:PATH` are read on this machine.

    Args:
        settings: Settings of the connection, with its secrets.
        nonce: The nonce of the server's INFO, which the client signs; "" if INFO has none.

    Raises:
        Rejected: The seed or the credentials are malformed, or need a nonce that INFO lacks.
        InvalidOption: An environment variable or file of a secret does not exist.
    """
    fields: dict[str, Any] = {}
    if settings.token:
        fields["auth_token"] = settings.token.resolve()
    if settings.user:
        fields["user"] = settings.user.resolve()
        fields["pass"] = settings.password.resolve() if settings.password else ""
    if settings.creds:
        token, seed = parse_creds(settings.creds.resolve())
        fields["jwt"] = token
        fields["sig"] = _signature(seed, nonce)
    elif settings.nkey:
        seed = settings.nkey.resolve()
        fields["nkey"] = public_key(seed)
        fields["sig"] = _signature(seed, nonce)
    return fields


def parse_creds(text: str) -> tuple[str, str]:
    """Return JWT and seed from the text of a `.creds` file.

    Raises:
        Rejected: One of the two sections is missing.
    """
    sections = dict(_SECTION.findall(text))
    try:
        return sections["NATS USER JWT"], sections["USER NKEY SEED"]
    except KeyError as missing:
        raise Rejected(f"the credentials have no section {missing.args[0]}") from None


def _signature(seed: str, nonce: str) -> str:
    if not nonce:
        raise Rejected("the server asks for no signature, so it has no users with nkeys or JWTs")
    signature = _signer(_raw_seed(seed)).sign(nonce.encode()).signature
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def public_key(seed: str) -> str:
    """Return the public key `U...` that belongs to the seed `SU...` of a user's nkey.

    Raises Rejected if the seed is malformed or not the seed of a user.
    """
    body = bytes([_USER_PREFIX]) + bytes(_signer(_raw_seed(seed)).verify_key)
    check = _crc16(body).to_bytes(2, "little")
    return base64.b32encode(body + check).decode().rstrip("=")


def _raw_seed(seed: str) -> bytes:
    """Return the 32 bytes of a user's seed. Raises Rejected for a wrong checksum or prefix."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        raise Rejected("the seed of the nkey is not base32") from None
    if len(raw) != 36 or _crc16(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
        raise Rejected("the seed of the nkey is damaged: its checksum does not fit")
    kind = (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3
    if raw[0] & 0xF8 != _SEED_PREFIX or kind != _USER_PREFIX:
        raise Rejected("the nkey is no seed of a user: those begin with SU")
    return raw[2:-2]


def _signer(seed: bytes) -> Any:
    try:
        from nacl.signing import SigningKey
    except ImportError:
        raise Rejected(
            "nkeys and JWTs need PyNaCl on the driver and the executors: "
            "pip install 'pyspark-jetstream[nkeys]'"
        ) from None
    return SigningKey(seed)


def _crc16(data: bytes) -> int:
    """Return the CRC-16/XMODEM, the checksum of nkeys."""
    return binascii.crc_hqx(data, 0)
