"""Parser of connection strings as libpq reads them: into keywords and values.

Both forms are supported, `postgresql://user@host/db?key=value` and `host=... dbname=...`, and
service files. No error repeats a part of the text: after an unescaped character, a part of the
password can look like anything else.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from core.errors import ConfigError

SCHEMES = ("postgresql://", "postgres://")
_EXPECTED = "expected postgresql://user@host:port/name, or host=... dbname=... user=..."
_SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key")
# The environment variables, and the keywords they set.
VARIABLES = {
    "PGHOST": "host",
    "PGHOSTADDR": "hostaddr",
    "PGPORT": "port",
    "PGDATABASE": "dbname",
    "PGUSER": "user",
    "PGPASSWORD": "password",
    "PGPASSFILE": "passfile",
    "PGREQUIREAUTH": "require_auth",
    "PGCHANNELBINDING": "channel_binding",
    "PGSERVICE": "service",
    "PGSERVICEFILE": "servicefile",
    "PGOPTIONS": "options",
    "PGAPPNAME": "application_name",
    "PGSSLMODE": "sslmode",
    "PGSSLNEGOTIATION": "sslnegotiation",
    "PGSSLCERT": "sslcert",
    "PGSSLKEY": "sslkey",
    "PGSSLCERTMODE": "sslcertmode",
    "PGSSLROOTCERT": "sslrootcert",
    "PGSSLCRL": "sslcrl",
    "PGSSLCRLDIR": "sslcrldir",
    "PGSSLSNI": "sslsni",
    "PGREQUIREPEER": "requirepeer",
    "PGSSLMINPROTOCOLVERSION": "ssl_min_protocol_version",
    "PGSSLMAXPROTOCOLVERSION": "ssl_max_protocol_version",
    "PGGSSENCMODE": "gssencmode",
    "PGKRBSRVNAME": "krbsrvname",
    "PGGSSLIB": "gsslib",
    "PGGSSDELEGATION": "gssdelegation",
    "PGCONNECT_TIMEOUT": "connect_timeout",
    "PGCLIENTENCODING": "client_encoding",
    "PGTARGETSESSIONATTRS": "target_session_attrs",
    "PGLOADBALANCEHOSTS": "load_balance_hosts",
    "PGMINPROTOCOLVERSION": "min_protocol_version",
    "PGMAXPROTOCOLVERSION": "max_protocol_version",
}
_WITHOUT_VARIABLE = (
    "fallback_application_name",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "replication",
    "scram_client_key",
    "scram_server_key",
    "sslcompression",
    "sslkeylogfile",
    "sslpassword",
    "tcp_user_timeout",
    *(f"oauth_{name}" for name in ("client_id", "client_secret", "issuer", "scope")),
)
KEYWORDS = frozenset((*VARIABLES.values(), *_WITHOUT_VARIABLE))
"""Every keyword of a connection string, by libpq 18."""

# The directory of the system-wide service file in Debian's libpq.
_SYSTEM_DIRECTORY = "/etc/postgresql-common"


def split(text: str, place: str) -> dict[str, str]:
    """Parse a connection string; return the value of each keyword it contains.

    Args:
        text: The connection string, as a URL or as `keyword=value` pairs.
        place: The option that contains it, for errors: `--dsn`.

    Raises:
        ConfigError: The text has neither form; the error does not repeat its content.
    """
    for scheme in SCHEMES:
        if text.startswith(scheme):
            return _split_url(text.removeprefix(scheme), place)
    if "=" not in text or "://" in text.partition("=")[0]:
        raise ConfigError(place, _EXPECTED)
    return _collect(_pairs(text, place), place)


def service(name: str, file: str, environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the keywords of a service in a libpq service file.

    Each has its value and its place (file and line) for errors.

    Args:
        name: Name of the service.
        file: User's service file, read before the system's; empty: `~/.pg_service.conf`.
        environment: Environment variables; PGSYSCONFDIR is the directory of the system's file.

    Raises:
        ConfigError: The service does not exist, or the file cannot be used.
    """
    directory = environment.get("PGSYSCONFDIR") or _SYSTEM_DIRECTORY
    own = Path(file) if file else Path("~/.pg_service.conf").expanduser()
    places = [own, Path(directory) / "pg_service.conf"]
    for path in places:
        if file and path is own and not path.exists():
            raise ConfigError(f"service {name}", f"{path} is not there")
        found = _in_file(path, name)
        if found is not None:
            return found
    where = " nor ".join(map(str, places))
    raise ConfigError(f"service {name}", f"is neither in {where}")


# -- URLs ------------------------------------------------------------------------------------


