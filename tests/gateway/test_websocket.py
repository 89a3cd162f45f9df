"""`/v1/ws`: publish, ask, get, follow and acknowledge in one connection, in both encodings."""

# Subject: HTTP, feeds

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.conftest import Stream
from tests.gateway.sockets import JSON, PACK, Socket
from tests.gateway.web import Web
from tests.support.eventually import eventually
from tests.support.wire import Wire


@pytest.fixture(params=[JSON, PACK])
def ws(request: pytest.FixtureRequest, web: Web) -> Iterator[Socket]:
    with Socket(web.address, request.param) as ws:
        yield ws


def body(ws: Socket, text: str) -> dict[str, Any]:
    """A payload as this encoding has it."""
    return {"data": text.encode()} if ws.packed else {"text": text}


def text(ws: Socket, message: dict[str, Any]) -> str:
    return message["data"].decode() if ws.packed else str(message["text"])


def seqs(messages: list[dict[str, Any]]) -> list[int]:
    return [message["seq"] for message in messages]


def test_the_first_frame_has_the_limits(ws: Socket) -> None:
    assert ws.welcome["max_payload"] == 1 << 20
    assert ws.welcome["max_frame"] > 1 << 20
    assert ws.ask("ping") == {"type": "pong", "id": 1}
    assert ws.ws.subprotocol == (PACK if ws.packed else JSON)


def test_another_protocol_is_refused_in_the_handshake(web: Web) -> None:
    with pytest.raises(InvalidStatus) as refused:
        Socket(web.address, "js.v9.json")
    assert refused.value.response.status_code == 400
    with pytest.raises(InvalidStatus) as refused:
        Socket(web.address, path="/v2/ws")
    assert refused.value.response.status_code == 404
    answer = web.get("/v1/ws")
    assert (answer.status, answer.kind) == (426, "websocket-needed")


def test_a_publish_is_answered_by_its_receipt(ws: Socket, stream: Stream) -> None:
    subject = stream.subject("a")
    first = ws.ask("pub", subject=subject, **body(ws, "one"), msg_id="1", headers={"X": "y"})
    again = ws.ask("pub", subject=subject, **body(ws, "one"), msg_id="1")
    assert first == {"type": "published", "id": 1, "stream": stream.name, "seq": 1}
    assert again["duplicate"] is True
    got = ws.ask("get", stream=stream.name, seq=1)["message"]
    assert text(ws, got) == "one"
    assert got["headers"]["X"] == ["y"]
    expect = {"last_subject_seq": 7}
    assert ws.refused("pub", subject=subject, expect=expect) == (412, "stream-wrong-last-sequence")
    assert ws.refused("pub", subject="nobody.keeps.this") == (404, "no-stream")
    assert ws.refused("pub", subject="$SYS.x")[0] == 403
    assert ws.refused("pub", subject="a b")[0] == 400
    assert ws.refused("get", stream=stream.name, seq=9)[0] == 404


def test_a_repeated_id_is_a_duplicate_whatever_its_condition(ws: Socket, stream: Stream) -> None:
    subject, expect = stream.subject("a"), {"last_subject_seq": 0}
    frame = {"type": "pub", "subject": subject, "expect": expect}
    ws.send(*({**frame, "id": i, "msg_id": m} for i, m in ((1, "1"), (2, "1"), (3, "2"))))

    answers = [ws.answer(number) for number in (1, 2, 3)]

    assert answers[1] == answers[0] | {"id": 2, "duplicate": True}
    assert answers[2]["problem"]["status"] == 412
    assert ws.ask("ping")["type"] == "pong"


def test_frames_in_an_array_are_carried_out_in_order(ws: Socket, stream: Stream) -> None:
    subject = stream.subject("a")
    ws.send(*({"type": "pub", "id": i, "subject": subject} for i in range(1, 51)))
    receipts = [ws.next("published") for _ in range(50)]
    assert [(r["id"], r["seq"]) for r in receipts] == [(i, i) for i in range(1, 51)]


