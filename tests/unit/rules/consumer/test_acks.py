"""Acknowledgements, redelivery, the ack floor."""

# Subject: acks

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from core.jetstream.consumer import pending_count
from core.jetstream.log import counts
from core.model.consumer import AckPolicy, DeliverPolicy
from core.model.durations import parse_duration
from core.protocol.messages import MessageColumns
from core.pubsub.remote_delivery import deliver_batch_here
from core.rules.consumer.acks.payloads import AckKind, nak_delay, parse
from tests.support.consumers import SECOND, FakeStream, Frames
from tests.support.scenario import running

LONG = b"1.%b.1.0.0" % (b"1" * 5000)
LONG_ACK = b"$JS.ACK.S.c." + LONG


async def delivered(count: int = 3, **config: object) -> tuple[FakeStream, Frames, list[bytes]]:
    """A stream whose messages were all delivered once; returns the ack subjects."""
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*", b"ok.*"))
    stream.publish(*((b"s.%d" % i, b"m%d" % i) for i in range(count)))
    await stream.create(**config)
    stream.pull(b"%d" % count)
    await stream.rest()
    return stream, frames, [reply for _, reply, _, _ in frames.drain()]


async def again(stream: FakeStream, frames: Frames) -> list[tuple[bytes, bytes]]:
    """Pull once more without waiting: (payload, times delivered and sequences)."""
    stream.pull(b'{"batch":100,"no_wait":true}')
    await stream.rest()
    return [
        (payload, b".".join(reply.split(b".")[4:7]))
        for _, reply, _, payload in frames.drain()
        if reply
    ]


def floor(stream: FakeStream) -> tuple[int, int]:
    info = stream.consumers["c"].info()
    return info.ack_floor.consumer_seq, info.ack_floor.stream_seq


@pytest.mark.parametrize(
    ("payload", "kind", "argument"),
    [
        (b"", AckKind.ACK, b""),
        (b"+ACK", AckKind.ACK, b""),
        (b"+OK", AckKind.ACK, b""),
        (b"+ACK ", AckKind.UNKNOWN, b""),
        (b"-NAK", AckKind.NAK, b""),
        (b'-NAK {"delay": 5}', AckKind.NAK, b'{"delay": 5}'),
        (b"+WPI", AckKind.PROGRESS, b""),
        (b"+WPI x", AckKind.UNKNOWN, b""),
        (b"+NXT", AckKind.NEXT, b""),
        (b"+NXT 5", AckKind.NEXT, b"5"),
        (b"+TERM", AckKind.TERM, b""),
        (b"+TERM no good ", AckKind.TERM, b"no good"),
        (b"ack", AckKind.UNKNOWN, b""),
    ],
)
def test_the_payload_chooses_the_kind_of_ack(
    payload: bytes, kind: AckKind, argument: bytes
) -> None:
    assert parse(payload) == (kind, argument)


@pytest.mark.parametrize(
    ("argument", "delay"),
    [
        (b"", None),
        (b"1s", SECOND),
        (b"1m30s", 90 * SECOND),
        (b"1.5ms", 1_500_000),
        (b'{"delay": 20}', 20),
        (b"{}", 0),
        (b'{"delay": "x"}', None),
        (b'{"delay": 9223372036854775807}', (1 << 63) - 1),
        (b'{"delay": 9223372036854775808}', None),
        (b'{"delay": -9223372036854775809}', None),
        (b"soon", None),
        (b"5", None),
        (b"-1s", -SECOND),
        (b"9999999999h", None),
        (b"\xff", None),
    ],
)
def test_nak_delay(argument: bytes, delay: int | None) -> None:
    assert nak_delay(argument) == delay


@pytest.mark.parametrize("text", ["", "s", ".s", "1", "1 s", "1s ", "--1s", "1.2.3s"])
def test_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@running
async def test_ack_ends_redelivery() -> None:
    stream, frames, acks = await delivered(ack_wait=SECOND)
    for subject in acks:
        stream.ack(subject, b"+ACK")
    await stream.advance(2)
    assert await again(stream, frames) == []
    assert floor(stream) == (3, 3)


@running
async def test_floor_waits_for_the_gap() -> None:
    stream, _, acks = await delivered()
    stream.ack(acks[1])
    await stream.rest()
    assert floor(stream) == (0, 0)
    stream.ack(acks[0])
    await stream.rest()
    assert floor(stream) == (2, 2)


