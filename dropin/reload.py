"""The changes of a configuration reload, and the check that a running server can apply them."""

from dataclasses import replace

from core.errors import OperatorError
from core.model.gotime import format_duration
from core.units import NANOS_PER_SECOND
from dropin.config.options import ClusterOptions, Options

_FIXED = {
    "host": "Host",
    "port": "Port",
    "server_name": "ServerName",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "no_header_support": "NoHeaderSupport",
    "max_pending": "MaxPending",
    "max_subscriptions": "MaxSubs",
    "max_subscription_tokens": "MaxSubTokens",
    "max_closed_clients": "MaxClosedClients",
    "log_size_limit": "LogSizeLimit",
    "lame_duck_duration": "LameDuckDuration",
    "lame_duck_grace_period": "LameDuckGracePeriod",
}
# Blocks that may contain passwords, so errors do not show their values.
_FIXED_BLOCKS = {"websocket": "Websocket", "unserved_listeners": "listeners"}
_PLAIN = {
    "author_permissions": "author_permissions",
    "debug": "debug",
    "trace": "trace",
    "trace_headers": "trace_headers",
    "max_traced_msg_len": "max_traced_msg_len",
    "logtime": "logtime",
    "logtime_utc": "logtime_utc",
    "log_file": "log_file",
    "syslog": "syslog",
    "remote_syslog": "remote_syslog",
    "max_connections": "max_connections",
    "pid_file": "pid_file",
    "max_control_line": "max_control_line",
    "max_payload": "max_payload",
    "ping_max": "ping_max",
    "ports_file_dir": "ports_file_dir",
}
_DURATIONS = ("ping_interval", "write_deadline")
_LAME_DUCK = ("lame_duck_duration", "lame_duck_grace_period")
_UNTOLD = {
    "tags": "tags",
    "metadata": "metadata",
    "http_allowed_origins": "http_allowed_origins",
    "http_allowed_hosts": "http_allowed_hosts",
}


def changes(old: Options, new: Options) -> list[str]:
    """Return the changes between two sets of options, one line each, for the log.

    Raises:
        OperatorError: An option changed that a running server cannot change.
    """
    for name, shown in _FIXED.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            if name in _LAME_DUCK:
                before, after = _duration(before), _duration(after)
            raise OperatorError(
                f"config reload not supported for {shown}: old={_text(before)}, new={_text(after)}"
            )
    _refuse_another_cluster(old.cluster, new.cluster)
    was, wanted = old.jetstream, new.jetstream
    blocks = [
        shown for name, shown in _FIXED_BLOCKS.items() if getattr(old, name) != getattr(new, name)
    ]
    is_needed = was.enabled or wanted.enabled
    if is_needed and replace(was, limits=wanted.limits) != wanted:
        blocks.append("JetStream")
    if blocks:
        raise OperatorError(f"config reload not supported for {blocks[0]}: restart the server")
    said = [
        f"{shown} = {_text(getattr(new, name))}"
        for name, shown in _PLAIN.items()
        if getattr(old, name) != getattr(new, name) and (name != "pid_file" or new.pid_file)
    ]
    said += [shown for name, shown in _UNTOLD.items() if getattr(old, name) != getattr(new, name)]
    said += [
        f"{name} = {_duration(getattr(new, name))}"
        for name in _DURATIONS
        if getattr(old, name) != getattr(new, name)
    ]
    # nats-server reports these two in every reload.
    said += ["authorization users", "accounts"]
    if replace(old.cluster, routes=new.cluster.routes) != new.cluster:
        said.append("cluster")
    if old.cluster.routes != new.cluster.routes:
        said.append("cluster routes")
    if was.limits != wanted.limits:
        said.append("JetStream limits")
    if old.remotes != new.remotes:
        said.append("remotes")
    return said


def _refuse_another_cluster(old: ClusterOptions, new: ClusterOptions) -> None:
    """Raise OperatorError if the address or the name of the cluster changed."""
    for name in ("host", "port", "name"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            where = f"cluster {name}: old={before}, new={after}"
            raise OperatorError(f"config reload not supported for {where}")


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * NANOS_PER_SECOND))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
