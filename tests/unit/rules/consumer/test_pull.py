"""Pull requests: what they are given and how each of them ends."""

# Subject: pull consumers

import pytest

from core.model.consumer import AckPolicy
from tests.support.consumers import FakeStream, Frames
from tests.support.scenario import running

EXPIRES = b'"expires":1000000000'


async def started(count: int = 5, **config: object) -> tuple[FakeStream, Frames]:
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    if count:
        stream.publish(*((b"s.%d" % i, b"m%d" % i) for i in range(count)))
    await stream.create(**config)
    return stream, frames


async def pulled(stream: FakeStream, frames: Frames, body: bytes) -> list[bytes]:
    """What a request gets at once: payloads, and status lines of statuses."""
    stream.pull(body)
    await stream.rest()
    return shown(frames)


def shown(frames: Frames) -> list[bytes]:
    return [
        headers.split(b"\r\n")[0] if headers.startswith(b"NATS/1.0 ") else payload
        for _, _, headers, payload in frames.drain()
    ]


@pytest.mark.parametrize(
    "body", [b"", b"1", b"nonsense", b"[1]", b'{"batch":0,"expires":1}', b"-5"]
)
@running
async def test_body_that_asks_for_one_message(body: bytes) -> None:
    stream, frames = await started()
    assert (await pulled(stream, frames, body))[:1] == [b"m0"]


@running
async def test_message_shows_stored_subject_and_ack_subject() -> None:
    stream, frames = await started()
    stream.pull(b"1")
    await stream.rest()
    ((subject, reply, _, payload),) = frames.drain()
    ts = stream.rows[1].ts
    assert (subject, payload) == (b"s.0", b"m0")
    assert reply == b"$JS.ACK.S.c.1.1.1.%d.4" % ts


@running
async def test_number_is_a_batch() -> None:
    stream, frames = await started()
    assert await pulled(stream, frames, b" 3 ") == [b"m0", b"m1", b"m2"]


@running
async def test_request_waits_and_gets_what_is_stored_later() -> None:
    stream, frames = await started(0)
    assert await pulled(stream, frames, b'{"batch":2,%s}' % EXPIRES) == []
    stream.publish((b"s.x", b"later"))
    await stream.rest()
    assert shown(frames) == [b"later"]


@running
async def test_expiry_reports_undelivered_messages() -> None:
    stream, frames = await started(1)
    await pulled(stream, frames, b'{"batch":3,"max_bytes":1000,%s}' % EXPIRES)
    await stream.advance(1.1)
    ((subject, _, headers, _),) = frames.drain()
    left = 1000 - len(b"s.0m0$JS.ACK.S.c.1.1.1.%d.0" % stream.rows[1].ts)
    assert subject == b"in.1"
    assert headers == (
        b"NATS/1.0 408 Request Timeout\r\n"
        b"Nats-Pending-Messages: 2\r\nNats-Pending-Bytes: %d\r\n\r\n" % left
    )


@running
async def test_nothing_is_delivered_after_expiry() -> None:
    stream, frames = await started(0)
    await pulled(stream, frames, b'{"batch":3,%s}' % EXPIRES)
    stream.clock.time += 2_000_000_000
    stream.publish((b"s.x", b"late"))
    await stream.rest()
    assert shown(frames) == [b"NATS/1.0 408 Request Timeout"]


@running
async def test_no_wait_with_nothing_there() -> None:
    stream, frames = await started(0)
    assert await pulled(stream, frames, b'{"batch":3,"no_wait":true}') == [
        b"NATS/1.0 404 No Messages"
    ]


@running
async def test_no_wait_gets_what_is_there() -> None:
    stream, frames = await started(2)
    assert await pulled(stream, frames, b'{"batch":3,"no_wait":true}') == [
        b"m0",
        b"m1",
        b"NATS/1.0 404 No Messages",
    ]


@running
async def test_no_wait_that_is_filled_has_no_status() -> None:
    stream, frames = await started(2)
    assert await pulled(stream, frames, b'{"batch":2,"no_wait":true}') == [b"m0", b"m1"]


@running
async def test_no_wait_with_expiry_waits_for_the_first_message() -> None:
    stream, frames = await started(0)
    assert await pulled(stream, frames, b'{"batch":3,"no_wait":true,%s}' % EXPIRES) == []
    stream.publish((b"s.x", b"first"))
    await stream.rest()
    assert shown(frames) == [b"first", b"NATS/1.0 404 No Messages"]