@running
async def test_ack_of_a_redelivered_message_fills_the_gap() -> None:
    stream, frames, acks = await delivered(ack_wait=SECOND)
    stream.ack(acks[1])
    stream.ack(acks[2])
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m0", b"2.1.4")]
    stream.ack(b"$JS.ACK.S.c.2.1.4.0.0")
    await stream.rest()
    assert floor(stream) == (4, 3)


@running
async def test_ack_for_an_earlier_attempt_counts() -> None:
    stream, frames, acks = await delivered(1, ack_wait=SECOND)
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m0", b"2.1.2")]
    stream.ack(acks[0])
    await stream.advance(2)
    assert await again(stream, frames) == []


@running
async def test_double_ack_is_answered_after_the_commit() -> None:
    stream, frames, acks = await delivered(1)
    stream.ack(acks[0], b"+ACK", b"ok.1")
    await stream.rest()
    assert frames.drain() == []
    stream.states.commit()
    await stream.rest()
    assert frames.drain() == [(b"ok.1", b"", b"", b"")]


@pytest.mark.parametrize("payload", [b"", b"-NAK", b"+WPI", b"+TERM", b"whatever"])
@running
async def test_everything_with_a_reply_is_answered(payload: bytes) -> None:
    stream, frames, acks = await delivered(1)
    stream.ack(acks[0], payload, b"ok.1")
    await stream.rest()
    stream.states.commit()
    await stream.rest()
    assert frames.drain() == [(b"ok.1", b"", b"", b"")]


@running
async def test_double_ack_of_an_undelivered_sequence_is_not_answered() -> None:
    stream, frames, _ = await delivered(1)
    stream.ack(b"$JS.ACK.S.c.1.9.9.0.0", b"", b"ok.1")
    await stream.rest()
    stream.states.commit()
    await stream.rest()
    assert frames.drain() == []


@running
async def test_long_ack_subject() -> None:
    stream, _, _ = await delivered(1)
    head = next(head for head in stream.account.ack_handlers if head.startswith(b"$JS.ACK._."))
    stream.ack(head + b".1.1.1.0.0")
    await stream.rest()
    assert floor(stream) == (1, 1)


@pytest.mark.parametrize(
    "tokens", [b"1.x.1.0.0", b"1.+1.1.0.0", b"1. 1.1.0.0", b"1.1_0.1.0.0", b"1..1.0.0", LONG]
)
@running
async def test_malformed_ack_subject_does_nothing(tokens: bytes) -> None:
    stream, _, _ = await delivered(1)
    stream.ack(b"$JS.ACK.S.c." + tokens)
    stream.ack(b"$JS.ACK.S.c." + tokens, b"-NAK")
    await stream.rest()
    assert len(stream.consumers["c"].machine.pending) == 1


@pytest.mark.parametrize("malformed", [(b"1..1.0.0", b"1.x.1.0.0"), (LONG,)])
@running
async def test_a_malformed_ack_does_not_spoil_the_others_of_its_turn(
    malformed: tuple[bytes, ...],
) -> None:
    stream, _, _ = await delivered(3)
    for tokens in (b"1.1.1.0.0", *malformed, b"1.2.2.0.0"):
        stream.ack(b"$JS.ACK.S.c." + tokens)
    await stream.rest()
    assert floor(stream) == (2, 2)


@running
async def test_redelivery_after_ack_wait_is_not_early() -> None:
    stream, frames, _ = await delivered(2, ack_wait=SECOND)
    await stream.advance(0.99)
    assert await again(stream, frames) == []
    await stream.advance(0.02)
    assert await again(stream, frames) == [(b"m0", b"2.1.3"), (b"m1", b"2.2.4")]


@running
async def test_redelivery_goes_before_new_messages() -> None:
    stream, frames, _ = await delivered(1, ack_wait=SECOND)
    stream.publish((b"s.new", b"new"))
    await stream.advance(1.1)
    assert [payload for payload, _ in await again(stream, frames)] == [b"m0", b"new"]


@running
async def test_waiting_request_gets_a_redelivery() -> None:
    stream, frames, _ = await delivered(1, ack_wait=SECOND)
    stream.pull(b'{"batch":1,"expires":5000000000}')
    await stream.advance(1.1)
    assert [payload for *_, payload in frames.drain()] == [b"m0"]


