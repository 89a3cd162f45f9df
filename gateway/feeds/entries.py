"""What a reader is given: messages, and gaps between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from core.client.subscribe import JsMsg, Position
from core.model.consumer import DeliverPolicy

Filters = tuple[str, ...]
"""The subjects that are read of a stream; none: all of them."""


Render = Callable[[JsMsg], bytes]


class Entry(msgspec.Struct, gc=False, eq=False):
    """A message that several may read; what it looks like in each form is made once."""

    msg: JsMsg
    _render: Render | None = None
    _made: bytes = b""
    _others: dict[Render, bytes] | None = None

    def form(self, render: Render) -> bytes:
        """Return the message as `render` writes it."""
        if render == self._render:
            return self._made
        if self._render is None:  # nearly all who read it take the same form
            self._render, self._made = render, render(self.msg)
            return self._made
        if self._others is None:
            self._others = {}
        made = self._others.get(render)
        if made is None:
            made = self._others[render] = render(self.msg)
        return made


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages behind `after` may be missing; what follows is behind `position`.

    `first_seq`, `last_seq`: what the stream had when this was found. Where the incarnation is
    another one, or `after` was behind the end, it is read from its first message on.
    """

    after: Position
    position: Position
    first_seq: int
    last_seq: int


Item = Entry | Gap


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins: behind a position, or as a consumer would. `time` in ns."""

    policy: DeliverPolicy = DeliverPolicy.NEW
    seq: int = 0
    time: int = 0
    after: Position | None = None


def has_jump(position: int, messages: Sequence[JsMsg]) -> bool:
    """Say whether sequences are left out behind `position` and among the messages."""
    return bool(messages) and messages[-1].stream_seq - position != len(messages)


def with_gaps(
    position: Position, messages: Sequence[JsMsg], first_seq: int, last_seq: int
) -> list[Item]:
    """Return the messages, with a gap wherever the beginning of the stream has moved past one
    that was left out: it may have been removed before it was read."""
    items: list[Item] = []
    seq, incarnation = position.seq, position.incarnation
    for msg in messages:
        if seq + 1 < msg.stream_seq and seq + 1 < first_seq:
            behind = Position(incarnation, min(first_seq, msg.stream_seq) - 1)
            items.append(Gap(Position(incarnation, seq), behind, first_seq, last_seq))
        items.append(Entry(msg))
        seq = msg.stream_seq
    return items
