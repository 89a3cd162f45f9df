"""The JSON of INFO and CONNECT.

CONNECT is decoded as by nats-server: names in any case, unknown names ignored. Null keeps the
previous value, and the last of equal names wins. Invalid UTF-8 and lone surrogates are replaced. A
second CONNECT changes only the fields it contains.
"""

import re

import msgspec

from core.errors import LimitExceeded, ProtocolError
from core.goinput import INT64_MAX, INT64_MIN, folded


class Info(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The fields of a server's INFO, with nats-server's names; its JSON omits zero values."""

    server_id: str
    server_name: str = ""
    version: str = ""
    proto: int = 0
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool | None = None
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 0
    jetstream: bool = False
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    connect_urls: list[str] = []
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""


class Connect(msgspec.Struct, kw_only=True):
    """The fields of a client's CONNECT. The defaults apply until the first CONNECT."""

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    tls_required: bool = False
    headers: bool = False
    no_responders: bool = False
    protocol: int = 0
    name: str = ""
    lang: str = ""
    version: str = ""
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    auth_token: str = ""
    nkey: str = ""
    sig: str = ""
    jwt: str = ""
    account: str = ""
    new_account: bool = False


_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(Connect))
_SURROGATES = re.compile(
    rb"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_encode = msgspec.json.Encoder().encode


def encode_info(info: Info) -> bytes:
    """Return the JSON for an INFO line."""
    return _encode(info)


def decode_connect(body: bytes, before: Connect | None = None) -> Connect:
    """Decode the JSON of a CONNECT line; fields it does not contain keep their values in `before`.

    Raises:
        ProtocolError: The CONNECT is invalid. For bad JSON the error has no text: the connection
            closes without -ERR.
        LimitExceeded: The protocol version is not 0 or 1.
    """
    values = msgspec.to_builtins(before) if before is not None else {}
    try:
        given = msgspec.json.decode(_without_lone_surrogates(body).decode("utf-8", "replace"))
        if not isinstance(given, dict | None):
            raise ProtocolError(reason="CONNECT is not an object")
        for name, value in (given or {}).items():
            if value is not None and (key := folded(name)) in _NAMES:
                if isinstance(value, float):
                    raise ProtocolError(reason=f"CONNECT: {key} is not an integer")
                values[key] = value
        connect = msgspec.convert(values, Connect)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(reason=f"bad CONNECT: {error}") from error
    if not INT64_MIN <= connect.protocol <= INT64_MAX:
        raise ProtocolError(reason="CONNECT: protocol is no integer of 64 bits")
    if connect.protocol not in (0, 1):
        raise LimitExceeded("invalid client protocol")
    _check_no_responders(connect)
    return connect


def _without_lone_surrogates(body: bytes) -> bytes:
    """Replace escapes of lone surrogates, which JavaScript emits and msgspec refuses."""
    return _SURROGATES.sub(lambda found: found[1] or b"\\ufffd", body) if b"\\u" in body else body


def served(connect: Connect, *, headers: bool) -> Connect:
    """Return a client's CONNECT with `headers` set to False if this server refuses headers.

    `headers` True: the server supports headers, and the CONNECT is returned unchanged. Raises
    ProtocolError if a client without headers asks for no-responders replies, which need headers.
    """
    if headers:
        return connect
    plain = msgspec.structs.replace(connect, headers=False)
    _check_no_responders(plain)
    return plain


def _check_no_responders(connect: Connect) -> None:
    if connect.no_responders and not connect.headers:
        raise ProtocolError("no responders requires headers support")