@running
async def test_backoff_times_every_attempt() -> None:
    stream, frames, _ = await delivered(1, backoff=(300_000_000, 600_000_000), ack_wait=300_000_000)
    started, seen = stream.clock.time, []
    for _ in range(30):
        await stream.advance(0.05)
        if await again(stream, frames):
            seen.append(round((stream.clock.time - started) / SECOND, 2))
    assert seen == [0.3, 0.9, 1.5]


def change(stream: FakeStream, **config: Any) -> None:
    """Change the configuration of the consumer."""
    runner = stream.consumers["c"]
    runner.configure(replace(runner.config, **config))


@running
async def test_another_wait_is_that_of_what_is_pending() -> None:
    stream, frames, acks = await delivered(3, ack_wait=30 * SECOND)
    stream.ack(acks[1], b"-NAK 29s")
    await stream.rest()
    change(stream, ack_wait=2 * SECOND)
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m1", b"2.2.4")]
    change(stream, ack_wait=4 * SECOND)
    await stream.advance(2.8)
    assert await again(stream, frames) == []
    await stream.advance(0.2)
    assert await again(stream, frames) == [(b"m0", b"2.1.5"), (b"m2", b"2.3.6")]
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m1", b"3.2.7")]


@running
async def test_later_waits_only_grow_while_the_first_stays() -> None:
    stream, frames, _ = await delivered(1, backoff=(SECOND, 3 * SECOND), ack_wait=SECOND)
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m0", b"2.1.2")]
    change(stream, backoff=(SECOND, 2 * SECOND))
    await stream.advance(2.5)
    assert await again(stream, frames) == []
    change(stream, backoff=(SECOND, 3 * SECOND))
    await stream.advance(1)
    assert await again(stream, frames) == []
    await stream.advance(0.6)
    assert await again(stream, frames) == [(b"m0", b"3.1.3")]


@running
async def test_max_deliver_gives_up() -> None:
    stream, frames, _ = await delivered(1, ack_wait=SECOND, max_deliver=2)
    await stream.advance(1.1)
    assert await again(stream, frames) == [(b"m0", b"2.1.2")]
    await stream.advance(1.1)
    assert await again(stream, frames) == []
    info = stream.consumers["c"].info()
    assert (info.num_ack_pending, info.num_redelivered, floor(stream)) == (0, 1, (0, 0))


@running
async def test_max_deliver_does_not_hold_up_max_ack_pending() -> None:
    stream, frames, _ = await delivered(1, ack_wait=SECOND, max_deliver=1, max_ack_pending=1)
    stream.publish((b"s.x", b"next"))
    await stream.advance(1.1)
    assert [payload for payload, _ in await again(stream, frames)] == [b"next"]


@running
async def test_floor_passes_what_was_given_up() -> None:
    stream, frames, acks = await delivered(3, ack_wait=SECOND, max_deliver=1)
    stream.ack(acks[2], b"+WPI")
    await stream.advance(1.1)
    stream.ack(acks[1])
    stream.publish((b"s.x", b"x"))
    stream.pull(b"1")
    await stream.rest()
    ((_, reply, _, _),) = frames.drain()
    stream.ack(reply)
    await stream.rest()
    assert stream.consumers["c"].machine.delivered_cseq == 4
    assert floor(stream)[0] == 4


@running
async def test_nak_is_redelivered_at_once() -> None:
    stream, frames, acks = await delivered(2)
    stream.ack(acks[1], b"-NAK")
    stream.ack(acks[0], b"-NAK")
    await stream.rest()
    assert await again(stream, frames) == [(b"m1", b"2.2.3"), (b"m0", b"2.1.4")]


@pytest.mark.parametrize("payload", [b'-NAK {"delay": 2000000000}', b"-NAK 2s"])
@running
async def test_nak_with_delay(payload: bytes) -> None:
    stream, frames, acks = await delivered(1)
    stream.ack(acks[0], payload)
    await stream.advance(1.9)
    assert await again(stream, frames) == []
    await stream.advance(0.2)
    assert await again(stream, frames) == [(b"m0", b"2.1.2")]


@running
async def test_nak_with_delay_takes_back_a_plain_nak() -> None:
    stream, frames, acks = await delivered(1)
    stream.ack(acks[0], b"-NAK")
    stream.ack(acks[0], b"-NAK 1s")
    await stream.rest()
    assert await again(stream, frames) == []