def test_a_request_is_answered_by_its_service(ws: Socket, wire: Wire) -> None:
    wire.send(b"SUB asked.ws 9\r\nPING\r\n")
    while wire.frame().line != b"PONG":
        pass
    ws.send({"type": "req", "id": 5, "subject": "asked.ws", **body(ws, "2+2")})
    asked = wire.frame()
    assert asked.payload == b"2+2"
    wire.publish(asked.reply.decode(), b"4", headers=b"NATS/1.0\r\nK: v\r\n\r\n")
    reply = ws.answer(5)
    assert reply["type"] == "reply"
    assert text(ws, reply["message"]) == "4"
    assert reply["message"]["headers"] == {"K": ["v"]}
    assert ws.refused("req", subject="asked.nobody") == (503, "no-responders")
    ws.send({"type": "req", "id": 6, "subject": "asked.ws", "timeout": "20ms"})
    wire.frame()
    assert ws.answer(6)["problem"]["status"] == 504


def test_messages_are_read_by_subject_and_time(ws: Socket, stream: Stream) -> None:
    for number in range(3):
        stream.publish(f"k{number % 2}", b"%d" % number)
    last = ws.ask("get", stream=stream.name, last_by=stream.subject("k0"))["message"]
    following = ws.ask("get", stream=stream.name, next_by=stream.subject("k1"), seq=1)["message"]
    since = ws.ask("get", stream=stream.name, start_time="2020-01-01T00:00:00Z")["message"]
    assert [last["seq"], following["seq"], since["seq"]] == [3, 2, 1]
    assert ws.refused("get", stream=stream.name) == (400, "bad-parameter")


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ({"from": "all"}, [1, 2, 3, 4]),
        ({"from": "last"}, [4]),
        ({"from": "last_per_subject"}, [3, 4]),
        ({"from": {"seq": 3}}, [3, 4]),
        ({"from": {"time": "2020-01-01T00:00:00Z"}}, [1, 2, 3, 4]),
    ],
)
def test_an_ordered_feed_begins_at_the_requested_position(
    ws: Socket, stream: Stream, begin: dict[str, Any], expected: list[int]
) -> None:
    for number in range(4):
        stream.publish(f"k{number % 2}")
    begun = ws.ask("sub", sid=7, stream=stream.name, **begin)
    assert begun["recovered"] is True
    assert seqs(ws.messages(7, len(expected))) == expected
    stream.publish("k0")
    assert seqs(ws.messages(7, 1)) == [5]


def test_a_feed_of_a_filter_finds_its_stream_and_is_new_without_more(
    ws: Socket, stream: Stream
) -> None:
    stream.publish("a")
    begun = ws.ask("sub", sid=1, filter=stream.subject("b.*"))
    assert (begun["stream"], begun["seq"]) == (stream.name, 1)
    stream.publish("a")
    stream.publish("b.1")
    assert [m["subject"] for m in ws.messages(1, 1)] == [stream.subject("b.1")]
    assert ws.refused("sub", sid=2, filter="nobody.keeps.this") == (404, "no-stream")
    assert ws.refused("sub", sid=2, stream="NONE")[0] == 404


def test_readers_at_different_places_all_see_every_message(ws: Socket, stream: Stream) -> None:
    """Each reads pages until it meets the tail that they share; nothing is twice or left out."""
    for _ in range(30):
        stream.publish("a")
    for sid, begin in enumerate([1, 10, 25]):
        ws.ask("sub", sid=sid, stream=stream.name, **{"from": {"seq": begin}})
    for _ in range(30):
        stream.publish("a")
    for sid, begin in enumerate([1, 10, 25]):
        assert seqs(ws.messages(sid, 61 - begin)) == list(range(begin, 61))


def test_a_feed_is_resumed_behind_its_position(ws: Socket, stream: Stream) -> None:
    begun = ws.ask("sub", sid=1, stream=stream.name)
    for _ in range(6):
        stream.publish("a")
    stream.web.delete(f"{stream.path}/messages/5")  # what is removed inside is no hole
    ws.messages(1, 6)
    place = {"incarnation": begun["incarnation"], "seq": 3}
    ws.ask("unsub", sid=1)
    again = ws.ask("sub", sid=1, stream=stream.name, after=place)
    assert (again["recovered"], again["seq"]) == (True, 3)
    assert seqs(ws.messages(1, 2)) == [4, 6]


