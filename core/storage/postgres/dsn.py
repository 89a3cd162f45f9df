"""Combines a connection string with service files and environment variables, as libpq does.

Every keyword of libpq 18 is either implemented or refused by name; none is ignored. Errors and
displayed addresses contain no secret.
"""

import getpass
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from core.errors import ConfigError
from core.storage.postgres import conninfo
from core.storage.postgres.passfile import password_for, password_in
from core.storage.postgres.tls import MODES, SYSTEM, VERSIONS, Tls

_PORT = 5432
# Directories of the server's socket: Debian, other systems, PostgreSQL's own default.
_SOCKETS = ("/var/run/postgresql", "/run/postgresql", "/tmp")
_PLAIN = ("", "0", "false", "disable")
# Unsupported keywords: the refused values (empty: all), and the alternative.
_REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "hostaddr": ((), "name the address as host"),
    "require_auth": ((), "the server's pg_hba.conf decides"),
    "channel_binding": (("require",), "sslmode=verify-full proves the identity of the server"),
    "gssencmode": (("require",), "encrypt with sslmode=verify-full"),
    "gssdelegation": (("1",), "leave it out"),
    "replication": (("true", "on", "yes", "1", "database"), "leave it out"),
    "requirepeer": ((), "leave it out"),
    "sslcrldir": ((), "name one file as sslcrl"),
    "sslsni": (("0",), "leave it out"),
    "sslcertmode": (("require",), "the server's pg_hba.conf decides: clientcert=verify-full"),
    "sslkeylogfile": ((), "leave it out"),
    "scram_client_key": ((), "give a password"),
    "scram_server_key": ((), "give a password"),
    "oauth_client_id": ((), "give a password or a certificate"),
    "oauth_client_secret": ((), "give a password or a certificate"),
    "oauth_issuer": ((), "give a password or a certificate"),
    "oauth_scope": ((), "give a password or a certificate"),
    "min_protocol_version": (("3.2", "latest"), "the protocol version is 3.0"),
    "target_session_attrs": (
        ("standby", "read-only", "prefer-standby"),
        "writes need the primary: any, primary or read-write",
    ),
}
_CHOICES = {
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "gsslib": ("gssapi", "sspi"),
    "keepalives": ("0", "1"),
    "load_balance_hosts": ("disable", "random"),
    "sslcertmode": ("disable", "allow", "require"),
    "sslmode": MODES,
    "sslnegotiation": ("postgres", "direct"),
    "sslsni": ("0", "1"),
    "ssl_min_protocol_version": tuple(VERSIONS),
    "ssl_max_protocol_version": tuple(VERSIONS),
    "target_session_attrs": (
        *("any", "primary", "read-write"),
        *("standby", "read-only", "prefer-standby"),
    ),
    "client_encoding": ("auto", "UTF8", "utf8", "UTF-8", "utf-8"),
}
_NUMBERS = (
    *("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    "tcp_user_timeout",
)


@dataclass(frozen=True, slots=True)
class Host:
    """A PostgreSQL server to connect to.

    Attributes:
        name: Host name, address, or directory of a Unix socket; empty: the default socket
            directory.
        port: TCP port, or the number in the name of the socket file.
    """

    name: str
    port: int = _PORT

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name or "the default socket"
        return name if self.port == _PORT else f"{name}:{self.port}"

    @property
    def target(self) -> str:
        """Host name, or directory of the Unix socket, to connect to.

        The default socket is searched in the usual directories at each access.
        """
        if self.name:
            return self.name
        file = f".s.PGSQL.{self.port}"
        return next((at for at in _SOCKETS if Path(at, file).exists()), _SOCKETS[0])


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """TCP keep-alive of the client's side, with libpq's meanings.

    Attributes:
        is_on: True to use keep-alive.
        idle: Idle time before the first probe, in seconds.
        interval: Time between two probes, in seconds.
        count: Number of unanswered probes after which the connection is dead.
        user_timeout_ms: Time for which sent data may stay unacknowledged, in milliseconds.
    """

    is_on: bool = True
    idle: int = 3
    interval: int = 1
    count: int = 3
    user_timeout_ms: int = 6000


@dataclass(frozen=True, slots=True)
class Dsn:
    """The result of parsing a connection string: a database, and how to connect to it.

    Attributes:
        hosts: The possible servers, in order.
        user: The role.
        database: Name of the database.
        wants_primary: True if only a host that accepts writes is used.
        is_shuffled: True if the hosts are tried in random order.
        connect_timeout: Time limit for connecting to one host, in seconds; None if not given.
        keep_alive: TCP keep-alive of the client's side.
        tls: Encryption of sessions over TCP.
        settings: Startup parameters of sessions, such as `options`.
        application_name: Prefix of the application name; the purpose of the session follows.
        krbsrvname: Kerberos service name; empty: the default.
        gsslib: GSS library on Windows; empty: the default.
    """

    hosts: tuple[Host, ...]
    user: str
    database: str
    wants_primary: bool = False
    is_shuffled: bool = False
    connect_timeout: float | None = None
    keep_alive: KeepAlive = field(default_factory=KeepAlive)
    tls: Tls = field(default_factory=Tls)
    settings: Mapping[str, str] = field(default_factory=dict)
    application_name: str = "jetgate"
    krbsrvname: str = ""
    gsslib: str = ""
    _password: str = field(default="", repr=False)
    _password_file: str = ""
    _passfile: str = ""

    @property
    def address(self) -> str:
        """Hosts and name of the database, for messages to operators; without user and password."""
        return f"{','.join(map(str, self.hosts))}/{self.database}"

    def shuffled(self) -> tuple[Host, ...]:
        """Return the hosts in the order in which to try them.

        Random if the connection string asks for it.
        """
        if not self.is_shuffled:
            return self.hosts
        return tuple(random.sample(self.hosts, len(self.hosts)))

    def password(self, host: Host) -> str:
        """Return the password for a host; empty if there is none.

        Password files are read at each call.

        Raises:
            OperatorError: The file that contains only the password cannot be read or is empty.
        """
        if self._password_file:
            return password_in(self._password_file)
        if self._password or not self._passfile:
            return self._password
        name = host.name or "localhost"
        return password_for(self._passfile, name, host.port, self.database, self.user) or ""

    def url(self, *, user: str = "") -> str:
        """Return a connection string to display to users, without passwords, for the role `user`.

        Empty `user`: the role of this connection string.
        """
        login = quote(user or self.user, safe="")
        query, at = [], ""
        first = self.hosts[0]
        if len(self.hosts) == 1 and not first.target.startswith("/"):
            at = str(first)
        else:
            query.append(f"host={','.join(quote(host.target, safe='/') for host in self.hosts)}")
            if any(host.port != _PORT for host in self.hosts):
                query.append(f"port={','.join(str(host.port) for host in self.hosts)}")
        if len(self.hosts) > 1:
            query.append("target_session_attrs=primary")
        for keyword, value in self._shown_tls().items():
            query.append(f"{keyword}={quote(value, safe='/')}")
        told = f"?{'&'.join(query)}" if query else ""
        return f"postgresql://{login}@{at}/{quote(self.database, safe='')}{told}"

    def _shown_tls(self) -> dict[str, str]:
        tls = self.tls
        mode = "" if tls.mode == Tls().mode else tls.mode
        found = {"sslmode": mode, "sslrootcert": tls.rootcert}
        return {keyword: value for keyword, value in found.items() if value}


def read(
    text: str,
    place: str = "--dsn",
    *,
    environment: Mapping[str, str] = os.environ,
    password_file: str = "",
) -> Dsn:
    """Parse a connection string and combine it with service files and environment variables.

    Args:
        text: The connection string, in one of libpq's two forms.
        place: The option that contains it, for errors.
        environment: Variables (PGHOST and the like) for keywords that the text leaves out.
        password_file: File that contains only the password; it precedes all other sources.

    Raises:
        ConfigError: The string cannot be used; the error names the keyword without its value.
    """
    values = {keyword: (value, place) for keyword, value in conninfo.split(text, place).items()}
    variables = {
        keyword: (environment[name], name)
        for name, keyword in conninfo.VARIABLES.items()
        if environment.get(name)
    }
    service, _ = values.get("service") or variables.get("service") or ("", "")
    if service:
        file, _ = values.get("servicefile") or variables.get("servicefile") or ("", "")
        values = conninfo.service(service, file, environment) | values
    values = variables | values
    return _made({keyword: each for keyword, each in values.items() if each[0]}, password_file)


def _made(values: Mapping[str, tuple[str, str]], password_file: str) -> Dsn:
    _check(values)
    given = {keyword: value for keyword, (value, _) in values.items()}
    hosts = _hosts(values)
    user = given.get("user") or _login_name()
    asked = given.get("target_session_attrs", "any") != "any"
    options = {"options": given["options"]} if "options" in given else {}
    seconds = int(given.get("connect_timeout", "0"))
    name = given.get("application_name") or given.get("fallback_application_name") or "jetgate"
    home = os.path.expanduser("~")
    return Dsn(
        hosts,
        user,
        given.get("dbname") or user,
        wants_primary=asked or len(hosts) > 1,
        is_shuffled=given.get("load_balance_hosts") == "random",
        connect_timeout=float(seconds) if seconds > 0 else None,
        keep_alive=_keep_alive(given),
        tls=_tls(values),
        settings=options,
        application_name=name,
        krbsrvname=given.get("krbsrvname", ""),
        gsslib=given.get("gsslib", ""),
        _password="" if password_file else given.get("password", ""),
        _password_file=password_file,
        _passfile=given.get("passfile") or f"{home}/.pgpass",
    )


def _check(values: Mapping[str, tuple[str, str]]) -> None:
    """Check the values of all keywords. Raises ConfigError for an invalid or unsupported one."""
    for keyword, (value, place) in values.items():
        choices = _CHOICES.get(keyword)
        if choices is not None and value not in choices:
            expected = ", ".join(choices[:-1]) + f" or {choices[-1]}"
            raise ConfigError(place, f"{keyword}: expected {expected}")
        if keyword in _NUMBERS and not (
            value.lstrip("-").isascii() and value.lstrip("-").isdigit()
        ):
            raise ConfigError(place, f"{keyword}: expected a number")
        if keyword in _REFUSED:
            refused, instead = _REFUSED[keyword]
            if value in refused or (not refused and value not in _PLAIN):
                shown = f"{keyword}={value}" if refused else keyword
                raise ConfigError(place, f"{shown} cannot be had: {instead}")


def _hosts(values: Mapping[str, tuple[str, str]]) -> tuple[Host, ...]:
    names, at = values.get("host", ("", ""))
    numbers, place = values.get("port", ("", at))
    hosts, ports = names.split(","), numbers.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ConfigError(place, f"port: {len(ports)} of them for {len(hosts)} hosts")
    for port in ports:
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise ConfigError(place, "port: expected a number from 1 to 65535")
    return tuple(Host(n, int(p or _PORT)) for n, p in zip(hosts, ports, strict=True))


def _keep_alive(given: Mapping[str, str]) -> KeepAlive:
    ours = KeepAlive()
    # In libpq zero means the system's default; here it means ours.
    return replace(
        ours,
        is_on=given.get("keepalives") != "0",
        idle=int(given.get("keepalives_idle", "0")) or ours.idle,
        interval=int(given.get("keepalives_interval", "0")) or ours.interval,
        count=int(given.get("keepalives_count", "0")) or ours.count,
        user_timeout_ms=int(given.get("tcp_user_timeout", "0")) or ours.user_timeout_ms,
    )


def _tls(values: Mapping[str, tuple[str, str]]) -> Tls:
    given = {keyword: value for keyword, (value, _) in values.items()}
    root = given.get("sslrootcert", "")
    mode = given.get("sslmode") or ("verify-full" if root == SYSTEM else "prefer")
    if root == SYSTEM and mode != "verify-full":
        place = values.get("sslmode", values["sslrootcert"])[1]
        raise ConfigError(place, "sslrootcert=system needs sslmode=verify-full")
    is_direct = given.get("sslnegotiation") == "direct"
    if is_direct and mode in ("disable", "allow", "prefer"):
        place = values["sslnegotiation"][1]
        raise ConfigError(place, "sslnegotiation=direct needs sslmode=require or more")
    return Tls(
        mode=mode,
        rootcert=root,
        cert=given.get("sslcert", ""),
        key=given.get("sslkey", ""),
        key_password=given.get("sslpassword", ""),
        crl=given.get("sslcrl", ""),
        sends_cert=given.get("sslcertmode") != "disable",
        is_direct=is_direct,
        least=given.get("ssl_min_protocol_version", "TLSv1.2"),
        most=given.get("ssl_max_protocol_version", ""),
    )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        raise ConfigError(
            "--dsn", f"names no user, and the system knows no name for user {os.getuid()}"
        ) from None
