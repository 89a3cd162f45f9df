"""Parser of the command line of `jetgate-nats-server`, with nats-server's flags and spellings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.errors import OperatorError
from dropin.config.options import Options

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class WrongFlag(Exception):
    """The command line is invalid.

    The command then prints this text and the usage, and exits with code 0.
    """


@dataclass(slots=True)
class Flags:
    """The parsed command line.

    Attributes:
        values: Values of the flags by canonical name; the last value of a repeated flag counts.
        rest: Arguments after the flags, from the first one that does not begin with `-`.
    """

    values: dict[str, Any] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """Return the value of a flag by its canonical name; None if it is not given."""
        return self.values.get(name)


_TEXT, _INT, _BOOL = "text", "int", "bool"

_FLAGS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("a", "addr", "net"), ("host", _TEXT)),
    **dict.fromkeys(("p", "port"), ("port", _INT)),
    **dict.fromkeys(("n", "name", "server_name"), ("server_name", _TEXT)),
    **dict.fromkeys(("P", "pid"), ("pid_file", _TEXT)),
    **dict.fromkeys(("m", "http_port"), ("http_port", _INT)),
    **dict.fromkeys(("ms", "https_port"), ("https_port", _INT)),
    **dict.fromkeys(("c", "config"), ("config", _TEXT)),
    "t": ("test", _BOOL),
    **dict.fromkeys(("sl", "signal"), ("signal", _TEXT)),
    "client_advertise": ("client_advertise", _TEXT),
    "ports_file_dir": ("ports_file_dir", _TEXT),
    **dict.fromkeys(("l", "log"), ("log_file", _TEXT)),
    **dict.fromkeys(("T", "logtime"), ("logtime", _BOOL)),
    "logtime_utc": ("logtime_utc", _BOOL),
    **dict.fromkeys(("s", "syslog"), ("syslog", _BOOL)),
    **dict.fromkeys(("r", "remote_syslog"), ("remote_syslog", _TEXT)),
    **dict.fromkeys(("D", "debug"), ("debug", _BOOL)),
    **dict.fromkeys(("V", "trace", "VV"), ("trace", _BOOL)),
    **dict.fromkeys(("DV", "DVV"), ("debug_trace", _BOOL)),
    "log_size_limit": ("log_size_limit", _INT),
    "max_traced_msg_len": ("max_traced_msg_len", _INT),
    **dict.fromkeys(("js", "jetstream"), ("jetstream", _BOOL)),
    **dict.fromkeys(("sd", "store_dir"), ("store_dir", _TEXT)),
    "dsn": ("dsn", _TEXT),
    "dsn_file": ("dsn_file", _TEXT),
    "dsn_password_file": ("dsn_password_file", _TEXT),
    "wait_for_db": ("wait_for_db", _INT),
    "user": ("user", _TEXT),
    "pass": ("pass", _TEXT),
    "auth": ("auth", _TEXT),
    "tls": ("tls", _BOOL),
    "tlsverify": ("tlsverify", _BOOL),
    "tlscert": ("tlscert", _TEXT),
    "tlskey": ("tlskey", _TEXT),
    "tlscacert": ("tlscacert", _TEXT),
    "routes": ("routes", _TEXT),
    "cluster": ("cluster", _TEXT),
    "cluster_listen": ("cluster", _TEXT),
    "cluster_name": ("cluster_name", _TEXT),
    "cluster_advertise": ("cluster_advertise", _TEXT),
    "no_advertise": ("no_advertise", _BOOL),
    "connect_retries": ("connect_retries", _INT),
    "profile": ("prof_port", _INT),
    **dict.fromkeys(("h", "help"), ("help", _BOOL)),
    **dict.fromkeys(("v", "version"), ("version", _BOOL)),
    "help_tls": ("help_tls", _BOOL),
}


def parse_flags(arguments: list[str]) -> Flags:
    """Parse the arguments of the command.

    Raises:
        WrongFlag: A flag is unknown, or its value is missing or invalid.
    """
    flags = Flags()
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if len(argument) < 2 or not argument.startswith("-"):
            break
        at += 1
        if argument == "--":
            break
        name, equals, value = argument[2 if argument.startswith("--") else 1 :].partition("=")
        if not name or name.startswith("-"):
            raise WrongFlag(f"bad flag syntax: {argument}")
        if name not in _FLAGS:
            raise WrongFlag(f"flag provided but not defined: -{name}")
        canonical, kind = _FLAGS[name]
        if not equals and kind != _BOOL:
            if at >= len(arguments):
                raise WrongFlag(f"flag needs an argument: -{name}")
            value, at = arguments[at], at + 1
        flags.values[canonical] = _value(name, kind, value if equals or kind != _BOOL else "true")
    flags.rest = arguments[at:]
    return flags


def _value(name: str, kind: str, value: str) -> Any:
    if kind == _INT:
        try:
            return int(value, 0)
        except ValueError:
            raise WrongFlag(f'invalid value "{value}" for flag -{name}: parse error') from None
    if kind == _BOOL:
        if value not in _TRUE | _FALSE:
            raise WrongFlag(f'invalid boolean value "{value}" for -{name}: parse error')
        return value in _TRUE
    return value


def apply(flags: Flags, options: Options) -> None:
    """Store the values of the flags in the options, where they replace those of the file.

    Raises OperatorError if a URL is invalid, or `--routes` is given without a cluster address.
    """
    for name, value in flags.values.items():
        if (special := _SPECIAL.get(name)) is not None:
            special(options, value)
        elif name in _PLAIN:
            setattr(options, name, value)
    _apply_credentials(flags, options)
    cluster = options.cluster
    if flags.get("routes") and not (cluster.host or cluster.port):
        raise OperatorError("solicited routes require cluster capabilities, e.g. --cluster")


_PLAIN = frozenset(
    [
        "host",
        "port",
        "server_name",
        "pid_file",
        "http_port",
        "client_advertise",
        "ports_file_dir",
        "log_file",
        "logtime",
        "logtime_utc",
        "syslog",
        "remote_syslog",
        "debug",
        "trace",
        "log_size_limit",
        "max_traced_msg_len",
        "prof_port",
    ]
)


def _apply_credentials(flags: Flags, options: Options) -> None:
    user, password, token = flags.get("user"), flags.get("pass"), flags.get("auth")
    if user and token:
        options.refusals.append("cannot have a user/pass and a token")
    elif user:
        options.authorization = {"user": user, "pass": password or ""}
    elif token:
        options.authorization = {"token": token}
    elif password:
        options.refusals.append("--pass needs --user")


def _store_dir(options: Options, value: str) -> None:
    options.store_dir = options.jetstream.store_dir = value


def _jetstream(options: Options, value: bool) -> None:
    options.jetstream.enabled = value


def _database(name: str) -> Callable[[Options, Any], None]:
    def apply(options: Options, value: str) -> None:
        """Use this database instead of the one in the configuration file."""
        jetstream = options.jetstream
        jetstream.dsn = jetstream.dsn_file = ""
        setattr(jetstream, name, value)
        jetstream.enabled = jetstream.enabled or bool(value)

    return apply


def _jetstream_member(name: str) -> Callable[[Options, Any], None]:
    return lambda options, value: setattr(options.jetstream, name, value)


def _debug_trace(options: Options, value: bool) -> None:
    options.debug = options.trace = value


def _refused(flag: str) -> Callable[[Options, Any], None]:
    def refuse(options: Options, value: Any) -> None:
        if value:
            options.refusals.append(f"{flag} is not served")

    return refuse


def _cluster(options: Options, value: str) -> None:
    from dropin.config.cluster_flags import listen_for_routes

    listen_for_routes(options, value)


def _routes(options: Options, value: str) -> None:
    from dropin.config.cluster_flags import dial_routes

    dial_routes(options, value)


def _cluster_member(name: str) -> Callable[[Options, Any], None]:
    return lambda options, value: setattr(options.cluster, name, value)


_SPECIAL: dict[str, Callable[[Options, Any], None]] = {
    "store_dir": _store_dir,
    "jetstream": _jetstream,
    "dsn": _database("dsn"),
    "dsn_file": _database("dsn_file"),
    "dsn_password_file": _jetstream_member("dsn_password_file"),
    "wait_for_db": _jetstream_member("wait_for_db"),
    "debug_trace": _debug_trace,
    "cluster": _cluster,
    "routes": _routes,
    "cluster_name": _cluster_member("name"),
    "cluster_advertise": _cluster_member("advertise"),
    "no_advertise": _cluster_member("no_advertise"),
    "connect_retries": _cluster_member("connect_retries"),
    **{name: _refused(f"--{name}") for name in ("https_port", "tls", "tlsverify")},
    **{name: _refused(f"--{name}") for name in ("tlscert", "tlskey", "tlscacert")},
}

USAGE = """
Usage: nats-server [options]

