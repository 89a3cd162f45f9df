"""The table of WebSocket frames for the AsyncAPI document, with recorded examples.

`gateway.ws.codec` decodes and encodes the frames. The examples are in `frames.json`; `python -m
tests.gateway.frame_examples` records them from a running server.
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
    """Messages of a feed, at most the `batch` of its `sub` frame.

    `bytes` is set for feeds with a byte credit: the bytes of these messages, and of earlier frames
    without `bytes`.
    """

    sid: int
    messages: list[frames.JsonMessage]
    bytes: int | UnsetType = UNSET


class Reply(Struct, tag="reply"):
    """The response to a `req` frame: the reply of the service."""

    id: int
    message: frames.JsonMessage


class Found(Struct, tag="message"):
    """The response to a `get` frame: the stored message."""

    id: int
    message: frames.JsonMessage


class PackedMessages(Struct, tag="msg"):
    """Messages of a feed (`Messages`), in MessagePack."""

    sid: int
    messages: list[frames.PackedMessage]
    bytes: int | UnsetType = UNSET


class PackedReply(Struct, tag="reply"):
    """The response to a `req` frame (`Reply`), in MessagePack."""

    id: int
    message: frames.PackedMessage


class PackedFound(Struct, tag="message"):
    """The response to a `get` frame (`Found`), in MessagePack."""

    id: int
    message: frames.PackedMessage


class Example(Struct, kw_only=True):
    """A recorded WebSocket frame; `name` is the `Frame.name` of its kind."""

    name: str
    title: str
    frame: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One kind of WebSocket frame.

    Attributes:
        kind: Its struct; the docstring of the struct is the summary in the document.
        way: `receive` for frames from the client, `send` for frames from the server.
        is_packed: True if the frame exists only in MessagePack. A frame without a MessagePack form
            is the same in both encodings.
        examples: Recorded examples; may be empty.
    """

    kind: type[Struct]
    way: Way
    is_packed: bool = False
    examples: tuple[Example, ...] = ()

    @property
    def name(self) -> str:
        """The name of the frame in the document, such as `SubscribeFrame`."""
        return f"{self.kind.__name__}Frame"


def recorded() -> list[Example]:
    """Return the recorded WebSocket frames in `frames.json`."""
    text = files("gateway.contract").joinpath("frames.json").read_bytes()
    return msgspec.json.decode(text, type=list[Example])


def _rows(kinds: Iterable[type[Struct]], way: Way, examples: list[Example]) -> Iterable[Frame]:
    for kind in kinds:
        name = f"{kind.__name__}Frame"
        shown = tuple(each for each in examples if each.name == name)
        yield Frame(kind, way, kind.__name__.startswith("Packed"), shown)


def table() -> tuple[Frame, ...]:
    """Return every kind of frame that `gateway.ws.codec` decodes or encodes."""
    taken = dict.fromkeys((*get_args(frames.JsonFrame), *get_args(frames.PackedFrame)))
    written = (Messages, Reply, Found, PackedMessages, PackedReply, PackedFound)
    given = (*get_args(frames.ServerFrame), *written)
    examples = recorded()
    return (*_rows(taken, "receive", examples), *_rows(given, "send", examples))
