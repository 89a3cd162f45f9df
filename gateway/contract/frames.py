"""The frames of `/v1/ws`, both ways, in both encodings: what the codec of `gateway.ws` reads and
writes, with examples.

The examples are kept in `frames.json`, which `python -m tests.gateway.frame_examples` writes by
talking to a server.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gateway.ws import frames

Way = Literal["send", "receive"]


class Messages(Struct, tag="msg"):
    """Messages of a feed, all that wait; at most `batch` of its `sub`. `bytes`, where the feed has
    credit in bytes: what these used of it, and those of the frames before that do not say."""

    sid: int
    messages: list[frames.JsonMessage]
    bytes: int | UnsetType = UNSET


class Reply(Struct, tag="reply"):
    """The answer to `req`."""

    id: int
    message: frames.JsonMessage


class Found(Struct, tag="message"):
    """The answer to `get`."""

    id: int
    message: frames.JsonMessage


class PackedMessages(Struct, tag="msg"):
    """As `Messages`."""

    sid: int
    messages: list[frames.PackedMessage]
    bytes: int | UnsetType = UNSET


class PackedReply(Struct, tag="reply"):
    """As `Reply`."""

    id: int
    message: frames.PackedMessage


class PackedFound(Struct, tag="message"):
    """As `Found`."""

    id: int
    message: frames.PackedMessage


class Example(Struct, kw_only=True):
    """A frame as it was sent or received: `name` is that of a row of the table."""

    name: str
    title: str
    frame: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One kind of frame.

    Attributes:
        kind: its struct; the docstring is the summary.
        way: `receive`: the server takes it; `send`: the server gives it.
        is_packed: whether it is of MessagePack alone; others without a packed form are of both.
        examples: some that were.
    """

    kind: type[Struct]
    way: Way
    is_packed: bool = False
    examples: tuple[Example, ...] = ()

    @property
    def name(self) -> str:
        """What it is called: `SubscribeFrame`."""
        return f"{self.kind.__name__}Frame"


def recorded() -> list[Example]:
    """The examples in the file."""
    text = files("gateway.contract").joinpath("frames.json").read_bytes()
    return msgspec.json.decode(text, type=list[Example])


def _rows(kinds: Iterable[type[Struct]], way: Way, examples: list[Example]) -> Iterable[Frame]:
    for kind in kinds:
        name = f"{kind.__name__}Frame"
        shown = tuple(each for each in examples if each.name == name)
        yield Frame(kind, way, kind.__name__.startswith("Packed"), shown)


def table() -> tuple[Frame, ...]:
    """Every frame: what the codec reads, and what it writes."""
    taken = dict.fromkeys((*get_args(frames.JsonFrame), *get_args(frames.PackedFrame)))
    written = (Messages, Reply, Found, PackedMessages, PackedReply, PackedFound)
    given = (*get_args(frames.ServerFrame), *written)
    examples = recorded()
    return (*_rows(taken, "receive", examples), *_rows(given, "send", examples))
