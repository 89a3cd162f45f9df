"""Choice of a WebSocket connection's frame encoding, by the sub-protocols in its handshake."""

from starlette.types import Scope

from gateway.http.problems import Problem
from gateway.ws.codec import CODECS, JSON_CODEC, Codec

_BEARER = "bearer."


def codec_of(scope: Scope) -> tuple[Codec, str | None]:
    """Return the codec and the sub-protocol for the response to a WebSocket handshake.

    If the client offers no sub-protocol, the result is (JSON, None). Raises Problem 400 if it
    offers only unknown ones.
    """
    offered = [name for name in scope["subprotocols"] if not name.startswith(_BEARER)]
    for name in offered:
        for codec in CODECS:
            if codec.subprotocol == name:
                return codec, name
    if offered or scope["subprotocols"]:
        known = ", ".join(codec.subprotocol for codec in CODECS)
        detail = f"Sec-WebSocket-Protocol: one of {known} is needed"
        raise Problem(400, "no-such-subprotocol", detail)
    return JSON_CODEC, None
