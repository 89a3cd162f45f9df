"""Publish acknowledgements on their way out: one line per accepted message, no object each."""

from collections.abc import Sequence

from core.pubsub.account import Account
from core.runtime.turn import Turn


class AckEmitter:
    """Writes `{"stream":"S","seq":n}` to the publishers' reply subjects."""

    def __init__(self, account: Account, turn: Turn, stream: bytes) -> None:
        self._account = account
        self._turn = turn
        self._body = b'{"stream":"%s","seq":' % stream

    def emit(self, replies: Sequence[bytes], first: int) -> None:
        """Ack contiguous sequences from `first` on; an empty reply wants no ack."""
        route_of = self._account.route
        prefixes = self._account.prefixes
        dirty = self._turn.dirty
        body = self._body
        target = None
        middle = b""
        width_end = 0
        for seq, reply in enumerate(replies, first):
            if not reply:
                continue
            found = (prefixes.get(reply.rpartition(b".")[0]) or route_of(reply)).sole
            if found is None:
                self._account.publish(reply, b"", b"", b"%b%d}" % (body, seq))
                continue
            if found is not target or seq >= width_end:
                target = found
                digits = len(str(seq))
                width_end = 10**digits
                middle = b"%b%d\r\n%b" % (target.mid, len(body) + digits + 1, body)
            out = target.session.out
            if not out:
                dirty.append(target.session)
            target.delivered += 1
            out += (b"MSG ", reply, middle, b"%d}\r\n" % seq)
