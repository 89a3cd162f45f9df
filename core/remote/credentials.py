"""Reads credentials files (user JWT and nkey seed), as `nsc` and `nats auth` write them.

    -----BEGIN NATS USER JWT-----
    eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ...
    ------END NATS USER JWT------
    -----BEGIN USER NKEY SEED-----
    SUAC...
    ------END USER NKEY SEED------

The JWT or the seed may be missing: a server may require no signature of the JWT, or know the public
key of the seed. The seed is not sent: it signs the server's nonce.
"""

import re
from base64 import b32decode, b32encode, urlsafe_b64encode
from binascii import Error, crc_hqx
from pathlib import Path

from core.client.errors import ClientError

_PART = re.compile(r"-----BEGIN ([A-Z ]+)-----\s*([\w.=+/-]+?)\s*-{5,6}END")
_SEED, _USER = 18 << 3, 20 << 3  # first letters S and U in base 32


class NoCredentials(ClientError):
    """Error: a credentials file cannot be used. Its text has no content of the file."""


def identify(path: str, nonce: str) -> dict[str, str]:
    """Return the fields of CONNECT that authenticate with the credentials file at `path`.

    `nonce` is the nonce in the server's INFO, which the seed signs.

    Raises:
        NoCredentials: The file cannot be read or contains no credentials, or PyNaCl is missing.
    """
    try:
        text = Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise NoCredentials(f"credentials {path}: {reason}") from None
    parts: dict[str, str] = dict(_PART.findall(text))
    jwt = parts.get("NATS USER JWT", "")
    seed = parts.get("USER NKEY SEED", "")
    if not parts and text.strip().startswith("SU"):
        seed = text.strip()
    if not jwt and not seed:
        raise NoCredentials(f"credentials {path}: there is neither a user JWT nor an nkey seed")
    fields = {"jwt": jwt} if jwt else {}
    if seed:
        try:
            key = _decode_seed(seed)
        except ValueError:
            raise NoCredentials(f"credentials {path}: the nkey seed is damaged") from None
        public, signature = _sign(key, nonce.encode())
        if nonce:
            fields["sig"] = urlsafe_b64encode(signature).rstrip(b"=").decode()
        if not jwt:
            fields["nkey"] = _public_nkey(public)
    return fields


def _decode_seed(seed: str) -> bytes:
    """Decode the 32 bytes of a user's nkey seed. Raises ValueError."""
    try:
        data = b32decode(seed + "=" * (-len(seed) % 8))
    except Error:
        raise ValueError("not base 32") from None
    if len(data) != 36 or crc_hqx(data[:-2], 0) != int.from_bytes(data[-2:], "little"):
        raise ValueError("wrong checksum")
    if data[0] & 0xF8 != _SEED or ((data[0] & 7) << 5 | data[1] >> 3) != _USER:
        raise ValueError("not the seed of a user")
    return data[2:34]


def _public_nkey(key: bytes) -> str:
    raw = bytes((_USER,)) + key
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode()


def _sign(key: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """Return the public key and the signature of a nonce (Ed25519)."""
    try:
        from nacl.signing import SigningKey
    except ImportError:
        raise NoCredentials("an nkey needs PyNaCl: pip install pynacl") from None
    signing = SigningKey(key)
    return bytes(signing.verify_key), bytes(signing.sign(nonce).signature)
