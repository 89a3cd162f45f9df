"""The JSON of stored messages in the JetStream API, and of publish acknowledgements."""

from typing import Annotated

import msgspec

from core.model.response import TYPE_PREFIX, ErrorBody, Response
from core.model.wire import BASE64, OMIT, OPTIONAL, Int, OptionalTime, Time, Uint64


class StoredMsg(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message. `hdrs` is its complete header block, empty if it has no headers."""

    subject: str = ""
    seq: Uint64 = 0
    hdrs: Annotated[bytes, BASE64, OMIT] = b""
    data: Annotated[bytes, BASE64, OMIT] = b""
    time: Time = 0


class MsgGetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of STREAM.MSG.GET and DIRECT.GET.

    Unknown members are refused in STREAM.MSG.GET, and ignored in DIRECT.GET.
    """

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
    type: str = TYPE_PREFIX + "stream_msg_get_response"
    message: Annotated[StoredMsg | None, OMIT] = None


class PubAck(msgspec.Struct, frozen=True, kw_only=True):
    """The acknowledgement of a publish, as clients decode it.

    `error` is set if the stream has refused the message. The server encodes acknowledgements
    without this class.
    """

    error: Annotated[ErrorBody | None, OMIT] = None
    stream: str = ""
    seq: Uint64 = 0
    domain: Annotated[str, OMIT] = ""
    duplicate: Annotated[bool, OMIT] = False
    val: Annotated[str, OMIT] = ""
    batch: Annotated[str, OMIT] = ""
    count: Annotated[Uint64 | None, OPTIONAL] = None
