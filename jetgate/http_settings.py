"""Parser of the HTTP settings in the block `http` of --config and in flags.

The block may contain every member of `gateway.settings.Settings` except the key of ack tokens.
"""

from dataclasses import MISSING, fields, replace
from typing import Any

from core.errors import ConfigError
from core.units import Seconds
from gateway.settings import Settings

_SECRET = "ack_key"
_MAY_BE_ZERO = frozenset(("identities_idle_max", "rate_requests"))
DEFAULTS: dict[str, Any] = {
    member.name: member.default
    for member in fields(Settings)
    if member.name != _SECRET and member.default is not MISSING
}


def settings_of(block: Any) -> Settings:
    """Parse the block `http` of the configuration file.

    Raises ConfigError if it is not a block, or a member is unknown or invalid.
    """
    if not isinstance(block, dict):
        raise ConfigError("http", "expected a block of limits")
    values = {name: _value(name, value) for name, value in block.items()}
    return checked(Settings(**values))


def with_flags(
    settings: Settings, *, hosts: list[str], proxies: list[str], origins: list[str], rate: str
) -> Settings:
    """Return settings with the values of flags.

    Lists are appended to those of the settings; a rate limit replaces theirs.

    Args:
        settings: Settings of the configuration file, or defaults.
        hosts: Values of `--http-host`.
        proxies: Values of `--http-trusted-proxy`.
        origins: Values of `--http-cors-origin`.
        rate: Value of `--http-rate-limit`, `requests/seconds`; empty: unchanged.

    Raises:
        ConfigError: A value is invalid.
    """
    if rate:
        requests, slash, seconds = rate.partition("/")
        if not (slash and _is_count(requests) and _is_count(seconds)):
            text = f"{rate!r}: expected requests/seconds, such as 600/60"
            raise ConfigError("--http-rate-limit", text)
        interval = Seconds(float(seconds))
        settings = replace(settings, rate_requests=int(requests), rate_seconds=interval)
    return checked(
        replace(
            settings,
            hosts=(*settings.hosts, *hosts),
            trusted_proxies=(*settings.trusted_proxies, *proxies),
            cors_origins=(*settings.cors_origins, *origins),
        )
    )


def checked(settings: Settings) -> Settings:
    """Check host names, proxies and origins; return them in the form that browsers send.

    Raises ConfigError, with the name of the flag, if one is invalid.
    """
    if not (settings.trusted_proxies or settings.cors_origins or settings.hosts):
        return settings
    from core.protocol.hosts import checked_host  # imported late: rarely needed
    from gateway.auth.forwarding import network_of
    from gateway.auth.origins import checked_origin

    for text in settings.trusted_proxies:
        try:
            network_of(text)
        except ValueError as error:
            raise ConfigError("--http-trusted-proxy", str(error)) from None
    try:
        origins = tuple(map(checked_origin, settings.cors_origins))
    except ValueError as error:
        raise ConfigError("--http-cors-origin", str(error)) from None
    try:
        hosts = tuple(map(checked_host, settings.hosts))
    except ValueError as error:
        raise ConfigError("--http-host", str(error)) from None
    return replace(settings, cors_origins=origins, hosts=hosts)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:18]) > 0 and len(text) < 10


def _value(name: str, value: Any) -> Any:
    default = DEFAULTS.get(name)
    if default is None:
        raise ConfigError("http", f'unknown field "{name}"; docs/http-auth.md lists them')
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ConfigError(f"http.{name}", "expected a list of texts")
        return tuple(value)
    kinds = (int, float) if isinstance(default, float) else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ConfigError(f"http.{name}", f"{value!r}: expected a number, such as {default}")
    if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise ConfigError(f"http.{name}", f"{value!r}: expected a number above 0")
    return type(default)(value)
