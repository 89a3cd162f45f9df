"""TLS of the HTTP port, from the files of a certificate and its key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ConfigError

if TYPE_CHECKING:
    import ssl

CERT, KEY = "--http-tls-cert", "--http-tls-key"


def tls_of(cert: str, key: str) -> ssl.SSLContext | None:
    """Return the TLS context of the HTTP port; None if both paths are empty.

    Args:
        cert: PEM file of the certificate and its chain.
        key: PEM file of the certificate's key, without a passphrase.

    Raises:
        ConfigError: One of the two paths is empty, or a file is unusable; the message names it.
    """
    if not cert and not key:
        return None
    if not cert or not key:
        raise ConfigError(CERT if key else KEY, f"{CERT} and {KEY} must be given together")
    import ssl  # imported late: starts without TLS are faster

    for flag, path in ((CERT, cert), (KEY, key)):
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(flag, f"cannot read {path}: {reason}") from error
        if b"-----BEGIN " not in text:
            raise ConfigError(flag, f"{path} is no PEM file")
        if b"ENCRYPTED" in text:
            raise ConfigError(flag, f"{path} is encrypted; expected a key without a passphrase")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(KEY, f"{key} is not the key of {cert}") from error
        raise ConfigError(CERT, f"{cert} with {key}: {error.reason or error}") from error
    return context
