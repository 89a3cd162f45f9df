"""What a server says to a leaf node, in any pieces."""

# Subject: remotes

import pytest

from core.errors import ProtocolError
from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.remote.leaf_parser import LeafParser

STREAM = (
    b'INFO {"server_id":"X"} \r\n'
    b"LS+ $JS.M.abc\r\nLS+ work.> crew 3\r\nLS- $JS.M.abc\r\nLS- work.> crew\r\n"
    b"PING\r\nPONG\r\n-ERR 'Nope'\r\n+OK\r\n"
    b"LMSG a 2\r\nhi\r\n"
    b"LMSG a back 2\r\nhi\r\n"
    b"LMSG a + back crew other 0\r\n\r\n"
    b"LMSG a | crew 3\r\nx\r\n\r\n"
    b"HMSG a back 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    b"HMSG a 12 12\r\nNATS/1.0\r\n\r\n\r\n"
)
LINES = [
    ("info", b'{"server_id":"X"}'),
    ("listener", b"$JS.M.abc", b""),
    ("listener", b"work.>", b"crew"),
    ("gone", b"$JS.M.abc", b""),
    ("gone", b"work.>", b"crew"),
    ("ping",),
    ("pong",),
    ("err", b"Nope"),
    ("message", b"a", b"", b"", b"hi"),
    ("message", b"a", b"back", b"", b"hi"),
    ("message", b"a", b"back", b"", b""),
    ("message", b"a", b"", b"", b"x\r\n"),
    ("message", b"a", b"back", b"NATS/1.0\r\n\r\n", b"hi"),
    ("message", b"a", b"", b"NATS/1.0\r\n\r\n", b""),
]


class Sink:
    """Notes every call."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def on_message_begun(self) -> None:
        """A server may always send."""

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        for subject, reply, headers, payload in batch.messages():
            self.on_message(account, subject, reply, (), headers, payload)

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        assert not account
        self.lines.append(("message", subject, reply, headers, payload))

    def on_sub(self, subject: bytes, queue: bytes) -> None:
        self.lines.append(("listener", subject, queue))

    def on_unsub(self, subject: bytes, queue: bytes) -> None:
        self.lines.append(("gone", subject, queue))

    def on_info(self, body: bytes) -> None:
        self.lines.append(("info", body))

    def on_ping(self) -> None:
        self.lines.append(("ping",))

    def on_pong(self) -> None:
        self.lines.append(("pong",))

    def on_err(self, text: bytes) -> None:
        self.lines.append(("err", text))


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(STREAM)])
def test_everything_is_read_in_any_pieces(size: int) -> None:
    sink = Sink()
    parser = LeafParser(sink)

    for start in range(0, len(STREAM), size):
        parser.feed(STREAM[start : start + size])

    assert sink.lines == LINES


@pytest.mark.parametrize(
    "line",
    [b"RMSG x y 1\r\n", b"LMSG a\r\n", b"LMSG a x\r\n", b"HMSG a 5 3\r\n", b"LMSG a 1\r\nxyz"],
)
def test_unknown_operations_end_the_connection(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        LeafParser(Sink()).feed(line)


def test_a_large_read_gives_the_same_as_single_bytes() -> None:
    lines = STREAM + b"LMSG a 4\r\nlong\r\n" * 100 + STREAM + b"LMSG a r 3\r\nabc\r\n" * 100
    together, singly = Sink(), Sink()

    LeafParser(together).feed(lines)
    parser = LeafParser(singly)
    for at in range(len(lines)):
        parser.feed(lines[at : at + 1])

    assert together.lines == singly.lines
    assert len(together.lines) == 200 + 2 * len(LINES)


def test_a_payload_in_many_pieces_is_joined_once() -> None:
    """Joining what came with each piece would copy 16 MiB 4,096 times: minutes."""
    sink, piece, size = Sink(), b"x" * 4096, 16 << 20
    parser = LeafParser(sink)

    parser.feed(b"LMSG a %d\r\n" % size)
    for _ in range(size // len(piece)):
        parser.feed(piece)
    assert sink.lines == []
    parser.feed(b"\r\n")

    assert sink.lines == [("message", b"a", b"", b"", piece * (size // len(piece)))]


def test_subjects_hold_vertical_tabs_and_form_feeds() -> None:
    sink = Sink()

    LeafParser(sink).feed(b"LS+ a.\x0b\r\nLMSG a.\x0bb\x0c 1\r\nx\r\n")

    assert sink.lines == [
        ("listener", b"a.\x0b", b""),
        ("message", b"a.\x0bb\x0c", b"", b"", b"x"),
    ]