@running
async def test_nak_of_an_acked_message_is_ignored() -> None:
    stream, frames, acks = await delivered(1)
    stream.ack(acks[0])
    stream.ack(acks[0], b"-NAK")
    await stream.rest()
    assert await again(stream, frames) == []


@running
async def test_progress_restarts_the_wait() -> None:
    stream, frames, acks = await delivered(1, ack_wait=SECOND)
    await stream.advance(0.9)
    stream.ack(acks[0], b"+WPI")
    await stream.advance(0.9)
    assert await again(stream, frames) == []
    await stream.advance(0.2)
    assert await again(stream, frames) == [(b"m0", b"2.1.2")]


@running
async def test_term_ends_redelivery() -> None:
    stream, frames, acks = await delivered(1, ack_wait=SECOND)
    stream.ack(acks[0], b"+TERM poison")
    await stream.advance(2)
    assert await again(stream, frames) == []
    assert floor(stream) == (1, 1)


@pytest.mark.parametrize(
    ("payload", "count"), [(b"+NXT", 1), (b"+NXT 2", 2), (b'+NXT {"batch":2,"no_wait":true}', 2)]
)
@running
async def test_next_acks_and_pulls(payload: bytes, count: int) -> None:
    stream, frames, acks = await delivered(1)
    stream.publish(*((b"s.x", b"n%d" % i) for i in range(3)))
    stream.ack(acks[0], payload, b"in.next")
    await stream.rest()
    stream.states.commit()
    assert [payload for *_, payload in frames.drain()] == [b"n%d" % i for i in range(count)]
    assert floor(stream) == (1, 1)


@running
async def test_ack_all_takes_everything_before() -> None:
    stream, frames, acks = await delivered(3, ack_policy=AckPolicy.ALL, ack_wait=SECOND)
    stream.ack(acks[1])
    await stream.advance(1.1)
    assert floor(stream) == (2, 2)
    assert await again(stream, frames) == [(b"m2", b"2.3.4")]


@running
async def test_ack_all_of_an_older_message_moves_nothing_back() -> None:
    stream, _, acks = await delivered(3, ack_policy=AckPolicy.ALL)
    stream.ack(acks[2])
    stream.ack(acks[0])
    await stream.rest()
    assert floor(stream) == (3, 3)


@running
async def test_ack_none_floor_follows_delivery() -> None:
    stream, _, _ = await delivered(3, ack_policy=AckPolicy.NONE)
    info = stream.consumers["c"].info()
    assert (floor(stream), info.num_ack_pending) == ((3, 3), 0)


@running
async def test_deleted_message_is_no_longer_pending() -> None:
    stream, frames, _ = await delivered(2, ack_wait=SECOND, max_ack_pending=2)
    stream.publish((b"s.x", b"more"))
    stream.remove(1)
    await stream.advance(1.1)
    assert [payload for payload, _ in await again(stream, frames)] == [b"m1", b"more"]
    assert floor(stream) == (1, 1)


@running
async def test_purge_moves_floor_and_position() -> None:
    stream, frames, _ = await delivered(2, ack_wait=SECOND)
    stream.publish((b"s.x", b"gone"))
    stream.purge()
    await stream.advance(1.1)
    assert await again(stream, frames) == []
    info = stream.consumers["c"].info()
    assert (info.delivered.stream_seq, info.num_pending, info.num_ack_pending) == (3, 0, 0)
    assert floor(stream) == (2, 3)


@running
async def test_purge_of_a_part_counts_what_is_left() -> None:
    stream, frames, _ = await delivered(1)
    stream.publish(*((b"s.x", b"%d" % i) for i in range(5)))
    stream.purge(below=5)
    await stream.rest()
    assert stream.consumers["c"].info().num_pending == 2
    assert [payload for payload, _ in await again(stream, frames)] == [b"3", b"4"]


@pytest.mark.parametrize("how", ["purge", "filter", "reset"])
@running
async def test_nothing_is_skipped_before_it_is_counted_what_is_left(how: str) -> None:
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    consumer = await stream.create(filter_subject="s.a", max_ack_pending=2)
    stream.pull(b"9")
    for _ in range(3):
        stream.publish((b"s.a", b"a"), (b"s.b", b"b"), (b"s.b", b"b"))
        await stream.rest()
    stream.forget_tail()
    assert len(frames.drain()) == 2
    if how == "purge":
        stream.purge(6)
    elif how == "filter":
        for seq in (1, 4, 7):
            stream.remove(seq)
        await stream.consumers.create(replace(consumer.config, filter_subject="s.b"))
    else:
        stream.purge(7)
        waiting = asyncio.create_task(stream.consumers.reset("c", 7))
        await stream.rest()
        stream.states.commit()
        await waiting
    await stream.rest()
    assert [f[3] for f in frames.drain()] == ([b"b", b"b"] if how == "filter" else [b"a"])
    assert consumer.info().num_pending == (2 if how == "filter" else 0)


