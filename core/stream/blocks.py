"""Blocks of staged rows: the payload of one message holds many publishes.

A row is a PUB or HPUB operation of the client protocol as clients write it (verb in capitals, one
blank between arguments is enough), without a reply subject:

    PUB orders.new 5\\r\\nhello\\r\\n
    HPUB orders.new 30 35\\r\\nNATS/1.0\\r\\nNats-Msg-Id: 7\\r\\n\\r\\nhello\\r\\n
"""

from core.protocol.gather import CLIENT, GATHER_ALL, gather
from core.protocol.messages import MessageColumns
from core.protocol.parser import MAX_CONTROL_LINE


def rows_of(block: bytes) -> tuple[MessageColumns, bool]:
    """Return the rows of a block, and whether all of it was read.

    What cannot be read is the row after the last that is returned.
    """
    limits = len(block), MAX_CONTROL_LINE, GATHER_ALL
    rows, _, end = gather(block, 0, CLIENT, limits)
    if any(rows.replies):
        bad = next(place for place, reply in enumerate(rows.replies) if reply)
        return rows.part(0, bad), False
    return rows, end == len(block)
