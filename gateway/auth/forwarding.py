"""The client's address, scheme and host, from headers that trusted proxies add.

The headers are `Forwarded` (RFC 7239), or `X-Forwarded-For`, `-Proto` and `-Host`. Each proxy
appends an entry to these lists. So they are read from the end, and addresses of trusted proxies are
skipped. The next address is the client's. The client may have forged the entries before it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.problems import Problem, respond

Network = IPv4Network | IPv6Network

_PAIR = re.compile(
    r"""\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([!#$%&'*+.^_`|~0-9A-Za-z:\[\]-]+)|"((?:[^"\\]|\\.)*)")\s*"""
)
_NODE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)|([0-9A-Fa-f:]+))(?::(\d{1,5}))?")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
_QUOTED = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^"])*')
_ENTRIES_MAX = 64
_SECURE = {"http": "https", "ws": "wss"}


@dataclass(frozen=True, slots=True)
class Hop:
    """The client as one proxy reports it: address, scheme and host; empty if not reported."""

    node: str = ""
    scheme: str = ""
    host: str = ""


def network_of(text: str) -> Network:
    """Parse an address, or a network in CIDR form. Raises ValueError if the text is neither."""
    return ip_network(text, strict=True)


class Forwarding:
    """ASGI middleware: replaces the address, scheme and Host of a trusted proxy by the client's."""

    def __init__(self, app: ASGIApp, proxies: Iterable[Network]) -> None:
        self._app = app
        self._proxies = tuple(proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply the headers of a trusted proxy to the scope; headers of other peers are ignored.

        If they are malformed or contradict each other, respond 400, or close a WebSocket (code
        1008).
        """
        client = scope.get("client")
        if scope["type"] in ("http", "websocket") and client and self._trusts(client[0]):
            try:
                hop = self._caller(scope["headers"])
            except Problem as problem:
                if scope["type"] == "http":
                    await respond(problem, scope["raw_path"].decode("latin-1"))(
                        scope, receive, send
                    )
                else:
                    await send({"type": "websocket.close", "code": 1008})
                return
            scope = _as_called(scope, hop)
        await self._app(scope, receive, send)

    def _caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Hop:
        lists: dict[bytes, list[str]] = {}
        for name, value in headers:
            if name == b"forwarded" or name.startswith(b"x-forwarded-"):
                lists.setdefault(name, []).append(value.decode("latin-1"))
        callers = [
            self._first_untrusted(hops)
            for hops in (_forwarded(lists.get(b"forwarded", [])), _x_forwarded(lists))
            if hops
        ]
        if len(callers) == 2 and _address(callers[0].node) != _address(callers[1].node):
            # The client sent one of the two headers itself, and the proxy passes it on unchanged.
            raise _bad("Forwarded and X-Forwarded-For report different addresses of the caller")
        return callers[0] if callers else Hop()

    def _first_untrusted(self, hops: list[Hop]) -> Hop:
        for hop in reversed(hops):
            if not self._trusts(_address(hop.node)):
                return hop
        return hops[0]

    def _trusts(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._proxies)


def _as_called(scope: Scope, hop: Hop) -> Scope:
    called = dict(scope)
    if hop.node:
        called["client"] = (_address(hop.node), 0)
    if hop.scheme:
        plain = "ws" if scope["type"] == "websocket" else "http"
        called["scheme"] = _SECURE[plain] if hop.scheme == "https" else plain
    if hop.host:
        others = [pair for pair in scope["headers"] if pair[0] != b"host"]
        called["headers"] = [(b"host", hop.host.encode("latin-1")), *others]
    return called


def _forwarded(values: list[str]) -> list[Hop]:
    """Parse the elements of the header Forwarded. Raises Problem 400 if the syntax is wrong."""
    hops: list[Hop] = []
    for element in _split(", ".join(values), ","):
        pairs: dict[str, str] = {}
        for part in _split(element, ";"):
            match = _PAIR.fullmatch(part)
            name = match[1].lower() if match else ""
            if match is None or name in pairs:
                raise _bad("the header Forwarded does not have the syntax of RFC 7239")
            quoted = match[3]
            pairs[name] = match[2] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        hops.append(_hop(pairs.get("for", ""), pairs.get("proto", ""), pairs.get("host", "")))
    return hops


def _x_forwarded(lists: dict[bytes, list[str]]) -> list[Hop]:
    """Combine the three `X-Forwarded-*` lists into one hop for each address.

    If the number of schemes or hosts differs from that of addresses, the last one applies to all.
    """
    columns = []
    for name in (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"):
        text = ",".join(lists.get(name, []))
        columns.append([part.strip() for part in text.split(",")] if text else [])
    nodes, schemes, hosts = columns
    if not nodes:
        return [_hop("", _last(schemes), _last(hosts))] if schemes or hosts else []
    _check_count(len(nodes))
    return [
        _hop(node, _nth(schemes, at, len(nodes)), _nth(hosts, at, len(nodes)))
        for at, node in enumerate(nodes)
    ]


def _hop(node: str, scheme: str, host: str) -> Hop:
    scheme = {"wss": "https", "ws": "http"}.get(scheme.lower(), scheme.lower())
    if scheme not in ("", "http", "https"):
        raise _bad(f"a proxy reports the scheme {scheme[:20]!r}, expected http or https")
    if host and not _HOST.fullmatch(host):
        raise _bad(f"a proxy reports the host {host[:100]!r}, expected host or host:port")
    return Hop(node, scheme, host)


def _address(node: str) -> str:
    """Return the IP address in a text such as `192.0.2.1:80` or `[2001:db8::1]:80`.

    If there is none, return the first 100 characters of the text.
    """
    try:
        return str(ip_address(node))
    except ValueError:
        match = _NODE.fullmatch(node)
    text = (match[1] or match[2] or match[3]) if match else node
    try:
        return str(ip_address(text))
    except ValueError:
        return node[:100]


def _split(text: str, separator: str) -> list[str]:
    """Split a text at the separators outside of quotes; empty parts are left out.

    Raises Problem 400 for an unclosed quote, or for too many parts.
    """
    if not _QUOTED.fullmatch(text):
        raise _bad("the header Forwarded does not have the syntax of RFC 7239")
    parts = re.findall(rf'(?:"(?:[^"\\]|\\.)*"|[^"{separator}])+', text)
    _check_count(len(parts))
    return [part for part in parts if part.strip()]


def _check_count(count: int) -> None:
    if count > _ENTRIES_MAX:
        raise _bad(f"more than {_ENTRIES_MAX} proxies")


def _last(values: list[str]) -> str:
    return values[-1] if values else ""


def _nth(values: list[str], at: int, count: int) -> str:
    return values[at] if len(values) == count else _last(values)


def _bad(detail: str) -> Problem:
    return Problem(400, "bad-forwarded", detail)
