"""The items that a reader of a stream returns: messages, and gaps between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from core.client.subscribe import JsMsg, Position
from core.model.consumer import DeliverPolicy

Filters = tuple[str, ...]
"""Subjects of a stream to read, with wildcards; empty: all subjects."""


Render = Callable[[JsMsg], bytes]


class Entry(msgspec.Struct, gc=False, eq=False):
    """A message that several readers share; each encoding of it is computed once."""

    msg: JsMsg
    _render: Render | None = None
    _form: bytes = b""
    _other_forms: dict[Render, bytes] | None = None

    def form(self, render: Render) -> bytes:
        """Return the message as `render` encodes it; the result is cached."""
        if render == self._render:
            return self._form
        if self._render is None:  # nearly all readers use the same form
            self._render, self._form = render, render(self.msg)
            return self._form
        if self._other_forms is None:
            self._other_forms = {}
        made = self._other_forms.get(render)
        if made is None:
            made = self._other_forms[render] = render(self.msg)
        return made


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap: messages after `after` may be missing; reading continues after `position`.

    If the stream was deleted and created again, or `after` is beyond its end, reading continues at
    its first message.

    Attributes:
        after: Position of the last message before the gap.
        position: Position after which reading continues.
        first_seq: First sequence of the stream when the gap was found.
        last_seq: Last sequence of the stream when the gap was found.
    """

    after: Position
    position: Position
    first_seq: int
    last_seq: int


Item = Entry | Gap


@dataclass(frozen=True, slots=True)
class Start:
    """The point of a stream where reading starts: after a position, or by a deliver policy.

    Attributes:
        policy: Deliver policy of a consumer.
        seq: Stream sequence, for the policy `by_start_sequence`.
        time: Nanoseconds since the Unix epoch, for the policy `by_start_time`.
        after: Position after which reading starts; if set, the other members are ignored.
    """

    policy: DeliverPolicy = DeliverPolicy.NEW
    seq: int = 0
    time: int = 0
    after: Position | None = None


def has_jump(position: int, messages: Sequence[JsMsg]) -> bool:
    """Return True if sequences are missing between `position` (a sequence) and the last message."""
    return bool(messages) and messages[-1].stream_seq - position != len(messages)


def with_gaps(
    position: Position, messages: Sequence[JsMsg], first_seq: int, last_seq: int
) -> list[Item]:
    """Return the messages as entries, with a gap before each message whose predecessors may be
    lost.

    That is the case if sequences below `first_seq` are missing: the stream may have removed them
    before they were read. Other missing sequences were deleted, or are of other subjects.
    """
    items: list[Item] = []
    seq, incarnation = position.seq, position.incarnation
    for msg in messages:
        if seq + 1 < msg.stream_seq and seq + 1 < first_seq:
            behind = Position(incarnation, min(first_seq, msg.stream_seq) - 1)
            items.append(Gap(Position(incarnation, seq), behind, first_seq, last_seq))
        items.append(Entry(msg))
        seq = msg.stream_seq
    return items
