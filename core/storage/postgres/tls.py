"""TLS with PostgreSQL: the options of a connection string, and contexts of the ssl module."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from core.errors import OperatorError

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SYSTEM = "system"
"""Value of sslrootcert for the certificates of the operating system."""
VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_OURS = Path("~/.postgresql")
_NO_CHECK = ("allow", "prefer", "require")


@dataclass(frozen=True, slots=True)
class Tls:
    """The encryption of sessions over TCP, with libpq's names. A file name is empty if not given.

    Attributes:
        mode: One of `MODES`.
        rootcert: File of the trusted authorities, or `SYSTEM`.
        cert: File of the client certificate.
        key: File of its key.
        key_password: Password of the key.
        crl: File of revoked certificates.
        sends_cert: True if the client certificate is sent.
        is_direct: True if TLS begins without an SSLRequest, as is possible since PostgreSQL 17.
        least: Lowest version of TLS, a name in `VERSIONS`.
        most: Highest version; empty: any.
    """

    mode: str = "prefer"
    rootcert: str = ""
    cert: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    crl: str = ""
    sends_cert: bool = True
    is_direct: bool = False
    least: str = "TLSv1.2"
    most: str = ""

    def context(self) -> ssl.SSLContext:
        """Return an SSL context for one session. The files are read at each call.

        Raises:
            OperatorError: A file cannot be used; the text names it.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.mode == "verify-full"
        context.minimum_version = VERSIONS[self.least]
        if self.most:
            context.maximum_version = VERSIONS[self.most]
        if ssl.HAS_ALPN:
            context.set_alpn_protocols(["postgresql"])
        self._trust(context)
        self._identify(context)
        return context

    def optional_dsn(self) -> str:
        """Return a connection string with the TLS options, for modes `allow` and `prefer`.

        asyncpg needs it if the server may refuse TLS. Raises OperatorError if the client
        certificate cannot be used.
        """
        said = {
            "sslcert": self.cert,
            "sslkey": self.key,
            "sslpassword": self.key_password,
            "ssl_min_protocol_version": self.least,
            "ssl_max_protocol_version": self.most,
        }
        if self.sends_cert:
            self._identify(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # its errors name the files
        pairs = [f"{keyword}={quote(value, safe='')}" for keyword, value in said.items() if value]
        return f"postgresql://?{'&'.join(pairs)}"

    def _trust(self, context: ssl.SSLContext) -> None:
        """Load the authorities that may have signed the server's certificate."""
        context.verify_mode = ssl.CERT_REQUIRED
        root = self.rootcert or _default("root.crt")
        if self.rootcert == SYSTEM:
            context.load_default_certs()
        elif self.mode in _NO_CHECK[:2] or (self.mode == "require" and not Path(root).exists()):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return
        else:
            _load(context, "sslrootcert", root)
        crl = self.crl or _default("root.crl")
        if self.crl or Path(crl).exists():
            _load(context, "sslcrl", crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN

    def _identify(self, context: ssl.SSLContext) -> None:
        """Load the client certificate, if there is one. Raises OperatorError."""
        cert = self.cert or _default("postgresql.crt")
        if not self.sends_cert or not (self.cert or Path(cert).exists()):
            return
        key = self.key or _default("postgresql.key")
        for option, path in (("sslcert", cert), ("sslkey", key)):
            _readable(option, path)
        try:
            context.load_cert_chain(cert, key, password=lambda: self.key_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise OperatorError(
                f"sslcert {cert} and sslkey {key} cannot be used: no PEM files of a pair,"
                " or the wrong sslpassword"
            ) from error


def _default(name: str) -> str:
    try:
        return str((_OURS / name).expanduser())
    except RuntimeError:  # a user without a home directory
        return str(Path("/nonexistent") / name)


def _load(context: ssl.SSLContext, option: str, path: str) -> None:
    _readable(option, path)
    try:
        context.load_verify_locations(cafile=path)
    except (ssl.SSLError, OSError) as error:
        raise OperatorError(f"{option} {path}: it holds no certificates in PEM form") from error


def _readable(option: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OperatorError(f"{option} {path}: {reason}") from error
