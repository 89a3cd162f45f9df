"""A WebSocket feed of a stream's messages in order, with positions instead of acknowledgements."""

from core.client.subscribe import Position
from core.model.consumer import DeliverPolicy
from gateway.feeds.tail_source import tail_of
from gateway.formats.validation import filter_subject, instant, name
from gateway.http.problems import Problem, bad_request
from gateway.http.websocket_protocol import wire
from gateway.readers.entries import Gap, Start
from gateway.readers.reader import StreamReader
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import Begin, Gapped, Named, Place, Subscribe, Subscribed
from gateway.ws.link import SLICE_BYTES, SLICE_MESSAGES, Feed, Link


class OrderedFeed(Feed):
    """A WebSocket feed that reads a stream (`gateway.readers.reader`), within its credit."""

    kind = "ordered"

    def __init__(self, link: Link, wanted: Subscribe, credit: FeedCredit) -> None:
        super().__init__(link, wanted, credit)
        self._wanted = wanted
        self._reader: StreamReader | None = None

    async def open(self) -> Subscribed:
        """Find the stream and the start position, and open the reader of the stream.

        Raises Problem for invalid parameters, NotPermitted without permission, ApiError if the
        stream does not exist, ClientError if the server does not respond.
        """
        wanted, caller = self._wanted, self._link.caller
        assert caller is not None, "feeds are opened for somebody"
        start = start_of(wanted.begin, wanted.after)
        settings = caller.gateway.settings
        matching = filter_subject(wanted.filter, settings) if wanted.filter else ""
        stream = name(wanted.stream, "stream") if wanted.stream else ""
        tail = await tail_of(caller, matching, stream)
        reader = tail.reader(self._wake)
        await reader.open(start)
        self._reader = reader
        position = reader.position
        made = Subscribed(
            wanted.id,
            self.sid,
            tail.stream,
            str(position.incarnation),
            position.seq,
            reader.recovered,
        )
        if reader.first_gap is not None:
            made.first_seq = reader.first_gap.first_seq
            made.last_seq = reader.first_gap.last_seq
        return made

    def next_frames(self) -> bytes | None:
        """Return frames with the next messages, or with a gap; None if there is no message or
        credit.
        """
        reader, credit = self._reader, self.credit
        if reader is None:
            return None
        messages, nbytes = credit.left()
        if not messages:
            return None
        found = reader.next_slice(min(messages, SLICE_MESSAGES), min(nbytes, SLICE_BYTES))
        if found is None:
            if (error := reader.error) is not None:
                self._ended(error)
            return None
        codec = self._link.codec
        if found.gap is not None:
            return wire(codec.encode(self._gapped(found.gap)), is_text=codec.is_text)
        credit.use(found.count, found.size)
        self.count.sent += found.count
        shared = found.shared
        if shared is None:
            bodies = [entry.form(codec.followed) for entry in found.messages()]
            return self._frames(bodies, found.size)
        key = (codec.subprotocol, self.sid, self._batch, credit.counts_bytes, found.key)
        made = shared.get(key)
        if made is None:
            bodies = [entry.form(codec.followed) for entry in found.messages()]
            made = shared[key] = self._frames(bodies, found.size)
        return made

    async def close(self) -> None:
        """Close the reader of the stream."""
        await super().close()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    def _gapped(self, gap: Gap) -> Gapped:
        position = gap.position
        return Gapped(
            self.sid,
            gap.after.seq,
            str(position.incarnation),
            position.seq,
            gap.first_seq,
            gap.last_seq,
        )


def start_of(begin: Named | Begin | None, after: Place | None) -> Start:
    """Convert `from` and `after` of a frame `sub` to the start of reading; without both: new
    messages.

    Raises Problem 400 if they exclude each other or are invalid.
    """
    if after is not None:
        if begin is not None:
            raise bad_request("bad-parameter", "from and after exclude each other")
        return Start(after=Position(int(after.incarnation), after.seq))
    if not isinstance(begin, Begin):
        return Start(DeliverPolicy(begin or "new"))
    if (begin.seq is None) == (begin.time is None):
        raise bad_request("bad-parameter", "from: exactly one of seq and time is needed")
    if begin.seq is not None:
        return Start(DeliverPolicy.BY_START_SEQUENCE, seq=begin.seq)
    return Start(DeliverPolicy.BY_START_TIME, time=_time(begin.time or ""))


def _time(text: str) -> int:
    try:
        return instant(text)
    except ValueError:
        raise Problem(400, "bad-parameter", "from: time is not an RFC 3339 time") from None
