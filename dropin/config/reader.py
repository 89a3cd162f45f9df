"""Conversion of a parsed configuration file to `Options`, key by key.

All errors are collected and reported together, each as `file:line:column: text` with nats-server's
texts.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.config.grammar import Item, Reader, parse, plain
from core.errors import ConfigError
from core.model.release import FEATURE_FLAGS
from core.model.tags import clean_tags
from core.units import NANOS_PER_SECOND, Seconds
from dropin.config import unserved
from dropin.config.authorization_check import check_authorization
from dropin.config.digest import digest
from dropin.config.durations import duration, size
from dropin.config.options import Options
from dropin.config.unserved_check import check_accounts, check_unserved
from dropin.config.value_types import (
    GO_TYPES,
    GivenUp,
    Odd,
    Placeless,
    Wrong,
    WrongMember,
    WrongType,
    flag,
    in_words,
    integer,
    is_not,
    period,
    place,
    text,
    texts,
    unknown,
)
from dropin.config.websocket_check import check_websocket

_INT_32_MAX = (1 << 31) - 1
_LAME_DUCK_MIN_S = 30.0


class Mistakes(Exception):
    """The configuration file has invalid keys or values; the text has one line for each error."""


def read(
    text: str, name: str, into: Options, reader: Reader, environment: Mapping[str, str]
) -> None:
    """Parse a configuration file and store its values in the options.

    Args:
        text: Text of the file.
        name: Its name, for error texts.
        into: Receives the values.
        reader: Reads included files.
        environment: Variables that the file may refer to.

    Raises:
        GrammarError: The text has a syntax error.
        Mistakes: Keys or values are invalid.
    """
    top = parse(text, name, reader, environment)
    if not top:  # a start ignores this, a check does not
        into.oddities.append(f"{name}: config has no values or is empty")
    into.config_file = name
    into.digest = digest(top)
    mistakes: list[str] = []
    _read_map(_TOP, top, into, mistakes, "")
    if into.store_dir and into.jetstream.store_dir:
        place = next(item.place for key, item in top.items() if key.lower() in _STORE_DIR)
        mistakes.append(f"{place}: Duplicate 'store_dir' configuration")
    if mistakes:
        raise Mistakes("\n".join([*into.oddities, *mistakes]) + "\n")


Setter = Callable[[Options, Any], None]
"""Function that stores a plain value, without line and column, in the options.