def test_a_position_that_is_gone_is_reported(ws: Socket, stream: Stream) -> None:
    begun = ws.ask("sub", sid=1, stream=stream.name)
    for _ in range(5):
        stream.publish("a")
    stream.web.json("POST", f"{stream.path}:purge", {"seq": 4})
    incarnation = begun["incarnation"]
    gone = {"incarnation": incarnation, "seq": 1}
    other = {"incarnation": str(int(incarnation) - 1), "seq": 5}
    beyond = {"incarnation": incarnation, "seq": 9}
    for sid, after in enumerate([gone, other, beyond], 2):
        again = ws.ask("sub", sid=sid, stream=stream.name, after=after)
        assert (again["recovered"], again["first_seq"], again["last_seq"]) == (False, 4, 5)
        assert again["incarnation"] == incarnation
        assert seqs(ws.messages(sid, 2)) == [4, 5]
    last = {"incarnation": incarnation, "seq": 5}
    assert ws.ask("sub", sid=9, stream=stream.name, after=last)["recovered"] is True


def test_a_hole_that_a_slow_reader_meets_is_reported(ws: Socket, stream: Stream) -> None:
    for _ in range(9):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, credit={"msgs": 2}, **{"from": "all"})
    assert seqs(ws.messages(1, 2)) == [1, 2]
    stream.web.json("POST", f"{stream.path}:purge", {"seq": 7})
    ws.send({"type": "credit", "sid": 1, "msgs": 100})
    gap = ws.next("gap")
    assert (gap["after"], gap["seq"], gap["recovered"]) == (2, 6, False)
    assert seqs(ws.messages(1, 3)) == [7, 8, 9]


def test_a_hole_at_the_end_of_the_stream_is_reported(ws: Socket, stream: Stream) -> None:
    for _ in range(9):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, credit={"msgs": 2}, **{"from": "all"})
    assert seqs(ws.messages(1, 2)) == [1, 2]
    stream.web.send("POST", f"{stream.path}:purge")
    ws.send({"type": "credit", "sid": 1, "msgs": 100})
    gap = ws.next("gap")
    assert (gap["after"], gap["seq"], gap["first_seq"], gap["last_seq"]) == (2, 9, 10, 9)
    stream.publish("a")
    assert seqs(ws.messages(1, 1)) == [10]


def test_a_paused_reader_goes_on_though_the_server_has_forgotten_it(
    ws: Socket, stream: Stream
) -> None:
    for _ in range(4):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, credit={"msgs": 2}, **{"from": "all"})
    assert seqs(ws.messages(1, 2)) == [1, 2]
    for consumer in stream.web.get(f"{stream.path}/consumers").json()["consumers"]:
        stream.web.delete(f"{stream.path}/consumers/{consumer['name']}")
    ws.send({"type": "credit", "sid": 1, "msgs": 100})
    assert seqs(ws.messages(1, 2)) == [3, 4]


def test_a_feed_that_is_ended_before_it_began_is_answered(ws: Socket, stream: Stream) -> None:
    wanted = {"type": "sub", "sid": 1, "stream": stream.name, "from": "all"}
    ws.send(
        wanted | {"id": 1},
        {"type": "unsub", "id": 2, "sid": 1},
        wanted | {"id": 3},
    )
    answers = {ident: ws.next(kind, id=ident) for kind, ident in (("error", 1), ("done", 2))}
    assert answers[1]["problem"]["status"] == 409
    assert ws.next("subscribed", id=3)["recovered"] is True
    stream.publish("a")
    assert seqs(ws.messages(1, 1)) == [1]


def test_credit_is_a_total_and_may_be_overshot_by_one_message(ws: Socket, stream: Stream) -> None:
    for _ in range(8):
        stream.publish("a", b"x" * 100)
    ws.ask("sub", sid=1, stream=stream.name, credit={"msgs": 3}, **{"from": "all"})
    assert seqs(ws.messages(1, 3)) == [1, 2, 3]
    ws.send({"type": "credit", "sid": 1, "msgs": 2})  # late: changes nothing
    assert ws.ask("ping")["type"] == "pong"
    ws.send({"type": "credit", "sid": 1, "msgs": 5})
    assert seqs(ws.messages(1, 2)) == [4, 5]
    ws.ask("sub", sid=2, stream=stream.name, credit={"bytes": 101}, **{"from": "all"})
    frame = ws.next("msg", sid=2)
    assert (seqs(frame["messages"]), frame["bytes"]) == ([1], len(stream.subject("a")) + 100)
    ws.send({"type": "credit", "sid": 2, "bytes": 150})
    assert seqs(ws.messages(2, 1)) == [2]
    assert ws.ask("ping")["type"] == "pong"
    assert [frame for frame in ws.earlier_frames if frame["type"] == "msg"] == []


