"""Features of nats-server's configuration that this server lacks.

Each gives a warning or a refusal. A listener of such a protocol is opened, so that scripts find the
port, but every connection is closed. Features that would connect to other servers or restrict
access are refused, so that no security is missing silently.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dropin.config.value_types import GO_TYPES, Wrong

if TYPE_CHECKING:
    from dropin.config.options import Options

Setter = Callable[["Options", Any], None]

_NO_MAP = {
    "gateway": "Expected gateway to be a map, got {}",
    "leafnodes": "Expected map to define a leafnode, got {}",
    "mqtt": "Expected mqtt to be a map, got {}",
}
_OUTWARD = {"gateway": "gateways", "leafnodes": "remotes", "mqtt": ""}
_GUARDS = (
    "authorization",
    "tls",
    "no_auth_user",
    "authorization_required",
    "accounts",
    "proxy_required",
)


def _listen_in_place(options: "Options", kind: str, address: tuple[str, int]) -> None:
    """Add a warning for a protocol that is not served, and if it has a port, a listener.

    The listener closes every connection.
    """
    from dropin.config.options import UnservedListener

    host, port = address
    if not port:
        options.warnings.append(f"{kind} is not served")
        return
    said = f"{kind} is not served: port {port} is bound and every connection is refused"
    options.warnings.append(said)
    options.unserved_listeners.append(UnservedListener(kind, host or options.host, port))


def _listener(kind: str) -> Setter:
    def apply(options: "Options", value: Any) -> None:
        if not isinstance(value, dict):
            raise Wrong(_NO_MAP[kind].format(GO_TYPES.get(type(value), "nil")))
        block = {key.lower(): member for key, member in value.items()}
        outward = _OUTWARD[kind]
        if outward and block.get(outward):
            options.refusals.append(
                f"{kind} {outward} are not served: this server connects to no other"
            )
            return
        for guard in _GUARDS:
            if block.get(guard):
                options.refusals.append(f"{kind} {guard} is not served")
                return
        _listen_in_place(options, kind, _address(block, options.host))

    return apply


def _address(block: dict[str, Any], host: str) -> tuple[str, int]:
    listen = block.get("listen")
    if isinstance(listen, int):
        return host, listen
    if isinstance(listen, str):
        before, _, port = listen.rpartition(":")
        return before.strip("[]") or host, int(port) if port.lstrip("-").isdigit() else 0
    port = block.get("port", 0)
    named = block.get("host") or block.get("net") or host
    return str(named), port if isinstance(port, int) else 0


def _refused(name: str) -> Setter:
    def apply(options: "Options", value: Any) -> None:
        if value not in (False, None, "", {}, [], 0):
            options.refusals.append(f"{name} is not served")

    return apply


def _accounts(options: "Options", value: Any) -> None:
    if not isinstance(value, dict):
        options.refusals.append("accounts is not a map")
        return
    accounts = value
    for name, account in accounts.items():
        if isinstance(account, dict) and account:
            options.refusals.append(f"accounts are not served: {name}")
            return
    if accounts:
        options.warnings.append("accounts are not served: all users belong to $G")


def _system_account(options: "Options", value: Any) -> None:
    if value != "$SYS":
        options.refusals.append(f"system_account {value} is not served: accounts are not served")


SETTERS: dict[str, Setter] = {
    "gateway": _listener("gateway"),
    "leaf": _listener("leafnodes"),
    "leafnodes": _listener("leafnodes"),
    "mqtt": _listener("mqtt"),
    "accounts": _accounts,
    "system_account": _system_account,
    "system": _system_account,
    "no_system_account": lambda options, value: None,
    "no_system": lambda options, value: None,
    "no_sys_acc": lambda options, value: None,
    "https": _refused("https"),
    "https_port": _refused("https_port"),
    "tls": _refused("tls"),
    "operator": _refused("operator"),
    "operators": _refused("operator"),
    "root": _refused("operator"),
    "roots": _refused("operator"),
    "resolver": _refused("resolver"),
    "account_resolver": _refused("resolver"),
    "accounts_resolver": _refused("resolver"),
    "resolver_tls": _refused("resolver_tls"),
    "resolver_preload": _refused("resolver_preload"),
    "resolver_pinned_accounts": _refused("resolver_pinned_accounts"),
    "trusted": _refused("trusted_keys"),
    "trusted_keys": _refused("trusted_keys"),
    "default_sentinel": _refused("default_sentinel"),
    "always_enable_nonce": lambda options, value: None,
    "proxy_protocol": _refused("proxy_protocol"),
    "proxies": _refused("proxies"),
}

JETSTREAM_SETTERS: dict[str, Setter] = {
    "encryption_key": _refused("jetstream.encryption_key"),
    "key": _refused("jetstream.encryption_key"),
    "ek": _refused("jetstream.encryption_key"),
    "prev_encryption_key": _refused("jetstream.prev_encryption_key"),
    "prev_ek": _refused("jetstream.prev_encryption_key"),
    "prev_key": _refused("jetstream.prev_encryption_key"),
    "tpm": _refused("jetstream.tpm"),
}
