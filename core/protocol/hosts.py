"""By which names a server may be asked over HTTP: the rule against DNS rebinding.

A page may have its own name lead to another machine once it is loaded, such as the one of whoever
looks at it; a browser then takes the server there for the origin of the page, and lets it read
everything. `Host` still has the page's name. An address in it is allowed: nobody asked DNS for it.
"""

import re
from ipaddress import ip_address

LOCAL = "localhost"
ANY = "*"
_HOST = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*)\.?(?::[0-9]{1,5})?"
)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")


def is_allowed(host: str, names: frozenset[str]) -> bool:
    """Whether a Host is an address, a name of this machine for itself, or one of these names."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].lower()
    if name == LOCAL or name.endswith("." + LOCAL) or name in names:
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches who listens at an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def checked_host(text: str) -> str:
    """Return a name in lower case. Raises ValueError for anything else, but for `*`."""
    name = text.lower().removesuffix(".")
    if text != ANY and not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is no name: expected api.example, without a port, or *")
    return name
