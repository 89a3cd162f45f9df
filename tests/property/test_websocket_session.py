"""What comes over a WebSocket in any order, cut anywhere, or as garbage: the state of a connection
answers all of it, and its feeds never send more than they may."""

# Subject: feeds

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.client.msg import Msg
from core.client.subscribe import JsMsg
from gateway.ws.close_codes import CLOSE_CODES, Remedy, remedy_of
from gateway.ws.codec import CODECS, JSON_CODEC, Codec
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import Hello, Subscribe
from gateway.ws.session import Close, Refusal, Session

codecs = st.sampled_from(CODECS)
idents = st.integers(0, 9)
sids = st.integers(0, 3)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
good = st.one_of(
    st.fixed_dictionaries({"type": st.just("hello"), "id": idents}),
    st.fixed_dictionaries({"type": st.just("sub"), "id": idents, "sid": sids}),
    st.fixed_dictionaries(
        {"type": st.just("credit"), "sid": sids, "msgs": st.integers(0, 9), "bytes": idents}
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["unsub", "drain"]), "id": idents, "sid": sids}),
    st.fixed_dictionaries({"type": st.sampled_from(["ping", "drain"]), "id": idents}),
    st.fixed_dictionaries({"type": st.just("pub"), "id": idents, "subject": st.text(max_size=4)}),
    st.fixed_dictionaries({"type": st.just("ack"), "tokens": st.lists(st.text(), min_size=1)}),
)
almost = st.builds(
    lambda frame, name, value: frame | {name: value},
    good,
    st.sampled_from(["type", "id", "sid", "msgs", "tokens", "subject", "from", "after", "more"]),
    values,
)


def written(codec: Codec, value: Any) -> str | bytes:
    if codec.is_text:
        return json.dumps(value)
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:  # MessagePack has no such numbers
        return b"\xc1"


@given(
    codec=codecs,
    needs_hello=st.booleans(),
    sent=st.lists(good | almost | st.lists(good, max_size=4) | values, max_size=12),
)
def test_frames_in_any_order_are_carried_out_refused_or_end_the_connection(
    codec: Codec, needs_hello: bool, sent: list[Any]
) -> None:
    session = Session(codec, needs_hello=needs_hello, feeds_max=2)
    open_sids: set[int] = set()
    greeted = not needs_hello
    for value in sent:
        was_over = session.is_closed
        actions = session.receive(written(codec, value))
        assert not (was_over and actions)
        for place, action in enumerate(actions):
            if isinstance(action, Close):
                assert action.code.remedy in (Remedy.REPORT, Remedy.SIGN_IN)
                assert session.is_closed
                assert place == len(actions) - 1
            elif isinstance(action, Hello):
                greeted = True
            else:
                assert greeted
            if isinstance(action, Subscribe):
                assert action.sid not in open_sids
                open_sids.add(action.sid)
            elif isinstance(action, Refusal):
                assert 400 <= action.problem.status < 500
            open_sids &= session.credits.keys()
        assert session.credits.keys() == open_sids
        assert len(open_sids) <= 2


@given(codec=codecs, frame=good, data=st.data())
def test_a_frame_that_is_cut_or_garbled_ends_the_connection_or_is_another_frame(
    codec: Codec, frame: dict[str, Any], data: st.DataObject
) -> None:
    whole = written(codec, frame)
    size = data.draw(st.integers(0, len(whole) - 1))
    session = Session(codec, needs_hello=False, feeds_max=9)
    (action,) = session.receive(whole[:size])
    assert isinstance(action, Close)
    garbage = data.draw(st.text()) if codec.is_text else data.draw(st.binary())
    other = Session(codec, needs_hello=False, feeds_max=9)
    for action in other.receive(garbage):
        assert isinstance(action, Close) is other.is_closed


@given(
    granted=st.tuples(st.none() | st.integers(0, 20), st.none() | st.integers(0, 200)),
    steps=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 400), st.integers(0, 9), st.integers(1, 60)),
        max_size=20,
    ),
)
def test_a_feed_overshoots_its_credit_by_one_message_at_most(
    granted: tuple[int | None, int | None], steps: list[tuple[int, int, int, int]]
) -> None:
    credit = FeedCredit(*granted)
    msgs, nbytes = granted
    sent = size = last = 0
    for more_msgs, more_bytes, wanted, each in steps:
        for _ in range(wanted):
            if credit.left()[0]:
                credit.use(1, each)
                sent, size, last = sent + 1, size + each, each
        if msgs is not None:
            assert sent <= msgs
        if nbytes is not None:
            assert size <= nbytes + max(last - 1, 0)
        if credit.left() == (0, 0):
            assert (msgs is not None and sent >= msgs) or (nbytes is not None and size >= nbytes)
        credit.grant(more_msgs, more_bytes)
        msgs = None if msgs is None else max(msgs, more_msgs)
        nbytes = None if nbytes is None else max(nbytes, more_bytes)


@given(
    payloads=st.lists(st.binary(max_size=40) | st.text(max_size=9).map(str.encode), max_size=40),
    sid=st.integers(0, 2**31 - 1),
    nbytes=st.integers(0, 2**31 - 1),
)
def test_messages_are_the_same_in_both_encodings(
    payloads: list[bytes], sid: int, nbytes: int
) -> None:
    messages = [
        JsMsg.of(Msg(b"a", b"$JS.ACK.S.C.1.%d.%d.5.0" % (seq, seq), b"", payload), takes_acks=False)
        for seq, payload in enumerate(payloads, 1)
    ]
    as_json, as_pack = (
        codec.messages(sid, [codec.followed(msg) for msg in messages], nbytes) for codec in CODECS
    )
    shown, packed = json.loads(as_json), msgspec.msgpack.decode(as_pack)
    assert (shown["type"], shown["sid"]) == (packed["type"], packed["sid"]) == ("msg", sid)
    assert shown.get("bytes", 0) == packed.get("bytes", 0) == nbytes
    assert [m["data"] for m in packed["messages"]] == payloads
    for one, other, payload in zip(shown["messages"], packed["messages"], payloads, strict=True):
        assert one["seq"] == other["seq"]
        assert one["time"] == other["time"]
        if "text" in one:
            assert one["text"].encode() == payload


def test_deep_nesting_is_no_frame() -> None:
    session = Session(JSON_CODEC, needs_hello=False, feeds_max=1)
    (action,) = session.receive('{"type":"pub","subject":"a","data":' + "[" * 100_000)
    assert isinstance(action, Close)


def test_every_close_code_has_an_advice() -> None:
    remedies = {
        40: Remedy.SIGN_IN,
        41: Remedy.REPORT,
        42: Remedy.RETRY,
        43: Remedy.BACK_OFF,
    }
    codes = [row.code for row in CLOSE_CODES]
    assert len(codes) == len(set(codes)) == len({row.name for row in CLOSE_CODES})
    for row in CLOSE_CODES:
        assert remedy_of(row.code) is row.remedy
        hundred = row.code // 100
        if hundred >= 40:
            assert row.remedy is remedies[hundred]
    assert remedy_of(4299) is Remedy.RETRY
    assert remedy_of(4399) is Remedy.BACK_OFF
    assert remedy_of(4099) is Remedy.SIGN_IN
