"""The formatting of deliveries as MSG and HMSG protocol lines.

A *frame* is a `%` format string for one receiver, with all constant parts filled in. The messages
are then formatted at C speed by `map(frame.__mod__, zip(columns))`. Names and subscription ids may
contain `%`, so all parts of a frame are escaped.

The ack subject is `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time
ns>.<num pending>` (ADR-15, first form).
"""

from collections.abc import Iterable

from core.model.segment import Segment
from core.units import ConsumerSeq


def _escape(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


def frame(mid: bytes, ack_head: bytes) -> bytes:
    """Return the format string of the MSG line of a first delivery, without headers.

    The values to fill in are subject, stream sequence, consumer sequence, time (nanoseconds), num
    pending, size of the payload, payload.

    Args:
        mid: The subscription id with a blank on either side.
        ack_head: `$JS.ACK.<stream>.<consumer>` (or the longer form) without a trailing dot.
    """
    return b"MSG %%b%b%b.1.%%d.%%d.%%d.%%d %%d\r\n%%b\r\n" % (_escape(mid), _escape(ack_head))


def header_frame(mid: bytes, ack_head: bytes) -> bytes:
    """Return the format string of the HMSG line of a first delivery, with headers.

    The values to fill in are those of `frame` up to num pending, then header size, total size,
    headers, payload.
    """
    fixed = (_escape(mid), _escape(ack_head))
    return b"HMSG %%b%b%b.1.%%d.%%d.%%d.%%d %%d %%d\r\n%%b%%b\r\n" % fixed


def lines(
    segment: Segment, mid: bytes, ack_head: bytes, cseq: ConsumerSeq, pending: int, plain: bytes
) -> tuple[Iterable[bytes], int]:
    """Format all messages of a segment (messages as columns) for one receiver.

    Returns the lines, and the size of all headers and payloads in bytes.

    Args:
        segment: The messages.
        mid: See `frame`.
        ack_head: See `frame`.
        cseq: Consumer sequence of the first message.
        pending: Num pending in the first message.
        plain: `frame(mid, ack_head)`, which the caller keeps.
    """
    cseqs = range(cseq, cseq + len(segment))
    left = range(pending, pending - len(segment), -1)
    payloads = segment.payloads
    if segment.headers is None:
        sizes = list(map(len, payloads))
        columns = zip(
            segment.subjects, segment.seqs, cseqs, segment.times, left, sizes, payloads,
            strict=True,
        )  # fmt: skip
        return map(plain.__mod__, columns), sum(sizes)
    return _header_lines(segment, header_frame(mid, ack_head), plain, cseqs, left)


def _header_lines(
    segment: Segment, headed: bytes, plain: bytes, cseqs: range, left: range
) -> tuple[list[bytes], int]:
    assert segment.headers is not None, "the segment has a header column"
    written: list[bytes] = []
    write, nbytes = written.append, 0
    for subject, seq, cseq, ts, pending, header, payload in zip(
        segment.subjects, segment.seqs, cseqs, segment.times, left, segment.headers,
        segment.payloads, strict=True,
    ):  # fmt: skip
        size = len(payload)
        if header:
            size_h = len(header)
            size += size_h
            write(headed % (subject, seq, cseq, ts, pending, size_h, size, header, payload))
        else:
            write(plain % (subject, seq, cseq, ts, pending, size, payload))
        nbytes += size
    return written, nbytes


def routed_frame(beginning: bytes, to: bytes, ack_head: bytes) -> bytes:
    """Return the format string of a first delivery, without headers, to another server.

    The values to fill in are those of `frame`, except that the subject follows num pending.

    Args:
        beginning: The verb and the account, each followed by a blank.
        to: The subject of the subscription.
        ack_head: See `frame`.
    """
    fixed = (_escape(beginning), _escape(to), _escape(ack_head))
    return b"%b%b %b.1.%%d.%%d.%%d.%%d@%%b %%d\r\n%%b\r\n" % fixed


def routed_lines(
    segment: Segment, routed: bytes, cseq: ConsumerSeq, pending: int
) -> tuple[bytes, int]:
    """Format messages without headers for another server, by a format of `routed_frame`.

    Returns the joined lines, and the size of all payloads in bytes.
    """
    sizes = list(map(len, segment.payloads))
    columns = zip(
        segment.seqs,
        range(cseq, cseq + len(segment)),
        segment.times,
        range(pending, pending - len(segment), -1),
        segment.subjects,
        sizes,
        segment.payloads,
        strict=True,
    )
    return b"".join(map(routed.__mod__, columns)), sum(sizes)


def ack_subject(head: bytes, count: int, seq: int, cseq: int, ts: int, pending: int) -> bytes:
    """Return the reply subject of one delivery.

    `head` is `$JS.ACK.<stream>.<consumer>`, `count` the number of deliveries of the message
    including this one, `ts` its time in nanoseconds since the Unix epoch.
    """
    return b"%b.%d.%d.%d.%d.%d" % (head, count, seq, cseq, ts, pending)


def message(
    subject: bytes, mid: bytes, reply: bytes, header: bytes | None, payload: bytes
) -> bytes:
    """Return the MSG line of one message, or the HMSG line if it has headers."""
    if header:
        size = len(header)
        return b"HMSG %b%b%b %d %d\r\n%b%b\r\n" % (
            subject, mid, reply, size, size + len(payload), header, payload,
        )  # fmt: skip
    return b"MSG %b%b%b %d\r\n%b\r\n" % (subject, mid, reply, len(payload), payload)


def headers_only(header: bytes | None, payload: bytes) -> bytes:
    """Return the header block of a delivery without payload, for a consumer with `headers_only`.

    `Nats-Msg-Size` in it is the size of the payload in bytes.
    """
    block = header[:-2] if header else b"NATS/1.0\r\n"
    return b"%bNats-Msg-Size: %d\r\n\r\n" % (block, len(payload))


def without_payloads(segment: Segment) -> Segment:
    """Return messages without payloads, as a consumer with `headers_only` delivers them."""
    headers = segment.headers or [None] * len(segment)
    return Segment(
        segment.seqs,
        segment.times,
        segment.subjects,
        list(map(headers_only, headers, segment.payloads)),
        [b""] * len(segment),
    )


def with_pin(segment: Segment, pin: str) -> Segment:
    """Return messages with the header `Nats-Pin-Id`, for the pinned client of a priority group."""
    line = b"Nats-Pin-Id: %b\r\n\r\n" % pin.encode()
    headers = segment.headers or [None] * len(segment)
    pinned: list[bytes | None] = [
        (header[:-2] if header else b"NATS/1.0\r\n") + line for header in headers
    ]
    return Segment(segment.seqs, segment.times, segment.subjects, pinned, segment.payloads)