@running
async def test_no_wait_with_expiry_times_out() -> None:
    stream, frames = await started(0)
    await pulled(stream, frames, b'{"batch":3,"no_wait":true,%s}' % EXPIRES)
    await stream.advance(1.1)
    assert shown(frames) == [b"NATS/1.0 408 Request Timeout"]


@pytest.mark.parametrize("more", [b"", b',"max_bytes":1000'])
@running
async def test_no_wait_that_open_acks_hold_ends_with_its_first_heartbeat(more: bytes) -> None:
    stream, frames = await started(3, max_ack_pending=2)
    body = b'{"batch":5,"no_wait":true,"idle_heartbeat":400000000,%s%s}' % (EXPIRES, more)
    assert await pulled(stream, frames, body) == [b"m0", b"m1"]
    await stream.advance(0.3)
    assert shown(frames) == []
    await stream.advance(0.2)
    assert shown(frames) == [b"NATS/1.0 404 No Messages"]
    await stream.advance(1)
    assert shown(frames) == []


@running
async def test_no_wait_that_got_nothing_yet_has_heartbeats() -> None:
    stream, frames = await started(1, max_ack_pending=1)
    body = b'{"batch":5,"no_wait":true,"idle_heartbeat":400000000,%s}' % EXPIRES
    assert await pulled(stream, frames, b"1") == [b"m0"]
    assert await pulled(stream, frames, body) == []
    await stream.advance(0.5)
    assert shown(frames) == [b"NATS/1.0 100 Idle Heartbeat"]


@pytest.mark.parametrize("expires", [b"", b',"expires":60000000000'])
@running
async def test_no_wait_that_open_acks_hold_ends_when_another_request_expires(
    expires: bytes,
) -> None:
    stream, frames = await started(2, max_ack_pending=2)
    assert await pulled(stream, frames, b'{"batch":5,"no_wait":true%s}' % expires) == [b"m0", b"m1"]
    assert await pulled(stream, frames, b'{"batch":1,%s}' % EXPIRES) == []
    await stream.advance(0.9)
    assert shown(frames) == []
    await stream.advance(0.2)
    assert shown(frames) == [b"NATS/1.0 404 No Messages", b"NATS/1.0 408 Request Timeout"]


@running
async def test_no_wait_behind_others_that_wait_for_more() -> None:
    stream, frames = await started(2, max_ack_pending=1)
    assert await pulled(stream, frames, b'{"batch":5,%s}' % EXPIRES) == [b"m0"]
    assert await pulled(stream, frames, b'{"batch":1,"no_wait":true}') == [
        b"NATS/1.0 408 Requests Pending"
    ]


@running
async def test_a_filled_batch_reports_the_bytes_that_are_left() -> None:
    stream, frames = await started()
    stream.pull(b'{"batch":1,"max_bytes":500}')
    await stream.rest()
    message, status = frames.drain()
    left = 500 - len(b"s.0m0") - len(message[1])
    assert status[2] == (
        b"NATS/1.0 409 Batch Completed\r\n"
        b"Nats-Pending-Messages: 0\r\nNats-Pending-Bytes: %d\r\n\r\n" % left
    )


@running
async def test_message_that_does_not_fit_ends_the_request() -> None:
    stream, frames = await started()
    assert await pulled(stream, frames, b'{"batch":3,"max_bytes":70}') == [
        b"m0",
        b"NATS/1.0 409 Message Size Exceeds MaxBytes",
    ]
    assert await pulled(stream, frames, b"1") == [b"m1"]