def _split_url(rest: str, place: str) -> dict[str, str]:
    """Split the text behind the scheme: `user:password@host:port,host:port/name?key=value`."""
    found: dict[str, str] = {}
    login = re.match(r"([^@/]*)@", rest)
    if login is not None:
        user, _, password = login[1].partition(":")
        found["user"] = _decoded(user, place, "the user")
        found["password"] = _decoded(password, place, "the password")
        rest = rest[login.end() :]
    before, _, query = rest.partition("?")
    if "@" in before:
        raise ConfigError(
            place, "there is an @ behind the host: in a password, @ is written %40 and / is %2F"
        )
    hosts, _, name = before.partition("/")
    found |= _hosts(hosts, place)
    found["dbname"] = _decoded(name, place, "the database")
    found = {keyword: value for keyword, value in found.items() if value}
    return found | _collect(_query(query, place), place)


def _hosts(text: str, place: str) -> dict[str, str]:
    hosts, ports = [], []
    for each in text.split(","):
        parts = re.fullmatch(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::(.*))?", each)
        if parts is None:
            raise ConfigError(
                place, "the host: an IPv6 address stands in brackets, a port behind a colon"
            )
        hosts.append(_decoded(parts[1] or parts[2] or "", place, "the host"))
        ports.append(parts[3] or "")
    return {"host": ",".join(hosts), "port": ",".join(ports) if any(ports) else ""}


def _query(text: str, place: str) -> Iterator[tuple[str, str]]:
    last = ""
    for field in text.split("&") if text else ():
        name, equals, value = field.partition("=")
        if not equals or "=" in value:
            raise ConfigError(place, f"{_behind(last)} is no key=value; & is written %26, = is %3D")
        last = _decoded(name, place, "the name of an option")
        part = f"the option {last}" if last in KEYWORDS else "an option"
        yield last, _decoded(value, place, part)


def _decoded(text: str, place: str, part: str) -> str:
    """Decode percent-encoding. Raises ConfigError, whose text does not repeat the value."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ConfigError(
            place, f"{part}: % is followed by two hexadecimal digits; itself, it is %25"
        )
    raw = re.sub(rb"%(..)", lambda hit: bytes([int(hit[1], 16)]), text.encode("utf-8", "replace"))
    if b"\0" in raw:
        raise ConfigError(place, f"{part}: %00 cannot be part of it")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ConfigError(place, f"{part}: the decoded value is not UTF-8") from None


# -- keywords --------------------------------------------------------------------------------

_WORD = re.compile(r"\s*([^\s=]*)\s*(=?)\s*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'(?=\s|$)", re.DOTALL)
_PLAIN = re.compile(r"((?:[^\s\\']|\\.)*)(?=\s|$)", re.DOTALL)


def _pairs(text: str, place: str) -> Iterator[tuple[str, str]]:
    last, at, text = "", 0, text.rstrip()
    while at < len(text):
        word = _WORD.match(text, at)
        assert word is not None, "everything in it is optional"
        if not word[1] or not word[2]:
            raise ConfigError(place, f"{_behind(last)} is no key=value; quote 'values with blanks'")
        value = (_QUOTED if text.startswith("'", word.end()) else _PLAIN).match(text, word.end())
        if value is None:
            what = f"the value of {word[1]}" if word[1] in KEYWORDS else _behind(last)
            raise ConfigError(place, rf"{what} is quoted wrongly: '...', with \' and \\ inside")
        last, at = word[1], value.end()
        yield last, re.sub(r"\\(.)", r"\1", value[1], flags=re.DOTALL)


def _collect(pairs: Iterator[tuple[str, str]], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        if name == "ssl" and value == "true":  # as in JDBC URLs
            name, value = "sslmode", "require"
        if name not in KEYWORDS:
            hidden = any(secret in found for secret in _SECRETS)
            what = "an option behind the password" if hidden else f'option "{name}"'
            raise ConfigError(place, f"{what} is unknown to libpq; settings go into options=-c...")
        found[name] = value
    return found


def _behind(last: str) -> str:
    return f"what follows {last}=" if last in KEYWORDS else "the first option"


# -- files of services -----------------------------------------------------------------------


def _in_file(path: Path, name: str) -> dict[str, tuple[str, str]] | None:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(str(path), f"cannot be read: {reason.lower()}") from error
    found: dict[str, tuple[str, str]] | None = None
    is_inside = False
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if found is not None:
                break  # the first section with the name counts
            is_inside = line == f"[{name}]"
            found = {} if is_inside else None
        elif is_inside and found is not None:
            keyword, equals, value = line.partition("=")
            place = f"{path}, line {number}"
            if not equals or keyword not in KEYWORDS - {"service", "servicefile"}:
                raise ConfigError(place, "expected a keyword of libpq, =, and its value")
            found[keyword] = (value, place)
    return found
