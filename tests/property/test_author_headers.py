"""What authors are asked about is what streams read, whatever bytes a header block has."""

# Subject: permissions

from hypothesis import given
from hypothesis import strategies as st

from core.auth.author import ASKED
from core.protocol.headers import find
from core.rules.stream.headers import publish_headers

_NAMES = (
    b"Nats-Schedule",
    b"Nats-Schedule-Target",
    b"Nats-Schedule-Source",
    b"Nats-Schedule-Next",
    b"Nats-Scheduler",
    b"Nats-Rollup",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
    b"Nats-Batch-Id",
)
_BETWEEN = st.sampled_from((b":", b": ", b":  ", b" :", b":\t", b"", b" "))
_VALUES = st.sampled_from((b"x", b"", b"x y "))
_LINES = st.one_of(
    st.sampled_from((b"NATS/1.0", b"NATS/1.0 503", b"X: y", b"", b"Nats-Msg-Id: a")),
    st.tuples(st.sampled_from(_NAMES), _BETWEEN, st.sampled_from((b"x", b"", b"x y "))).map(
        b"".join
    ),
)
_HEADER_ENTRIES = st.tuples(
    st.sampled_from((b"\r\n", b"\n", b"\r")), st.lists(_LINES, max_size=6)
).map(lambda made: made[0].join(made[1]))


@given(st.lists(_HEADER_ENTRIES, max_size=4).map(b"\r\n".join))
def test_a_stream_reads_nothing_that_its_author_was_not_asked_about(block: bytes) -> None:
    read = publish_headers(block)
    asked = {name: find(block, name) for name in _NAMES}
    assert {name: value for name, value in asked.items() if value} == {
        name: read[name] for name in _NAMES if read.get(name)
    }
    assert ASKED.search(block) or not any(asked.values())