def test_a_frame_has_no_more_messages_than_wanted(ws: Socket, stream: Stream) -> None:
    for _ in range(5):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, batch=2, **{"from": "all"})
    sizes = [len(ws.next("msg")["messages"]) for _ in range(3)]
    assert sizes == [2, 2, 1]
    credit = {"bytes": 1_000_000}
    ws.ask("sub", sid=2, stream=stream.name, batch=2, credit=credit, **{"from": "all"})
    told = [ws.next("msg", sid=2).get("bytes") for _ in range(3)]
    assert told == [None, None, 5 * (len(stream.subject("a")) + 1)]


def test_a_durable_feed_pulls_no_more_than_its_credit(ws: Socket, stream: Stream) -> None:
    path = stream.consumer()
    for _ in range(5):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, consumer="C", credit={"msgs": 2})
    got = ws.messages(1, 2)
    assert [m["delivered"] for m in got] == [1, 1]
    assert stream.web.get(path).json()["num_ack_pending"] == 2
    tokens = [m["token"] for m in got]
    assert ws.ask("ack", tokens=tokens[:1], sync=True)["succeeded"] == 1
    assert ws.ask("nak", tokens=tokens[1:], sync=True)["succeeded"] == 1
    ws.send({"type": "credit", "sid": 1, "msgs": 4})
    assert sorted((m["seq"], m["delivered"]) for m in ws.messages(1, 2)) == [(2, 2), (3, 1)]
    info = stream.web.get(path).json()
    assert (info["num_ack_pending"], info["num_pending"]) == (2, 2)


def test_a_message_larger_than_the_bytes_that_are_left_comes_alone(
    ws: Socket, stream: Stream
) -> None:
    stream.consumer()
    stream.publish("a", b"x" * 5000)
    stream.publish("a", b"y")
    ws.ask("sub", sid=1, stream=stream.name, consumer="C", credit={"bytes": 1000})
    assert seqs(ws.messages(1, 1)) == [1]
    ws.send({"type": "credit", "sid": 1, "bytes": 10_000})
    assert seqs(ws.messages(1, 1)) == [2]


def test_tokens_outlive_their_connection(web: Web, stream: Stream) -> None:
    path = stream.consumer()
    stream.publish("a")
    with Socket(web.address) as first:
        first.ask("sub", sid=1, stream=stream.name, consumer="C")
        token = first.messages(1, 1)[0]["token"]
    with Socket(web.address, PACK) as second:
        assert second.ask("ack", tokens=[token], sync=True)["succeeded"] == 1
        failed = second.ask("term", tokens=["nonsense"], reason="x")["failed"]
        assert failed[0]["problem"]["status"] == 400
        progress = second.ask("progress", tokens=[token])
        assert progress["succeeded"] == 1
    assert web.get(path).json()["ack_floor"]["stream_seq"] == 1


def test_a_durable_feed_ends_with_its_consumer(ws: Socket, stream: Stream) -> None:
    path = stream.consumer()
    assert ws.refused("sub", sid=1, stream=stream.name, consumer="NONE")[0] == 404
    ws.ask("sub", sid=1, stream=stream.name, consumer="C")
    # A request that comes while nats-server deletes the consumer gets no answer, but no heartbeats.
    eventually(lambda: stream.web.get(path).json()["num_waiting"] == 1)
    stream.web.delete(path)
    assert ws.next("ended")["problem"]["status"] == 404
    assert ws.refused("unsub", sid=1) == (404, "no-such-feed")


def test_an_ordered_feed_ends_with_its_stream(ws: Socket, stream: Stream) -> None:
    ws.ask("sub", sid=1, stream=stream.name)
    stream.web.delete(stream.path)
    assert ws.next("ended")["problem"]["status"] == 404


