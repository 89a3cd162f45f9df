"""The parser of the lines that a server sends to a leaf node.

Messages are parsed in `core.protocol.link_parser`, with the verb LMSG. Changes of interest:

LS+ <subject> [<queue> <weight>]                   LS- <subject> [<queue>]
"""

from typing import Protocol

from core.protocol.gather import LEAF
from core.protocol.link_parser import LinkParser, LinkSink


class LeafSink(LinkSink, Protocol):
    """The methods that the parser calls, one per operation sent to a leaf node."""

    def on_sub(self, subject: bytes, queue: bytes) -> None: ...
    def on_unsub(self, subject: bytes, queue: bytes) -> None: ...


class LeafParser(LinkParser[LeafSink]):
    """Parses the operations that a server sends to a leaf node.

    Calls a method of a sink for each.
    """

    def __init__(self, sink: LeafSink) -> None:
        super().__init__(sink, LEAF, (b"LS",))

    def _control(self, verb: bytes, args: list[bytes], line: bytes) -> None:
        if verb in (b"LS+", b"LS-") and len(args) > 1:
            change = self._sink.on_sub if verb == b"LS+" else self._sink.on_unsub
            change(args[1], args[2] if len(args) > 2 else b"")
        else:
            super()._control(verb, args, line)
