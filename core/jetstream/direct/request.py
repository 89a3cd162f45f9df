"""The JSON body of a Direct Get request (ADR-31). Unknown members are ignored."""

import msgspec

from core.model import codec
from core.model.gojson import MAX_VALUES_ON_LOOP, JsonError
from core.model.gotime import parse_time
from core.model.versions import is_level_supported
from core.model.wire import Int, Uint64
from core.rules.stream.headers import publish_headers

LACKS_LEVEL = b"412 Required Api Level"


class DirectGetRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a Direct Get request (ADR-31).

    `start_time` and `up_to_time` are RFC 3339 texts. Numbers that are 0, empty texts and None mean
    that the member is absent.
    """

    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    start_time: str | None = None
    batch: Int = 0
    max_bytes: Int = 0
    multi_last: tuple[str, ...] | None = None
    up_to_seq: Uint64 = 0
    up_to_time: str | None = None
    no_hdr: bool = False

    def is_usual(self) -> bool:
        """Return whether the request has a member, and all its numbers are in [0, 2**63)."""
        numbers = (self.seq, self.up_to_seq, self.batch, self.max_bytes)
        return min(numbers) >= 0 and max(numbers) < 2**63 and self != _NOTHING

    def is_by_sequence(self) -> bool:
        """Return whether the request selects a single message by its sequence."""
        return self == DirectGetRequest(seq=self.seq, no_hdr=self.no_hdr, max_bytes=self.max_bytes)

    def is_malformed(self) -> bool:
        """Return whether `start_time` or `up_to_time` is given and is not a valid time."""
        times = (self.start_time, self.up_to_time)
        return any(text is not None and not _is_time(text) for text in times)

    def refusal(self) -> bytes:
        """Return the status that refuses the request, such as `408 Bad Request`; empty: valid."""
        if self.is_malformed():
            return b"408 Malformed Request"
        named = (self.seq, self.last_by_subj, self.next_by_subj, self.start_time, self.multi_last)
        if not any(named):
            return b"408 Empty Request"
        timed = self.start_time is not None
        conflicts = (
            self.seq and self.last_by_subj,
            self.seq and timed,
            timed and self.last_by_subj,
            self.last_by_subj and self.next_by_subj,
            self.last_by_subj and self.batch,
            self.last_by_subj and self.multi_last,
            self.next_by_subj and self.multi_last,
            self.up_to_seq and self.up_to_time is not None,
        )
        return b"408 Bad Request" if any(conflicts) else b""


def read_request(headers: bytes, body: bytes) -> DirectGetRequest | bytes:
    """Decode and validate a request.

    Returns the request, or the status (such as `408 Empty Request`) that refuses it.
    """
    if headers and lacks_level(headers):
        return LACKS_LEVEL
    if not body:
        return b"408 Empty Request"
    request = decode_request(body)
    if request is None:
        return b"408 Malformed Request"
    return request.refusal() or request


def lacks_level(headers: bytes) -> bool:
    """Return whether `Nats-Required-Api-Level` asks for an API level that this server lacks."""
    level = publish_headers(headers).get(b"Nats-Required-Api-Level")
    return bool(level) and not is_level_supported(level or b"")


_NOTHING = DirectGetRequest()
_decode = msgspec.json.Decoder(DirectGetRequest).decode


def decode_request(body: bytes) -> DirectGetRequest | None:
    """Decode a request body as nats-server does; None: the body is malformed.

    A strict decoder reads usual requests. All others are read by a slower decoder with the rules of
    nats-server: unknown names, names in any case, null, numbers out of range.
    """
    try:
        request = _decode(body)
    except msgspec.MsgspecError:
        request = _NOTHING
    if request.is_usual():
        return request
    try:
        return codec.decode_older(DirectGetRequest, body, MAX_VALUES_ON_LOOP)
    except JsonError:
        return None


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
