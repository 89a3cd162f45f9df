"""The client's parser reads what the encoder writes, in any division."""

# Subject: protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.client_parser import ClientParser

Event = tuple[object, ...]


class Recorder:
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_msg(
        self, subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.events.append(("msg", subject, sid, reply, headers, payload))

    def on_info(self, body: bytes) -> None:
        self.events.append(("info", body))

    def on_ping(self) -> None:
        self.events.append(("ping",))

    def on_pong(self) -> None:
        self.events.append(("pong",))

    def on_ok(self) -> None:
        self.events.append(("ok",))

    def on_err(self, text: bytes) -> None:
        self.events.append(("err", text))


TOKEN = st.text("abc.*\x0b\x0c\u200c", min_size=1, max_size=6).map(str.encode)
MESSAGE = st.tuples(
    TOKEN,
    TOKEN,
    TOKEN | st.just(b""),
    st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\nA: b\r\n\r\n"]),
    st.binary(max_size=40),
)
OTHER: st.SearchStrategy[tuple[bytes, Event]] = st.sampled_from(
    [
        (encoder.PING, ("ping",)),
        (encoder.PONG, ("pong",)),
        (encoder.OK, ("ok",)),
        (encoder.error("Stale Connection"), ("err", b"Stale Connection")),
        (encoder.info(b'{"a": 1}'), ("info", b'{"a": 1}')),
    ]
)
LINE = OTHER | MESSAGE.map(lambda m: (encoder.message(*m), ("msg", *m)))


@given(st.lists(LINE, max_size=20), st.data())
def test_encoded_operations_are_read_in_any_division(
    lines: list[tuple[bytes, Event]], data: st.DataObject
) -> None:
    stream = b"".join(line for line, _ in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    sink = Recorder()
    parser = ClientParser(sink)

    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        parser.feed(stream[start:stop])

    assert sink.events == [event for _, event in lines]


@pytest.mark.parametrize(
    "wrong",
    [
        b"HELLO\r\n",
        b"\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 x\r\n",
        b"HMSG a 1 5 2\r\n",
        b"MSG a 1 2\r\nabc\r\n",
        b"MSG a 1 1 1 1\r\n",
    ],
)
def test_nonsense_is_an_error(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        ClientParser(Recorder()).feed(wrong)