@running
async def test_messages_after_a_purge_have_the_number_pending() -> None:
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    await stream.create(filter_subject="s.a", ack_policy=AckPolicy.NONE)
    stream.publish(*((subject, b"") for subject in [b"s.a", b"s.b"] * 5))
    stream.purge(below=4)
    stream.pull(b"9")
    await stream.rest()
    assert [int(reply.split(b".")[8]) for _, reply, _, _ in frames.drain()] == [2, 1, 0]


@running
async def test_purges_in_a_loop_do_not_hold_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    await stream.create(filter_subject="s.a", ack_policy=AckPolicy.NONE)
    stream.publish(*((subject, b"") for subject in [b"s.a", b"s.b"] * 1000))
    count_from = counts.count_from

    async def purge_again(*args: Any) -> int:
        stream.purge(stream.machine.first_seq + 1)
        return await count_from(*args)

    monkeypatch.setattr(counts, "_COUNT_AT_ONCE", 0)
    monkeypatch.setattr(pending_count, "count_from", purge_again)
    stream.purge(2)
    stream.pull(b"1")
    while not (found := frames.drain()):
        await stream.rest()
        assert stream.machine.first_seq < 1900, "there is something to deliver"
    ((_, reply, _, _),) = found
    seq, left = int(reply.split(b".")[5]), int(reply.split(b".")[8])
    assert left >= sum(1 for s, row in stream.rows.items() if s > seq and row.subject == b"s.a")
    monkeypatch.undo()  # what is still counted comes to its end
    await stream.rest()


@running
async def test_redelivery_out_of_storage() -> None:
    stream, frames, _ = await delivered(600, ack_wait=SECOND, max_ack_pending=-1)
    stream.forget_tail()
    await stream.advance(1.1)
    stream.pull(b"600")
    await stream.rest()
    assert [payload for *_, payload in frames.drain()] == [b"m%d" % i for i in range(600)]
    assert stream.reads <= 3


@running
async def test_num_pending_counts_down_in_the_ack_subject() -> None:
    _, _, acks = await delivered(3)
    assert [subject.rsplit(b".", 1)[1] for subject in acks] == [b"2", b"1", b"0"]


ODD = {3: b"-NAK", 7: b"+TERM", 11: b"+WPI", 12: b"", 13: b"+ACK ", 14: b"+OK"}


@pytest.mark.parametrize("odd", [{}, ODD])
@pytest.mark.parametrize(
    "config", [{}, {"ack_policy": AckPolicy.ALL}, {"sample_freq": "100"}, {"max_ack_pending": 20}]
)
@running
async def test_acknowledgements_in_a_row_do_what_each_does(
    config: dict[str, object], odd: dict[int, bytes]
) -> None:
    seen: list[tuple[object, ...]] = []
    for together in (True, False):
        start = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 3}
        stream, frames, acks = await delivered(20, **config, **start)
        batch = MessageColumns()
        for number, subject in enumerate((*acks[:16], b"$JS.ACK.S.c.1.x.1.0.0", LONG_ACK)):
            batch.add(subject, b"", b"", odd.get(number, b"+ACK"))
        if together:
            deliver_batch_here(stream.account, batch)
        else:
            for subject, reply, _, payload in batch.messages():
                stream.ack(subject, payload, reply)
        await stream.rest()
        info, state = stream.consumers["c"].info(), stream.consumers["c"].state_write()
        counts = floor(stream), info.num_ack_pending, info.num_redelivered
        seen.append((counts, state and state.state, await again(stream, frames)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "payload",
    [b'-NAK\xc2\xa0{"Delay":5}', b'-NAK {"DELAY":5,"x":"\xff"}', b'-NAK {"delay":5,"Delay":null}'],
)
def test_the_delay_of_a_nak_is_read_as_go_does(payload: bytes) -> None:
    assert nak_delay(parse(payload)[1]) == 5
