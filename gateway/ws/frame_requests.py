"""Conversion of WebSocket frames to JetStream requests, and choice of the feed class."""

from core.model.message import MsgGetRequest
from gateway.formats.validation import duration, filter_subject, header_text, instant
from gateway.http.problems import bad_request, quoted
from gateway.services import Gateway
from gateway.ws import frames
from gateway.ws.core_feed import CoreFeed
from gateway.ws.durable_feed import DurableFeed
from gateway.ws.link import Feed
from gateway.ws.ordered_feed import OrderedFeed


def feed_class(frame: frames.Subscribe) -> type[Feed]:
    """Return the class of feed that a frame `sub` selects.

    Raises Problem 400 if its members exclude each other or select no feed.
    """
    if frame.subject:
        others = (frame.stream, frame.consumer, frame.filter, frame.begin, frame.after)
        if any(others):
            raise bad_request("bad-parameter", "subject excludes all other members but queue")
        return CoreFeed
    if frame.queue:
        raise bad_request("bad-parameter", "queue needs subject")
    if frame.consumer:
        if frame.filter or frame.begin or frame.after or not frame.stream:
            raise bad_request(
                "bad-parameter", "consumer needs stream, and excludes filter, from and after"
            )
        return DurableFeed
    if not frame.stream and not frame.filter:
        raise bad_request("bad-parameter", "one of subject, stream and filter is needed")
    return OrderedFeed


def get_request(frame: frames.Get, gateway: Gateway) -> MsgGetRequest:
    """Convert a frame `get` to a JetStream request for one message.

    Raises Problem 400 for members that exclude each other, or invalid values.
    """
    if frame.last_by is not None:
        if frame.next_by is not None or frame.seq is not None or frame.start_time is not None:
            raise bad_request("bad-parameter", "last_by excludes seq, next_by and start_time")
        return MsgGetRequest(last_by_subj=filter_subject(frame.last_by, gateway.settings))
    following = filter_subject(frame.next_by, gateway.settings) if frame.next_by else ""
    if frame.start_time is not None:
        if frame.seq is not None:
            raise bad_request("bad-parameter", "seq and start_time exclude each other")
        try:
            time = instant(frame.start_time)
        except ValueError:
            raise bad_request(
                "bad-parameter", f"start_time: {quoted(frame.start_time)} is not an RFC 3339 time"
            ) from None
        return MsgGetRequest(next_by_subj=following, start_time=time)
    if not frame.seq and not following:
        raise bad_request("bad-parameter", "one of seq, last_by, next_by, start_time is needed")
    return MsgGetRequest(seq=frame.seq or 1, next_by_subj=following)


def ack_payload(frame: frames.Acks) -> bytes:
    """Convert an acknowledging frame (`ack`, `nak`, `term`, `progress`) to the payload for
    JetStream.

    Raises Problem 400 for an invalid delay or reason.
    """
    if isinstance(frame, frames.Nak):
        delay = duration(frame.delay, "delay")
        return b'-NAK {"delay":%d}' % delay if delay else b"-NAK"
    if isinstance(frame, frames.Term):
        reason = header_text(frame.reason, "reason")
        return b"+TERM " + reason if reason else b"+TERM"
    return b"+ACK" if isinstance(frame, frames.Ack) else b"+WPI"
