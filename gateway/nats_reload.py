"""A reload: what changed between two sets of options, and whether a running server can follow."""

from dataclasses import replace

from core.config.nats_options import NatsOptions
from core.errors import OperatorError
from core.model.gotime import format_duration

_FIXED = {
    "host": "Host",
    "port": "Port",
    "server_name": "ServerName",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "ports_file_dir": "PortsFileDir",
    "websocket": "Websocket",
    "no_header_support": "NoHeaderSupport",
    "doors": "Cluster",
}
_PLAIN = {
    "debug": "debug",
    "trace": "trace",
    "logtime": "logtime",
    "logtime_utc": "logtime_utc",
    "log_file": "log_file",
    "log_size_limit": "log_size_limit",
    "syslog": "syslog",
    "remote_syslog": "remote_syslog",
    "max_connections": "max_connections",
    "pid_file": "pid_file",
    "max_control_line": "max_control_line",
    "max_payload": "max_payload",
    "max_pending": "max_pending",
    "max_subscriptions": "max_subscriptions",
    "ping_max": "ping_max",
    "tags": "server_tags",
}
_DURATIONS = ("ping_interval", "write_deadline", "lame_duck_duration", "lame_duck_grace_period")


def changes(old: NatsOptions, new: NatsOptions) -> list[str]:
    """What a reload changes, a line each.

    Raises:
        OperatorError: something changed that a running server keeps.
    """
    for name, shown in _FIXED.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            raise OperatorError(
                f"config reload not supported for {shown}: old={_text(before)}, new={_text(after)}"
            )
    was, wanted = old.jetstream, new.jetstream
    if replace(was, limits=wanted.limits) != wanted:
        raise OperatorError(f"config reload not supported for jetstream: old={was}, new={wanted}")
    said = [
        f"{shown} = {_text(getattr(new, name))}"
        for name, shown in _PLAIN.items()
        if getattr(old, name) != getattr(new, name)
    ]
    said += [
        f"{name} = {format_duration(round(getattr(new, name) * 1e9))}"
        for name in _DURATIONS
        if getattr(old, name) != getattr(new, name)
    ]
    are_mapped_anew = old.mappings != new.mappings
    are_limited_anew = was.limits != wanted.limits
    if (
        old.authorization != new.authorization
        or old.no_auth_user != new.no_auth_user
        or are_mapped_anew
        or are_limited_anew
    ):
        said.append("authorization users")
    if are_mapped_anew or are_limited_anew:
        said.append("accounts")
    if are_limited_anew:
        said.append("JetStream limits")
    if old.remotes != new.remotes:
        said.append("remotes")
    return said


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
