"""The items of a reader: messages, and gaps between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from core.client.subscribe import JsMsg, Position
from core.model.consumer import DeliverPolicy

Filters = tuple[str, ...]
"""Subjects, with wildcards, to read of a stream; empty: all of them."""


Render = Callable[[JsMsg], bytes]


class Entry(msgspec.Struct, gc=False, eq=False):
    """A message that several readers share; each of its encoded forms is made once."""

    msg: JsMsg
    _render: Render | None = None
    _form: bytes = b""
    _other_forms: dict[Render, bytes] | None = None

    def form(self, render: Render) -> bytes:
        """Return the message as `render` encodes it."""
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
    """A gap: messages after `after` may be missing, and the next one follows `position`.

    Attributes:
        first_seq: First sequence of the stream when the gap was found.
        last_seq: Last sequence of the stream when the gap was found.

    If the incarnation has changed, or `after` was past the end, reading starts at the first
    message.
    """

    after: Position
    position: Position
    first_seq: int
    last_seq: int


Item = Entry | Gap


@dataclass(frozen=True, slots=True)
class Start:
    """The start of reading: after a position, or by a consumer's deliver policy.

    Attributes:
        time: Nanoseconds since the Unix epoch.
        after: If set, the other members are ignored.
    """

    policy: DeliverPolicy = DeliverPolicy.NEW
    seq: int = 0
    time: int = 0
    after: Position | None = None


def has_jump(position: int, messages: Sequence[JsMsg]) -> bool:
    """Return whether sequences are missing after `position` or between the messages."""
    return bool(messages) and messages[-1].stream_seq - position != len(messages)


def with_gaps(
    position: Position, messages: Sequence[JsMsg], first_seq: int, last_seq: int
) -> list[Item]:
    """Return the messages as entries, with gaps where unread messages may have been removed.

    A gap stands wherever a missing sequence is below `first_seq` of the stream.
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
