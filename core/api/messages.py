"""The handlers of API requests about single messages of a stream."""

from core.api.call import ApiServer, Call
from core.goinput import text_of
from core.model.api_errors import api_error
from core.model.message import MsgGetRequest, MsgGetResponse, StoredMsg
from core.model.stream import MsgDeleteRequest, MsgDeleteResponse


async def get(server: ApiServer, call: Call[MsgGetRequest]) -> MsgGetResponse:
    """Return one message by sequence, by start time, or by subject (last or next).

    Raises ApiError JSBadRequest if the request does not select exactly one message, or
    JSNoMessageFound if there is none.
    """
    request = call.request
    if request.batch > 0 or request.max_bytes > 0 or _is_contradictory(request):
        raise api_error("JSBadRequest")
    found = await server.registry.stream(call.names[0]).requests.get_message(request)
    if found is None:
        raise api_error("JSNoMessageFound")
    seq, time, subject, headers, payload = found
    message = StoredMsg(
        subject=text_of(subject),
        seq=seq,
        hdrs=b"" if request.no_hdr else headers,
        data=payload,
        time=time,
    )
    return MsgGetResponse(message=message)


def _is_contradictory(request: MsgGetRequest) -> bool:
    """Return whether a request fails to select the message in exactly one way.

    `next_by_subj` may be combined with a start sequence or start time.
    """
    ways = (request.seq > 0, bool(request.last_by_subj), request.start_time is not None)
    if sum(ways) > 1 or not (any(ways) or request.next_by_subj):
        return True
    return bool(request.last_by_subj and request.next_by_subj)


async def delete(server: ApiServer, call: Call[MsgDeleteRequest]) -> MsgDeleteResponse:
    """Delete one message by sequence. Its row is deleted whether `no_erase` is set or not.

    Raises ApiError if the stream is sealed or denies deletes.
    """
    runner = server.registry.stream(call.names[0])
    if runner.config.sealed:
        raise api_error("JSStreamSealed")
    if runner.config.deny_delete:
        raise api_error("JSStreamMsgDeleteFailed", err="message delete not permitted")
    await runner.requests.delete_message(call.request.seq)
    return MsgDeleteResponse(success=True)