def test_a_core_feed_drops_messages_without_credit_and_reports_their_number(
    ws: Socket, wire: Wire
) -> None:
    ws.ask("sub", sid=1, subject="core.*", credit={"msgs": 2})
    for number in range(5):
        wire.publish("core.x", b"%d" % number, reply=b"to.me")
    messages: list[dict[str, Any]] = []
    dropped = 0
    while len(messages) + dropped < 5:
        frame = ws.frame()
        messages += frame.get("messages", [])
        dropped += frame.get("count", 0)
    assert [text(ws, m) for m in messages] == ["0", "1"]
    assert messages[0]["reply"] == "to.me"
    assert dropped == 3


def test_a_queue_gives_a_message_to_one_of_its_members(ws: Socket, wire: Wire) -> None:
    for sid in (1, 2):
        ws.ask("sub", sid=sid, subject="queued", queue="q")
    for _ in range(20):
        wire.publish("queued", b"x")
    assert ws.ask("ping")["type"] == "pong"
    wire.flush()
    got = 0
    while got < 20:
        got += len(ws.next("msg")["messages"])
    assert ws.ask("ping")["type"] == "pong"
    assert [frame for frame in ws.earlier_frames if frame["type"] == "msg"] == []


def test_system_subjects_are_refused_and_hidden(ws: Socket, wire: Wire, stream: Stream) -> None:
    for subject in ("$SYS.>", "$JS.API.>", "_INBOX.>"):
        assert ws.refused("sub", sid=1, subject=subject) == (403, "reserved-subject")
    ws.ask("sub", sid=1, subject=">")
    stream.web.get(stream.path)  # a request of the API, and its answer
    wire.publish("plain", b"x")
    while True:
        subjects = [m["subject"] for m in ws.next("msg")["messages"]]
        assert not [s for s in subjects if s.startswith(("$JS.", "$SYS.", "_INBOX."))]
        if "plain" in subjects:
            break


def test_a_drain_delivers_what_was_taken_and_ends_the_feeds(ws: Socket, stream: Stream) -> None:
    stream.consumer()
    for _ in range(3):
        stream.publish("a")
    ws.ask("sub", sid=1, stream=stream.name, consumer="C")
    ws.ask("sub", sid=2, stream=stream.name)
    tokens = [m["token"] for m in ws.messages(1, 3)]
    assert ws.ask("drain")["type"] == "done"
    stream.publish("a")
    assert ws.ask("ack", tokens=tokens, sync=True)["succeeded"] == 3
    assert ws.ask("ping")["type"] == "pong"
    assert [frame for frame in ws.earlier_frames if frame["type"] == "msg"] == []
    assert ws.refused("drain", sid=1) == (404, "no-such-feed")


@pytest.mark.parametrize(
    "members",
    [
        {"subject": "a", "stream": "S"},
        {"queue": "q", "stream": "S"},
        {"consumer": "C"},
        {"stream": "S", "consumer": "C", "from": "all"},
        {"stream": "S", "from": {}},
        {"stream": "S", "from": {"time": "yesterday"}},
        {"stream": "S", "from": "all", "after": {"incarnation": "1", "seq": 1}},
        {"stream": "a.b"},
        {"subject": "a..b"},
        {},
    ],
)
def test_a_feed_that_contradicts_itself_is_refused(ws: Socket, members: dict[str, Any]) -> None:
    assert ws.refused("sub", sid=1, **members)[0] == 400
    assert ws.ask("ping")["type"] == "pong"


def test_a_sid_has_one_feed(ws: Socket, stream: Stream) -> None:
    ws.ask("sub", sid=1, stream=stream.name)
    assert ws.refused("sub", sid=1, stream=stream.name) == (409, "feed-exists")


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]x", '{"type":"none"}', '{"type":"sub"}', "[" * 5000, "7", b"\x00\xff"]
)
def test_an_invalid_frame_ends_the_connection_with_a_reason(web: Web, garbage: str | bytes) -> None:
    with Socket(web.address) as ws:
        ws.ws.send(garbage)
        code, reason = ws.closed()
    assert code == 4100
    assert reason


def test_a_frame_that_is_too_large_ends_the_connection(web: Web) -> None:
    with Socket(web.address) as ws:
        with suppress(ConnectionClosed):  # the close may be read before all is sent
            ws.ws.send("x" * (ws.welcome["max_frame"] + 1))
        assert ws.closed()[0] == 1009