@running
async def test_message_too_big_for_one_goes_to_the_next() -> None:
    stream, frames = await started(0)
    stream.pull(b'{"batch":1,"max_bytes":10,%s}' % EXPIRES, b"in.small")
    stream.pull(b'{"batch":1,%s}' % EXPIRES, b"in.large")
    stream.publish((b"s.x", b"payload"))
    await stream.rest()
    first, second = frames.drain()
    assert first[2].startswith(b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n")
    assert (first[0], second[3]) == (b"in.small", b"payload")


@running
async def test_requests_are_served_in_turn() -> None:
    stream, _ = await started(0)
    for name in (b"in.a", b"in.b"):
        stream.pull(b'{"batch":2,%s}' % EXPIRES, name)
    await stream.rest()
    served = stream.consumers["c"].machine.waiting.queue
    a, b = served
    stream.publish(*((b"s.x", b"%d" % i) for i in range(3)))
    await stream.rest()
    assert (a.delivered, b.delivered) == (2, 1)


@pytest.mark.parametrize(
    ("config", "body", "line"),
    [
        ({"max_batch": 3}, b"4", b"409 Exceeded MaxRequestBatch of 3"),
        (
            {"max_expires": 1_500_000_000},
            b'{"expires":2000000000}',
            b"409 Exceeded MaxRequestExpires of 1.5s",
        ),
        ({"max_bytes": 10}, b'{"max_bytes":11}', b"409 Exceeded MaxRequestMaxBytes of 10"),
    ],
)
@running
async def test_request_beyond_the_limits(config: dict[str, int], body: bytes, line: bytes) -> None:
    stream, frames = await started(**config)
    assert await pulled(stream, frames, body) == [b"NATS/1.0 " + line]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", b"unexpected end of JSON input"),
        (b'{"batch":1', b"unexpected end of JSON input"),
        (
            b'{"batch":"x"}',
            b"json: cannot unmarshal string into Go struct field .batch of type int",
        ),
        (b"{batch:1}", b"invalid character 'b' looking for beginning of object key string"),
        (b'{"batch":1} x', b"invalid character 'x' after top-level value"),
        (b'{"batch":1}}', b"invalid character '}' after top-level value"),
        (b'{"expires":1000000,"idle_heartbeat":1000000}', b"heartbeat value too large"),
        (
            b'{"batch":1.5}',
            b"json: cannot unmarshal number 1.5 into Go struct field .batch of type int",
        ),
        (
            b'{"no_wait":1}',
            b"json: cannot unmarshal number into Go struct field .no_wait of type bool",
        ),
        (b'{"batch":tru}', b"invalid character '}' in literal true (expecting 'e')"),
    ],
)
@running
async def test_bad_request(body: bytes, text: bytes) -> None:
    stream, frames = await started()
    assert await pulled(stream, frames, body) == [b"NATS/1.0 400 Bad Request - " + text]


@running
async def test_null_leaves_the_default() -> None:
    stream, frames = await started(1)
    assert await pulled(stream, frames, b'{"batch":null,"no_wait":true}') == [b"m0"]


@running
async def test_line_is_full() -> None:
    stream, frames = await started(0, max_waiting=1)
    await pulled(stream, frames, b'{"batch":1,%s}' % EXPIRES)
    assert await pulled(stream, frames, b'{"batch":1,%s}' % EXPIRES) == [
        b"NATS/1.0 409 Exceeded MaxWaiting"
    ]


@running
async def test_a_full_queue_is_not_reported_to_a_request_with_heartbeats() -> None:
    stream, frames = await started(0, max_waiting=1)
    await pulled(stream, frames, b'{"batch":1,%s}' % EXPIRES)
    assert await pulled(stream, frames, b'{"idle_heartbeat":100000000,%s}' % EXPIRES) == []


@running
async def test_idle_heartbeat_names_the_last_delivery() -> None:
    stream, frames = await started(1)
    await pulled(stream, frames, b'{"batch":2,"idle_heartbeat":400000000,%s}' % EXPIRES)
    await stream.advance(0.5)
    ((_, _, headers, _),) = frames.drain()
    assert headers == (
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"
    )


@running
async def test_one_terminal_status_in_spite_of_heartbeats() -> None:
    stream, frames = await started(0)
    await pulled(stream, frames, b'{"batch":2,"idle_heartbeat":400000000,%s}' % EXPIRES)
    await stream.advance(3)
    assert shown(frames) == [
        b"NATS/1.0 100 Idle Heartbeat",
        b"NATS/1.0 100 Idle Heartbeat",
        b"NATS/1.0 408 Request Timeout",
    ]


@running
async def test_request_without_reply_is_ignored() -> None:
    stream, _ = await started()
    stream.pull(b"1", b"")
    await stream.rest()
    assert stream.consumers["c"].machine.delivered_cseq == 0


@running
async def test_a_request_without_a_listener_is_dropped() -> None:
    stream, frames = await started(0)
    stream.pull(b"1", b"gone.1")
    stream.publish((b"s.x", b"kept"))
    await stream.rest()
    assert await pulled(stream, frames, b"1") == [b"kept"]


