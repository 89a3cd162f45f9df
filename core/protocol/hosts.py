"""Decides which `Host` headers are accepted over HTTP, as protection against DNS rebinding.

After a web page is loaded, its host name may resolve to another machine, such as the one that runs
the browser. The browser then takes a server on that machine for the origin of the page, and lets
the page read all responses. The header `Host` still contains the page's name. An IP address in it
is allowed, because no DNS lookup is involved.
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
    """Return whether a `Host` header is allowed.

    An IP address, `localhost`, a name that ends in `.localhost`, and `names` are allowed.
    """
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
    """Return whether an IP address is a loopback address.

    False for a text that is no IP address.
    """
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def checked_host(text: str) -> str:
    """Return a host name in lower case, or `*` unchanged.

    Raises ValueError if the text is neither `*` nor a host name without a port.
    """
    name = text.lower().removesuffix(".")
    if text != ANY and not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is no name: expected api.example, without a port, or *")
    return name
