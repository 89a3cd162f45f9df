"""Start positions, filters, updates, restarts, inactivity."""

# Subject: consumers

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from core.errors import ApiError, Unavailable
from core.jetstream.consumer import consumers, pending_count
from core.jetstream.log import counts
from core.jetstream.log.stream_log import StreamLog
from core.jetstream.log.subjects import subjects_matching
from core.model.consumer import Action, ConsumerConfig, DeliverPolicy
from core.rules.consumer.state import ConsumerState, StateError, decode, encode
from core.storage.interface import ConsumerRow
from core.units import ConsumerSeq, Epoch
from tests.support.consumers import SECOND, FakeStream, Frames
from tests.support.scenario import running


async def filled() -> tuple[FakeStream, Frames]:
    """Sequences 1 to 6 on s.a s.b s.a s.b s.a s.c, a second apart."""
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    for i, subject in enumerate((b"s.a", b"s.b", b"s.a", b"s.b", b"s.a", b"s.c"), 1):
        stream.publish((subject, b"%d" % i))
        stream.clock.time += SECOND
    return stream, frames


async def everything(stream: FakeStream, frames: Frames) -> bytes:
    stream.pull(b'{"batch":100,"no_wait":true}')
    await stream.rest()
    return b" ".join(payload for *_, payload in frames.drain() if payload)


