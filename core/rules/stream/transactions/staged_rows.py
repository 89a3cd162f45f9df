r"""Decoding staged rows of a transaction: one staged message contains many publishes.

A row is a PUB or HPUB operation of the client protocol as clients write it, without a reply
subject. The verb is in capitals; one blank between arguments is enough:

    PUB orders.new 5\r\nhello\r\n
    HPUB orders.new 30 35\r\nNATS/1.0\r\nNats-Msg-Id: 7\r\n\r\nhello\r\n
"""

from core.protocol.gather import CLIENT, GATHER_ALL, gather
from core.protocol.messages import MessageColumns
from core.protocol.server_parser import MAX_CONTROL_LINE


def decode_rows(payload: bytes) -> tuple[MessageColumns, bool]:
    """Return the rows in the payload of a staged message, and whether all of it was decoded.

    If not, the first malformed row is the one after the last returned row.
    """
    limits = len(payload), MAX_CONTROL_LINE, GATHER_ALL
    rows, _, end = gather(payload, 0, CLIENT, limits)
    if any(rows.replies):
        bad = next(place for place, reply in enumerate(rows.replies) if reply)
        return rows.part(0, bad), False
    return rows, end == len(payload)