Server Options:
    -a, --addr, --net <host>         Bind to host address (default: 0.0.0.0)
    -p, --port <port>                Use port for clients (default: 4222)
    -n, --name
        --server_name <server_name>  Server name (default: auto)
    -P, --pid <file>                 File to store PID
    -m, --http_port <port>           Use port for http monitoring
    -c, --config <file>              Configuration file
    -t                               Test configuration and exit
    -sl,--signal <signal>[=<pid>]    Send signal to a server (ldm, stop, quit, term, reopen, reload)
                                     <pid> is a process id or the path of a PID file
        --client_advertise <string>  Client URL to advertise
        --ports_file_dir <dir>       Creates a ports file (<executable_name>_<pid>.ports)

Logging Options:
    -l, --log <file>                 File to redirect log output
    -T, --logtime                    Timestamp log entries (default: true)
        --logtime_utc                Timestamps in UTC instead of local time (default: false)
    -s, --syslog                     Log to syslog
    -r, --remote_syslog <addr>       Syslog server address (udp://localhost:514)
    -D, --debug                      Enable debugging output
        --log_size_limit <limit>     Log file size limit

JetStream Options:
    -js, --jetstream                 Enable JetStream (an embedded PostgreSQL in the store)
    -sd, --store_dir <dir>           Set the storage directory
        --dsn <dsn>                  Enable JetStream over a PostgreSQL that is there, shared
                                     with other servers (JETGATE_DSN)
        --dsn_file <file>            File that holds what --dsn would say (JETGATE_DSN_FILE)
        --dsn_password_file <file>   Password of its role (JETGATE_DSN_PASSWORD_FILE)
        --wait_for_db <seconds>      Wait for it at the start (JETGATE_WAIT_FOR_DB)

Authorization Options:
        --user <user>                User required for connections
        --pass <password>            Password required for connections
        --auth <token>               Authorization token required for connections

Cluster Options:
        --routes <rurl-1, rurl-2>    Routes to solicit and connect
        --cluster <cluster-url>      Cluster URL for solicited routes
        --cluster_name <string>      Cluster Name, if not set one will be dynamically generated
        --no_advertise <bool>        Do not advertise known cluster information to clients
        --cluster_advertise <string> Cluster URL to advertise to other servers
        --connect_retries <number>   For implicit routes, number of connect retries
        --cluster_listen <url>       Cluster url from which members can solicit routes

Not served yet, and refused: TLS (--tls...), --https_port.

Common Options:
    -h, --help                       Show this message
    -v, --version                    Show version

"""