It raises Wrong if the value is invalid.
"""


def _read_map(
    setters: Mapping[str, Setter],
    members: dict[str, Item],
    into: Options,
    mistakes: list[str],
    prefix: str,
) -> None:
    for key, item in members.items():
        try:
            _read_member(setters, prefix + key.lower(), key, item, into, mistakes)
        except WrongMember as wrong:
            mistakes.append(f"{item.value[wrong.key].place}: {wrong}")
        except Placeless as wrong:
            mistakes.append(str(wrong))
        except WrongType as wrong:
            if wrong.odd:
                into.oddities.append(f"{item.place}: {wrong.odd}")
                wrong.odd = ""
            if prefix.startswith("jetstream"):
                raise  # nats-server stops reading the whole block here
            mistakes.append(f"{item.place}: {wrong}")
        except GivenUp as wrong:
            mistakes.append(f"{item.place}: {wrong}")
            return
        except Odd as odd:
            into.oddities.append(f"{item.place}: {odd}")
        except Wrong as wrong:
            mistakes.append(f"{item.place}: {wrong}")


def _read_member(
    setters: Mapping[str, Setter],
    name: str,
    key: str,
    item: Item,
    into: Options,
    mistakes: list[str],
) -> None:
    """Store one key of the configuration file in the options; raises Wrong if it is invalid.

    `name` is the key in lower case, preceded by the keys of the enclosing blocks.
    """
    block = _BLOCKS.get(name)
    if name in _MAPPINGS:
        # Imported late: starts without mappings are faster
        from core.config.mappings import mappings_of

        into.mappings = mappings_of(item, mistakes)
    elif name == "cluster":
        from dropin.config.cluster import take_cluster

        take_cluster(item, into, mistakes)
    elif name in _CHECKS and isinstance(item.value, dict):
        _CHECKS[name](item, mistakes, into.oddities)
        setters[name](into, plain(item))
    elif block is not None and isinstance(item.value, dict):
        if block is _JETSTREAM:  # a member may still disable it
            into.jetstream.enabled = into.jetstream.is_block = True
        _read_map(block, item.value, into, mistakes, f"{name}.")
    elif (setter := setters.get(key.lower())) is not None:
        setter(into, plain(item))
    elif not item.is_variable:
        mistakes.append(f"{item.place}: {unknown(key)}")


# -- kinds of values


def small(name: str, most: int = _INT_32_MAX, least: int = -(1 << 63)) -> Callable[[Any], int]:
    """Return a function that checks an integer; it raises Wrong outside `least` to `most`.

    The error text for a value below `least` is that for a negative one, as in nats-server.
    """

    def convert(value: Any) -> int:
        if integer(value) > most:
            raise Wrong(f"{name} value is too big")
        if value < least:
            raise Wrong(f"{name} value can not be negative")
        return integer(value)

    return convert


def seconds(name: str) -> Callable[[Any], Seconds]:
    """Return a function that converts a duration to seconds; it raises Wrong for another text.

    `name` is the key, for the error text.
    """

    def convert(value: Any) -> Seconds:
        try:
            return duration(text(value))
        except ValueError as error:
            raise Wrong(f"error parsing {name}: {error}") from None

    return convert


def _duration(name: str, inner: str = "") -> Setter:
    """Return a setter of a duration; it accepts a number of seconds with a warning."""

    def apply(options: Options, value: Any) -> None:
        into = getattr(options, inner) if inner else options
        if type(value) is int:
            setattr(into, name, float(value))
        setattr(into, name, period(name, value))

    return apply


# -- setters


def _into(attribute: str, convert: Callable[[Any], Any], inner: str = "") -> Setter:
    def apply(options: Options, value: Any) -> None:
        setattr(getattr(options, inner) if inner else options, attribute, convert(value))

    return apply


def _listen(options: Options, value: Any) -> None:
    host, options.port = place(value)
    options.host = host or options.host


def _http(options: Options, value: Any) -> None:
    options.http_host, options.http_port = place(value)


def _server_name(options: Options, value: Any) -> None:
    if " " in text(value):
        raise Wrong("server name cannot contain spaces")
    options.server_name = value


def _tags(options: Options, value: Any) -> None:
    if not isinstance(value, list | str):
        raise Wrong(f"error parsing tags: unsupported type {GO_TYPES[type(value)]}")
    tags = value if isinstance(value, list) else [value]
    if any(not isinstance(tag, str) for tag in tags):
        raise Wrong("error parsing tags: unsupported type *conf.token where string is expected")
    options.tags = clean_tags(tags)


def _metadata(options: Options, value: Any) -> None:
    if not isinstance(value, dict):
        raise Wrong(f"error parsing metadata: unsupported type {GO_TYPES[type(value)]}")
    for name, member in value.items():
        try:
            options.metadata[name] = text(member)
        except WrongType as wrong:
            raise WrongMember(name, str(wrong)) from None


def _lame_duck(options: Options, value: Any) -> None:
    found = seconds("lame_duck_duration")(value)
    if found < _LAME_DUCK_MIN_S:
        raise Wrong(f"invalid lame_duck_duration of {value}, minimum is 30 seconds")
    options.lame_duck_duration = found


def _grace(options: Options, value: Any) -> None:
    found = seconds("lame_duck_grace_period")(value)
    if found < 0:
        raise Wrong("invalid lame_duck_grace_period, needs to be positive")
    options.lame_duck_grace_period = found


def _write_timeout(options: Options, value: Any) -> None:
    if text(value) not in ("default", "close", "retry"):
        raise Wrong("write_timeout must be 'default', 'close' or 'retry'")
    if value == "retry":
        options.warnings.append("write_timeout retry is not served: a slow client is closed")


def _authorization(options: Options, value: Any) -> None:
    if not isinstance(value, dict):
        is_not(value, GO_TYPES[dict])
    options.authorization = {key.lower(): member for key, member in value.items()}


def _jetstream(options: Options, value: Any) -> None:
    if isinstance(value, bool):
        options.jetstream.enabled = value
    elif not isinstance(value, str):
        raise Wrong(
            "Expected map, bool or string to define JetStream, got"
            f" {GO_TYPES.get(type(value), 'nil')}"
        )
    elif value.lower() not in ("enabled", "enable", "disabled", "disable"):
        raise Wrong(f"Expected 'enabled' or 'disabled' for string value, got '{value}'")
    else:
        options.jetstream.enabled = value.lower().startswith("enable")


def _bytes(name: str) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, str):
            try:
                return size(value)
            except ValueError as error:
                raise GivenUp(f"{name} {error}") from None
        if type(value) is not int:
            raise GivenUp(f"{name} must be int64 or string")
        return value

    return convert


def _sync_interval(options: Options, value: Any) -> None:
    # Every message is on disk before its acknowledgement, regardless of this setting.
    if isinstance(value, str) and value.lower() == "always":
        options.jetstream.sync_always = True
    else:
        _duration("sync_interval", "jetstream")(options, value)


def _limits(options: Options, value: Any) -> None:
    found = GO_TYPES.get(type(value), "nil")
    raise Wrong(f"Expected a map to define JetStreamLimits, got {found}")


def _batch_limits(options: Options, value: Any) -> None:
    found = GO_TYPES.get(type(value), "nil")
    raise Wrong(f"Expected a map to define batch limits, got {found}")


def _nanoseconds(value: Any) -> int:
    try:
        return round(duration(text(value)) * NANOS_PER_SECOND)
    except ValueError as error:
        raise Placeless(str(error)) from None


def _limit(name: str, convert: Callable[[Any], int]) -> Setter:
    def apply(options: Options, value: Any) -> None:
        options.jetstream.limits[name] = convert(value)

    return apply


def _websocket(options: Options, value: Any) -> None:
    if not isinstance(value, dict):
        raise Wrong(f"Expected websocket to be a map, got {GO_TYPES.get(type(value), 'nil')}")
    options.websocket = {key.lower(): member for key, member in value.items()}


def _remotes(options: Options, value: Any) -> None:
    from core.remote.settings import remotes_of

    try:
        options.remotes = remotes_of(value)
    except ConfigError as error:
        raise Wrong(str(error)) from None


def _quiet(options: Options, value: Any) -> None:
    """Ignore a key that has no effect in this server."""


def _unheeded(convert: Callable[[Any], Any]) -> Setter:
    """Return a setter that only checks the type of a key that has no effect in this server."""
    return lambda options, value: convert(value) and None


def _trace_headers(options: Options, value: Any) -> None:
    options.trace_headers = options.trace = flag(value)


def _feature_flags(options: Options, value: Any) -> None:
    if not isinstance(value, dict):
        raise Wrong(f"error parsing feature flags: unsupported type {GO_TYPES[type(value)]}")
    for name, wanted in value.items():
        if not isinstance(wanted, bool):
            found = GO_TYPES[type(wanted)]
            wrong = f'error parsing feature flag "{name}": expected bool, got {found}'
            raise WrongMember(name, wrong)
    asked = {name: wanted for name, wanted in value.items() if name in FEATURE_FLAGS}
    for name, wanted in asked.items():
        if wanted != FEATURE_FLAGS[name]:
            options.warnings.append(f"feature_flags {name} has no effect")


def _noted(name: str) -> Setter:
    def apply(options: Options, value: Any) -> None:
        if value not in (False, None, {}, []):
            options.warnings.append(f"{name} has no effect")

    return apply


def _queue_limit(name: str) -> Setter:
    def apply(options: Options, value: Any) -> None:
        if type(value) is not int:
            raise GivenUp(f'Expected a parseable size for "{name}", got {in_words(value)}')
        _noted(f"jetstream.{name}")(options, value)

    return apply


def _strict(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = value if isinstance(value, str) else f"%!s({GO_TYPES[type(value)]}={in_words(value)})"
    raise GivenUp(f"Expected 'true' or 'false' for bool value, got '{found}'")


_TOP: dict[str, Setter] = {
    "listen": _listen,
    "port": _into("port", integer),
    "host": _into("host", text),
    "net": _into("host", text),
    "client_advertise": _into("client_advertise", text),
    "server_name": _server_name,
    "http": _http,
    "http_port": _into("http_port", integer),
    "monitor_port": _into("http_port", integer),
    "http_base_path": _into("http_base_path", text),
    "http_allowed_origins": _into("http_allowed_origins", texts),
    "http_allowed_hosts": _into("http_allowed_hosts", texts),
    "debug": _into("debug", flag),
    "trace": _into("trace", flag),
    "trace_verbose": _into("trace", flag),
    "trace_headers": _trace_headers,
    "logtime": _into("logtime", flag),
    "logtime_utc": _into("logtime_utc", flag),
    "logfile": _into("log_file", text),
    "log_file": _into("log_file", text),
    "logfile_size_limit": _into("log_size_limit", integer),
    "log_size_limit": _into("log_size_limit", integer),
    "logfile_max_num": _into("log_max_num", integer),
    "log_max_num": _into("log_max_num", integer),
    "syslog": _into("syslog", flag),
    "remote_syslog": _into("remote_syslog", text),
    "max_traced_msg_len": _into("max_traced_msg_len", integer),
    "pidfile": _into("pid_file", text),
    "pid_file": _into("pid_file", text),
    "ports_file_dir": _into("ports_file_dir", text),
    "prof_port": _into("prof_port", integer),
    "prof_block_rate": _unheeded(integer),
    "max_control_line": _into("max_control_line", small("max_control_line")),
    "max_payload": _into("max_payload", small("max_payload")),
    "max_pending": _into("max_pending", integer),
    "max_connections": _into("max_connections", integer),
    "max_conn": _into("max_connections", integer),
    "max_subscriptions": _into("max_subscriptions", integer),
    "max_subs": _into("max_subscriptions", integer),
    "max_subscription_tokens": _into(
        "max_subscription_tokens", small("max_subscription_tokens", 255, 1)
    ),
    "max_sub_tokens": _into("max_subscription_tokens", small("max_sub_tokens", 255, 1)),
    "max_closed_clients": _into("max_closed_clients", integer),
    "ping_interval": _duration("ping_interval"),
    "ping_max": _into("ping_max", integer),
    "write_deadline": _duration("write_deadline"),
    "write_timeout": _write_timeout,
    "lame_duck_duration": _lame_duck,
    "lame_duck_grace_period": _grace,
    "authorization": _authorization,
    "no_auth_user": _into("no_auth_user", text),
    "jetstream": _jetstream,
    "store_dir": _into("store_dir", text),
    "storedir": _into("store_dir", text),
    "websocket": _websocket,
    "ws": _websocket,
    "remotes": _remotes,
    "author_permissions": _into("author_permissions", flag),
    "server_tags": _tags,
    "server_metadata": _metadata,
    "feature_flags": _feature_flags,
    "no_fast_producer_stall": _unheeded(flag),
    "connect_error_reports": _unheeded(integer),
    "reconnect_error_reports": _unheeded(integer),
    "disable_sublist_cache": _unheeded(flag),
    "no_sublist_cache": _unheeded(flag),
    "no_header_support": _into("no_header_support", flag),
    "default_js_domain": _noted("default_js_domain"),
    "allow_non_tls": _unheeded(flag),
    "ocsp": _quiet,
    "ocsp_cache": _quiet,
    **unserved.SETTERS,
}

_JETSTREAM: dict[str, Setter] = {
    "enabled": _into("enabled", flag, "jetstream"),
    "enable": _into("enabled", flag, "jetstream"),
    "store_dir": _into("store_dir", text, "jetstream"),
    "storedir": _into("store_dir", text, "jetstream"),
    "store": _into("store_dir", text, "jetstream"),
    "dsn": _into("dsn", text, "jetstream"),
    "dsn_file": _into("dsn_file", text, "jetstream"),
    "dsn_password_file": _into("dsn_password_file", text, "jetstream"),
    "wait_for_db": _duration("wait_for_db", "jetstream"),
    "max_memory_store": _into("max_memory", _bytes("max_mem_store"), "jetstream"),
    "max_mem_store": _into("max_memory", _bytes("max_mem_store"), "jetstream"),
    "max_mem": _into("max_memory", _bytes("max_mem_store"), "jetstream"),
    "max_file_store": _into("max_file", _bytes("max_file_store"), "jetstream"),
    "max_file": _into("max_file", _bytes("max_file_store"), "jetstream"),
    "domain": _into("domain", text, "jetstream"),
    "strict": _into("strict", _strict, "jetstream"),
    "sync": _sync_interval,
    "sync_interval": _sync_interval,
    "unique_tag": _unheeded(text),
    "extension_hint": _unheeded(text),
    "max_outstanding_catchup": _unheeded(_bytes("max_outstanding_catchup")),
    "max_concurrent_io": _quiet,
    "max_buffered_size": _unheeded(_bytes("max_buffered_size")),
    "max_buffered_msgs": _quiet,
    "meta_compact": _quiet,
    "meta_compact_size": _quiet,
    "request_queue_limit": _queue_limit("request_queue_limit"),
    "info_queue_limit": _queue_limit("info_queue_limit"),
    "limits": _limits,
    "cipher": _quiet,
    **unserved.JETSTREAM_SETTERS,
}

_STORE_DIR = ("store_dir", "storedir")
_MAPPINGS = ("mappings", "maps")
_CHECKS: dict[str, Callable[[Item, list[str], list[str]], None]] = {
    "authorization": check_authorization,
    "websocket": check_websocket,
    "ws": check_websocket,
    "accounts": check_accounts,
    "gateway": partial(check_unserved, "gateway"),
    "leaf": partial(check_unserved, "leafnodes"),
    "leafnodes": partial(check_unserved, "leafnodes"),
    "mqtt": partial(check_unserved, "mqtt"),
}
"""Checks of blocks before they are read; they append to errors and warnings."""
_JETSTREAM_LIMITS: dict[str, Setter] = {
    "max_ack_pending": _limit("max_ack_pending", integer),
    "max_request_batch": _limit("max_request_batch", integer),
    "duplicate_window": _limit("duplicate_window", _nanoseconds),
    "max_ha_assets": _unheeded(integer),
    "batch": _batch_limits,
}
_BATCH_LIMITS: dict[str, Setter] = {
    "max_inflight_per_stream": _limit("batch_inflight_per_stream", integer),
    "max_inflight_total": _limit("batch_inflight_total", integer),
    "max_msgs": _limit("batch_messages", integer),
    "timeout": _limit("batch_timeout", _nanoseconds),
}
_BLOCKS: dict[str, dict[str, Setter]] = {
    "jetstream": _JETSTREAM,
    "jetstream.limits": _JETSTREAM_LIMITS,
    "jetstream.limits.batch": _BATCH_LIMITS,
}