@running
async def test_blocked_receiver_is_passed_over() -> None:
    stream, frames = await started(0)
    slow = stream.client(b"slow.1")
    slow.blocked = True
    stream.pull(b"1", b"slow.1")
    stream.pull(b"1", b"in.1")
    stream.publish((b"s.x", b"a"))
    await stream.rest()
    assert shown(frames) == [b"a"]
    slow.blocked = False
    stream.publish((b"s.x", b"b"))
    await stream.advance(0.05)
    assert b"b" in slow.received


@running
async def test_deleted_consumer_ends_its_requests() -> None:
    stream, frames = await started(0)
    await pulled(stream, frames, b"1")
    await stream.consumers.delete("c")
    await stream.rest()
    assert shown(frames) == [b"NATS/1.0 409 Consumer Deleted"]


@running
async def test_shutdown_reports_the_rest_of_requests() -> None:
    stream, frames = await started(0)
    await pulled(stream, frames, b"7")
    stream.consumers.close(shutdown=True)
    await stream.rest()
    ((_, _, headers, _),) = frames.drain()
    assert headers == (
        b"NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 7\r\nNats-Pending-Bytes: 0\r\n\r\n"
    )


@running
async def test_pull_on_a_push_consumer() -> None:
    stream, frames = await started(deliver_subject="to.me", ack_policy=AckPolicy.NONE)
    assert await pulled(stream, frames, b"1") == [b"NATS/1.0 409 Consumer is push based"]


@running
async def test_headers_are_delivered_as_stored() -> None:
    stream, frames = await started(0)
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    stream.publish((b"s.x", b"m"), header=block)
    stream.pull(b"1")
    await stream.rest()
    ((_, _, headers, payload),) = frames.drain()
    assert (headers, payload) == (block, b"m")


@pytest.mark.parametrize("block", [None, b"NATS/1.0\r\nA: b\r\n\r\n"])
@running
async def test_headers_only_has_the_size(block: bytes | None) -> None:
    stream, frames = await started(0, headers_only=True)
    stream.publish((b"s.x", b"12345"), header=block)
    stream.pull(b"1")
    await stream.rest()
    ((_, _, headers, payload),) = frames.drain()
    begin = block[:-2] if block else b"NATS/1.0\r\n"
    assert (headers, payload) == (begin + b"Nats-Msg-Size: 5\r\n\r\n", b"")


@running
async def test_odd_names_do_not_break_the_wire() -> None:
    stream = FakeStream(name="100%d@%s")
    frames = Frames(stream.client(b"in.*"))
    stream.publish((b"s.%d", b"%s"))
    await stream.create(name="%b", durable_name="%b")
    stream.pull(b"1", consumer="%b")
    await stream.rest()
    ((subject, reply, _, payload),) = frames.drain()
    assert (subject, payload) == (b"s.%d", b"%s")
    stream.ack(reply)
    await stream.rest()
    assert len(stream.consumers["%b"].machine.pending) == 0


@running
async def test_max_ack_pending_stops_new_deliveries_until_acks_come() -> None:
    stream, frames = await started(4, max_ack_pending=2)
    stream.pull(b'{"batch":4,%s}' % EXPIRES)
    await stream.rest()
    delivered = frames.drain()
    assert [payload for *_, payload in delivered] == [b"m0", b"m1"]
    stream.ack(delivered[0][1], b"+ACK")
    await stream.rest()
    assert shown(frames) == [b"m2"]


@running
async def test_cold_messages_are_read_in_few_reads() -> None:
    stream, frames = await started(0, max_ack_pending=-1)
    stream.publish(*((b"s.x", b"%d" % i) for i in range(5000)))
    stream.forget_tail()
    stream.publish((b"s.x", b"5000"))
    stream.pull(b"5001")
    for _ in range(3):  # so much takes many turns
        await stream.rest()
    assert shown(frames) == [b"%d" % i for i in range(5001)]
    assert stream.reads == 3


@running
async def test_filter_skips_cold_history_that_holds_nothing() -> None:
    stream, frames = await started(0, filter_subject="s.rare")
    stream.publish(*((b"s.x", b"") for _ in range(3000)))
    stream.forget_tail()
    stream.publish((b"s.rare", b"found"))
    assert await pulled(stream, frames, b"1") == [b"found"]


@running
async def test_message_deleted_while_held_is_not_delivered() -> None:
    stream, frames = await started(3)
    stream.forget_tail()
    assert await pulled(stream, frames, b"1") == [b"m0"]
    stream.remove(2)
    stream.log.removed.hidden.clear()
    assert await pulled(stream, frames, b"1") == [b"m2"]
    assert stream.consumers["c"].machine.num_pending == 0
