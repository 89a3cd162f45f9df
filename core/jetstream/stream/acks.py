"""Writing publish acks to the outputs of sessions, many with one format operation."""

from collections.abc import Iterable, Sequence
from itertools import chain

from core.pubsub.account import Account
from core.pubsub.receivers import MESSAGE
from core.runtime.loop_tick import LoopTick

# The most acks written with one format string, and the fewest for which that is faster.
_TOGETHER = 128
_FEW = 8


class AckEmitter:
    """Writes the acks `{"stream":"S","seq":n}` of one stream to the publishers' reply subjects."""

    def __init__(self, account: Account, loop_tick: LoopTick, stream: bytes) -> None:
        self._account = account
        self._loop_tick = loop_tick
        self._body = b'{"stream":"%s","seq":' % stream

    def answer(self, answers: Iterable[tuple[bytes, bytes]]) -> None:
        """Publish complete answers, as pairs (reply subject, body)."""
        for reply, body in answers:
            self._account.publish(reply, b"", b"", body)

    def emit(self, replies: Sequence[bytes], first: int) -> None:
        """Write the acks of messages with contiguous sequences, of which `first` is the first.

        An empty reply subject gets no ack.
        """
        for start in range(0, len(replies), _TOGETHER):
            some = replies[start : start + _TOGETHER]
            if len(some) < _FEW or not self._emit_alike(some, first + start):
                self._emit_each(some, first + start)

    def _emit_alike(self, replies: Sequence[bytes], first: int) -> bool:
        """Write the acks with one format string if all reply subjects have the same prefix.

        Returns False, without a write, for several prefixes or receivers. All reply subjects sort
        between the lowest and the highest one, so they share the prefix of these two. The number of
        dots proves that only their last tokens differ.
        """
        lowest, highest = min(replies), max(replies)
        head = lowest.rpartition(b".")[0]
        receivers = self._account.receivers_by_prefix.get(head)
        if receivers is None or not highest.startswith(head + b"."):
            return False
        count = len(replies)
        last = first + count - 1
        digits = len(str(last))
        if len(str(first)) != digits:
            return False
        if b"".join(replies).count(b".") != count * (head.count(b".") + 1):
            return False
        pairs = chain.from_iterable(zip(replies, range(first, last + 1), strict=True))
        sent = count * (MESSAGE + self._size(digits))
        if (target := receivers.sole) is not None:
            line = _format(b"MSG ", self._middle(target.mid, digits))
            out = target.session.out
            if not out:
                self._loop_tick.dirty.append(target.session)
            target.sent += sent
            out.append(line * count % tuple(pairs))
            return True
        forwarder = receivers.forwarder
        if forwarder is None or forwarder.sole is None:
            return False
        line = _format(forwarder.head, self._middle(b" ", digits))
        forwarder.sole.send(line * count % tuple(pairs), sent)
        return True

    def _middle(self, mid: bytes, digits: int) -> bytes:
        """Return the bytes between the reply subject and a sequence of `digits` digits.

        They begin with `mid`, the bytes between the reply subject and the size of the payload.
        """
        return b"%b%d\r\n%b" % (mid, self._size(digits), self._body)

    def _size(self, digits: int) -> int:
        return len(self._body) + digits + 1

    def _emit_each(self, replies: Sequence[bytes], first: int) -> None:
        receivers_of = self._account.receivers
        prefixes = self._account.receivers_by_prefix
        dirty = self._loop_tick.dirty
        body = self._body
        target = None
        middle = b""
        width_end = sent = 0
        for seq, reply in enumerate(replies, first):
            if not reply:
                continue
            found = (prefixes.get(reply.rpartition(b".")[0]) or receivers_of(reply)).sole
            if found is None:
                self._account.publish(reply, b"", b"", b"%b%d}" % (body, seq))
                continue
            if found is not target or seq >= width_end:
                target = found
                digits = len(str(seq))
                width_end = 10**digits
                middle = self._middle(target.mid, digits)
                sent = MESSAGE + self._size(digits)
            out = target.session.out
            if not out:
                dirty.append(target.session)
            target.sent += sent
            out += (b"MSG ", reply, middle, b"%d}\r\n" % seq)


def _format(begin: bytes, middle: bytes) -> bytes:
    """Return the format string of one line, with placeholders for reply subject and sequence."""
    return b"%b%%b%b%%d}\r\n" % (begin.replace(b"%", b"%%"), middle.replace(b"%", b"%%"))