@pytest.mark.parametrize(
    ("config", "before", "pending", "got"),
    [
        ({}, 0, 6, b"1 2 3 4 5 6"),
        ({"deliver_policy": DeliverPolicy.LAST}, 5, 1, b"6"),
        ({"deliver_policy": DeliverPolicy.LAST, "filter_subject": "s.b"}, 3, 1, b"4"),
        ({"deliver_policy": DeliverPolicy.NEW}, 6, 0, b""),
        ({"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 4}, 3, 3, b"4 5 6"),
        ({"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 99}, 98, 0, b""),
        (
            {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "s.>"},
            3,
            3,
            b"4 5 6",
        ),
        ({"filter_subject": "s.a"}, 0, 3, b"1 3 5"),
        ({"filter_subjects": ("s.c", "s.b")}, 0, 3, b"2 4 6"),
        ({"filter_subject": "s.none"}, 0, 0, b""),
    ],
)
@running
async def test_start_position(
    config: dict[str, object], before: int, pending: int, got: bytes
) -> None:
    stream, frames = await filled()
    info = (await stream.create(**config)).info()
    assert (info.delivered.stream_seq, info.ack_floor.stream_seq) == (before, before)
    assert info.num_pending == pending
    assert await everything(stream, frames) == got
    assert stream.consumers["c"].info().num_pending == 0


@running
async def test_start_time() -> None:
    stream, frames = await filled()
    await stream.create(
        deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=stream.rows[3].ts + 1
    )
    assert await everything(stream, frames) == b"4 5 6"


@running
async def test_last_per_subject_goes_on_with_new_messages() -> None:
    stream, frames = await filled()
    await stream.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    stream.publish((b"s.a", b"7"))
    assert await everything(stream, frames) == b"4 5 6 7"


@running
async def test_last_per_subject_misses_nothing_that_is_stored_during_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, frames = await filled()
    search = subjects_matching

    async def in_parts(log: StreamLog, filters: list[bytes]) -> list[tuple[bytes, int, int]]:
        monkeypatch.undo()
        found = await search(log, [b"s.a"])
        stream.publish((b"s.a", b"7"), (b"s.b", b"8"))
        return found + await search(log, [b"s.b"])

    monkeypatch.setattr(consumers, "subjects_matching", in_parts)
    runner = await stream.create(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subjects=("s.a", "s.b")
    )
    assert runner.info().num_pending == 3
    assert await everything(stream, frames) == b"5 7 8"


@running
async def test_last_per_subject_skips_what_was_superseded() -> None:
    stream, frames = await filled()
    runner = await stream.create(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*"
    )
    stream.publish((b"s.b", b"7"))
    stream.remove(4)
    assert runner.info().num_pending == 3
    assert await everything(stream, frames) == b"5 6 7"
    assert runner.info().num_pending == 0


@running
async def test_last_per_subject_out_of_storage() -> None:
    stream, frames = await filled()
    stream.forget_tail()
    await stream.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    assert await everything(stream, frames) == b"4 5 6"
    assert stream.reads == 1


@running
async def test_fresh_consumer_of_an_empty_stream() -> None:
    stream = FakeStream()
    info = (await stream.create()).info()
    assert (info.delivered.stream_seq, info.ack_floor.stream_seq, info.num_pending) == (0, 0, 0)


@running
async def test_filter_update_counts_anew() -> None:
    stream, frames = await filled()
    runner = await stream.create(filter_subject="s.a")
    stream.pull(b"1")
    await stream.rest()
    frames.drain()
    await stream.create(filter_subject="s.b")
    assert runner.info().num_pending == 2
    assert await everything(stream, frames) == b"2 4"


@running
async def test_a_message_that_is_removed_while_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, frames = await filled()
    runner = await stream.create(filter_subject="s.a")
    count_from = counts.count_from

    async def slowly(*request: Any) -> int:
        found = await count_from(*request)
        monkeypatch.undo()
        stream.remove(4)
        return found

    monkeypatch.setattr(pending_count, "count_from", slowly)
    await stream.create(filter_subject="s.b")
    assert runner.info().num_pending == 1
    assert await everything(stream, frames) == b"2"


@pytest.mark.parametrize(("how", "left"), [("filter", 2), ("reset", 3), ("purge", 2)])
@running
async def test_pending_messages_are_counted_when_storage_is_back(
    how: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = await filled()
    runner = await stream.create(filter_subject="s.a")
    tries = 0

    async def away(*request: Any) -> int:
        nonlocal tries
        tries += 1
        raise Unavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(counts, "_COUNT_AT_ONCE", 0)
        patch.setattr(pending_count, "count_from", away)
        if how == "purge":
            stream.purge(2)
        else:
            with pytest.raises(Unavailable):
                await (
                    stream.consumers.reset("c", 1)
                    if how == "reset"
                    else stream.create(filter_subject="s.b")
                )
        await stream.rest()
        assert tries == 1
        await stream.advance(1)
        assert 4 <= tries <= 5
    await stream.advance(0.3)
    assert runner.info().num_pending == left


@running
async def test_refused_change_leaves_the_consumer_as_it_was() -> None:
    stream, frames = await filled()
    runner = await stream.create()
    with pytest.raises(ApiError):
        await stream.create(deliver_policy=DeliverPolicy.NEW)
    assert stream.consumers["c"] is runner
    assert await everything(stream, frames) == b"1 2 3 4 5 6"


@running
async def test_update_of_a_missing_consumer() -> None:
    stream, _ = await filled()
    with pytest.raises(ApiError, match="10149"):
        await stream.consumers.create(ConsumerConfig(name="x"), Action.UPDATE)


@running
async def test_delete_of_a_missing_consumer() -> None:
    stream, _ = await filled()
    with pytest.raises(ApiError, match="10014"):
        await stream.consumers.delete("x")


@running
async def test_generated_name_has_eight_characters() -> None:
    stream, _ = await filled()
    runner = await stream.consumers.create(ConsumerConfig())
    assert (len(runner.name), runner.config.name) == (8, "")


async def restarted(stream: FakeStream) -> FakeStream:
    """The same log with the consumer as a new leader finds it."""
    old = stream.consumers["c"]
    state = old.state_write()
    assert state is not None
    old.close(deleted=False)
    row = ConsumerRow(1, old.consumer, "c", old.created, Epoch(1), "", state.state)
    stream.consumers.clear()
    await stream.consumers.restore(row, old.config)
    stream.consumers.start()
    stream.timers.at(stream.consumers["c"], stream.consumers["c"].deadline())
    return stream


@running
async def test_restart_keeps_position_floor_and_pending() -> None:
    stream, frames = await filled()
    await stream.create()
    stream.pull(b"4")
    await stream.rest()
    acks = [reply for _, reply, _, _ in frames.drain()]
    stream.ack(acks[0])
    stream.ack(acks[2])
    await stream.rest()
    before = stream.consumers["c"].info()
    await restarted(stream)
    after = stream.consumers["c"].info()
    assert (after.delivered.consumer_seq, after.delivered.stream_seq) == (4, 4)
    assert (after.ack_floor.consumer_seq, after.ack_floor.stream_seq) == (1, 1)
    assert (after.num_ack_pending, after.num_pending) == (2, 2)
    assert (before.num_ack_pending, before.num_pending) == (2, 2)


@running
async def test_restart_redelivers_when_the_wait_is_over() -> None:
    stream, frames = await filled()
    await stream.create(ack_wait=SECOND)
    stream.pull(b"2")
    await stream.rest()
    frames.drain()
    await restarted(stream)
    await stream.advance(1.2)
    assert await everything(stream, frames) == b"1 2 3 4 5 6"


@running
async def test_double_acked_message_never_comes_again() -> None:
    stream, frames = await filled()
    await stream.create(ack_wait=SECOND)
    stream.pull(b"1")
    await stream.rest()
    ((_, reply, _, _),) = frames.drain()
    stream.ack(reply, b"+ACK", b"in.ok")
    await stream.rest()
    stream.states.commit()
    await restarted(stream)
    await stream.advance(5)
    assert await everything(stream, frames) == b"2 3 4 5 6"


@running
async def test_restart_in_the_middle_of_last_per_subject() -> None:
    stream, frames = await filled()
    await stream.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    stream.pull(b"1")
    await stream.rest()
    frames.drain()
    await restarted(stream)
    assert stream.consumers["c"].info().num_pending == 2
    assert await everything(stream, frames) == b"5 6"


@pytest.mark.parametrize("deleted", [False, True])
@running
async def test_restart_behind_last_per_subject(deleted: bool) -> None:
    stream, frames = await filled()
    await stream.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    if deleted:
        stream.remove(4, 5, 6)
    else:
        assert await everything(stream, frames) == b"4 5 6"
    stream.publish((b"s.a", b"7"), (b"s.a", b"8"))
    await restarted(stream)
    assert stream.consumers["c"].info().num_pending == 2
    assert await everything(stream, frames) == b"7 8"


@running
async def test_crash_before_it_is_written_that_the_last_chosen_message_was_deleted() -> None:
    stream, frames = await filled()
    await stream.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.b")
    stream.forget_tail()
    stream.publish((b"s.b", b"7"))
    stream.remove(4, told=False)
    await restarted(stream)
    assert await everything(stream, frames) == b"7"
    assert stream.consumers["c"].info().num_pending == 0


@pytest.mark.parametrize("policy", [DeliverPolicy.ALL, DeliverPolicy.LAST_PER_SUBJECT])
@running
async def test_effects_of_a_removal_on_a_consumer_are_written(policy: DeliverPolicy) -> None:
    stream, _ = await filled()
    runner = await stream.create(deliver_policy=policy, filter_subject="s.*")
    if policy is DeliverPolicy.ALL:
        stream.pull(b"4")
        await stream.rest()
    stream.states.commit()
    stream.remove(4)
    assert runner in stream.states.marked


@running
async def test_damaged_state_does_not_cost_the_consumer() -> None:
    stream, frames = await filled()
    config = (await stream.create()).config
    stream.consumers.close(shutdown=True)
    await stream.consumers.restore(ConsumerRow(1, 1, "c", 0, Epoch(1), "", b"\x01garbage"), config)
    stream.consumers.start()
    assert await everything(stream, frames) == b"1 2 3 4 5 6"


@running
async def test_state_ahead_of_the_log_is_cut_back() -> None:
    stream, _ = await filled()
    config = (await stream.create()).config
    state = encode(state_of(9, 9, 9, 9))
    stream.consumers.close(shutdown=True)
    runner = await stream.consumers.restore(ConsumerRow(1, 1, "c", 0, Epoch(1), "", state), config)
    assert (runner.info().delivered.stream_seq, runner.info().ack_floor.stream_seq) == (6, 6)


@running
async def test_unused_ephemeral_goes() -> None:
    stream, _ = await filled()
    await stream.create(durable_name="", inactive_threshold=SECOND)
    await stream.advance(0.9)
    assert "c" in stream.consumers
    await stream.advance(0.3)
    assert "c" not in stream.consumers


@running
async def test_waiting_request_keeps_an_ephemeral() -> None:
    stream, _ = await filled()
    await stream.create(durable_name="", inactive_threshold=SECOND, filter_subject="s.none")
    stream.pull(b'{"expires":4000000000}')
    await stream.advance(3.9)
    assert "c" in stream.consumers
    await stream.advance(2)
    assert "c" not in stream.consumers


@running
async def test_durable_stays() -> None:
    stream, _ = await filled()
    await stream.create()
    await stream.advance(20)
    assert "c" in stream.consumers


def state_of(
    cseq: int,
    sseq: int,
    floor_cseq: int,
    floor_sseq: int,
    pending: Mapping[int, int] | None = None,
    delivery_times: Sequence[tuple[int, int]] = (),
    *columns: Any,
    **more: Any,
) -> ConsumerState:
    """Return a state; the first arguments are those of `ConsumerState`, as plain numbers."""
    return ConsumerState(
        ConsumerSeq(cseq),
        sseq,
        ConsumerSeq(floor_cseq),
        floor_sseq,
        {seq: ConsumerSeq(number) for seq, number in (pending or {}).items()},
        [(ConsumerSeq(number), time) for number, time in delivery_times],
        *columns,
        **more,
    )


@pytest.mark.parametrize(
    "state",
    [
        ConsumerState(),
        state_of(5, 9, 2, 3, {4: 3, 9: 5}, [(3, 17_000_000_000)], {4: 0, 9: 18}, {4: 2}),
        state_of(1, 2, 0, 0, chosen=[5, 9, 1_000_000]),
        state_of(
            70_000,
            2**40,
            1,
            1,
            {ConsumerSeq(s): s for s in range(2, 70_000)},
            [(2, 1)],
            {},
            {2: 2**33},
        ),
        state_of(3, 3, 3, 3, era="E", ended=7),
        ConsumerState(
            era="E",
            ended=9,
            dead_letters=[(12, 1, 0, b""), (5, 300, 1, b"why"), (2**40, 2, 1, b"x")],
        ),
    ],
)
def test_state_survives_encoding(state: ConsumerState) -> None:
    again = decode(encode(state))
    assert again.pending == state.pending
    assert again.delivery_times == state.delivery_times
    assert (again.deadlines, again.counts) == (state.deadlines, state.counts)
    assert list(again.chosen) == list(state.chosen)
    assert again.delivered_sseq == state.delivered_sseq
    assert (again.era, again.ended) == (state.era, state.ended)
    assert list(again.dead_letters) == list(state.dead_letters)


def test_state_of_thousands_of_pending_is_small() -> None:
    state = state_of(20_000, 20_000, 0, 0, {s: s for s in range(1, 20_001)})
    assert len(encode(state)) < 500


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02",
        b"\x01",
        b"\x81xx",
        encode(ConsumerState()) + b"\0",
        encode(ConsumerState(era="E", ended=1, dead_letters=[(1, 1, 1, b"why")]))[:-1],
    ],
)
def test_damaged_state_is_refused(data: bytes) -> None:
    with pytest.raises(StateError):
        decode(data)
