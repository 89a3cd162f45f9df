"""Messages as the JetStream API reads and shows them, and publish acknowledgements."""

from typing import Annotated

import msgspec

from core.model.response import ErrorBody, Response
from core.model.wire import BASE64, OMIT, OPTIONAL, Int, OptionalTime, Time, Uint64


class StoredMsg(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a stream; `hdrs` is the whole header block."""

    subject: str = ""
    seq: Uint64 = 0
    hdrs: Annotated[bytes, BASE64, OMIT] = b""
    data: Annotated[bytes, BASE64, OMIT] = b""
    time: Time = 0


class MsgGetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of STREAM.MSG.GET (strict) and DIRECT.GET (lenient)."""

    go_name = "JSApiMsgGetRequest"
    seq: Annotated[Uint64, OMIT] = 0
    last_by_subj: Annotated[str, OMIT] = ""
    next_by_subj: Annotated[str, OMIT] = ""
    batch: Annotated[Int, OMIT] = 0
    max_bytes: Annotated[Int, OMIT] = 0
    start_time: Annotated[OptionalTime, OMIT] = None
    multi_last: Annotated[tuple[str, ...], OMIT] = ()
    up_to_seq: Annotated[Uint64, OMIT] = 0
    up_to_time: Annotated[OptionalTime, OMIT] = None
    no_hdr: Annotated[bool, OMIT] = False


class MsgGetResponse(Response, frozen=True, kw_only=True):
    type: str = "io.nats.jetstream.api.v1.stream_msg_get_response"
    message: Annotated[StoredMsg | None, OMIT] = None


class PubAck(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a publish. The hot path writes its own bytes; clients read this."""

    error: Annotated[ErrorBody | None, OMIT] = None
    stream: str = ""
    seq: Uint64 = 0
    domain: Annotated[str, OMIT] = ""
    duplicate: Annotated[bool, OMIT] = False
    val: Annotated[str, OMIT] = ""
    batch: Annotated[str, OMIT] = ""
    count: Annotated[Uint64 | None, OPTIONAL] = None
