"""ConsumerMachine: the state of one consumer and the rules by which it delivers.

The rules are those of nats-server. There is no I/O: the caller (`core.jetstream.consumer.runner`)
asks how many messages it may deliver (`ack_pending_left`), records deliveries (`deliver`,
`redeliver`), and sends the statuses that the machine adds to `outbox`. The caller also implements
pausing, and deletes a consumer that was inactive for its `inactive_threshold`.

    stored -> num_pending -> deliver -> pending --ack/term/removed--> gone (the floor may move)
                                          |  ^
                         ack_wait, nak    v  | redeliver (count + 1)
                                        queued --max_deliver--> no longer redelivered

All times are monotonic nanoseconds given by the caller; `shift` of `state` and `restored` turns
them into wall-clock time.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap

from core.model.consumer import AckPolicy, ConsumerConfig, PriorityPolicy
from core.rules.consumer import dead_letter
from core.rules.consumer.acks.payloads import nak_delay
from core.rules.consumer.acks.pending import Pending, wait_of
from core.rules.consumer.acks.sampling import Sampler, make_sampler
from core.rules.consumer.dead_letter import DeadLetter, EndingReason, PendingDeadLetters
from core.rules.consumer.delivery.push import Push
from core.rules.consumer.events import Event, GivenUp, Removed
from core.rules.consumer.pull.priority_groups import GroupWaiting
from core.rules.consumer.pull.requests import (
    EXCEEDED_MAX_WAITING,
    NO_MESSAGES,
    PIN_MISMATCH,
    PUSH_BASED,
    REQUESTS_PENDING,
    BadRequest,
    Waiting,
    read_request,
    status,
)
from core.rules.consumer.state import TIME_UNIT, ConsumerState, time_units
from core.subjects.subject import compile_filters, compile_reading
from core.units import NANOS_PER_SECOND, ConsumerSeq, Seq

NO_LIMIT = 1 << 62
_NEVER = 10 * 365 * 24 * 3600 * NANOS_PER_SECOND


class ConsumerMachine:
    """The state of one consumer, and the rules by which it changes.

    Args:
        config: The complete configuration, with defaults filled in.
        next_seq: First stream sequence to deliver.
        chosen: For deliver policy last_per_subject: the sequences to deliver before `live_from`,
            ascending.
        live_from: From this sequence on all matching messages are delivered, not only those in
            `chosen`.
        push: Flow control and rate limit of a push consumer (None: a pull consumer).
        new_pin: Returns a unique id for a pinned client.
        on_file: Whether the stream has file storage.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        next_seq: int,
        *,
        chosen: Sequence[int] = (),
        live_from: int = 0,
        push: Push | None = None,
        new_pin: Callable[[], str] = str,
        on_file: bool = True,
    ) -> None:
        self.config = config
        self._on_file = on_file
        self._new_pin = new_pin
        self.pending = Pending()
        self.waits: tuple[int, ...] = ()
        """The ack wait of the first, second, ... delivery, in nanoseconds.

        The last value applies to all further deliveries.
        """
        self.waiting: Waiting = Waiting()
        self.push = push
        self.next_seq = next_seq
        self.delivered_sseq = max(next_seq - 1, 0)
        self.delivered_cseq = ConsumerSeq(0)
        self.num_pending = 0
        self.is_counted = True
        """True while `num_pending` is valid; False until it is counted again."""
        self.pending.floor_sseq = max(next_seq - 1, 0)
        self.chosen: list[int] = list(chosen)
        self.live_from = live_from
        self.settled: list[int] | None = None
        """Stream sequences of finished messages (acknowledged, or delivered without acks).

        They are reported to the stream's retention. None if the stream has limits retention.
        """
        self.leaving: set[int] = set()
        """Sequences of finished messages that were reported and not yet removed."""
        self.events: list[Event] = []
        """Events for advisories; the owner empties the list."""
        self.sampler: Sampler | None = None
        self.pending_dead_letters = PendingDeadLetters()
        """Messages whose dead letters are not stored yet."""
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Apply a new configuration; changed ack waits apply to pending messages, too."""
        if not self.sampler or config.sample_freq != self.config.sample_freq:
            self.sampler = make_sampler(config.sample_freq)
        self.config = config
        self._configure_waiting()
        self.filters = [text.encode() for text in config.filters]
        self.interest = compile_filters(self.filters)
        """Matches the subjects to retain, under interest or work-queue retention (None: all)."""
        self.match = compile_reading(self.filters) if self._on_file else self.interest
        """Matches the subjects to deliver (None: all)."""
        self.acks = config.ack_policy != AckPolicy.NONE
        self.acks_all = config.ack_policy in (AckPolicy.ALL, AckPolicy.FLOW_CONTROL)
        self.flow_acks = config.ack_policy is AckPolicy.FLOW_CONTROL
        before, self.waits = self.waits, config.backoff or (config.ack_wait or 30_000_000_000,)
        if self.flow_acks:
            # Nothing is redelivered: a mirror or source that misses a message resets the consumer.
            self.waits = (_NEVER,)
        if before and before != self.waits:
            self.pending.change_waits(before, self.waits)
        self.max_deliver = config.max_deliver if config.max_deliver > 0 else -1
        self.dead_letter_stream = dead_letter.stream_for(config)
        """Name of the dead-letter stream ("": none)."""
        if not self.dead_letter_stream and self.pending_dead_letters:
            self._done_with(self.pending_dead_letters.clear())
        limited = self.acks and config.max_ack_pending > 0
        self.max_pending = config.max_ack_pending if limited else NO_LIMIT
        if self.push is not None:
            self.push.set_rate(config.rate_limit_bps)

    def _configure_waiting(self) -> None:
        """Replace the queue of pull requests if the priority policy has changed."""
        config, before = self.config, self.waiting
        if isinstance(before, GroupWaiting) and before.policy is config.priority_policy:
            before.configure(config)
        elif config.priority_policy is not PriorityPolicy.NONE:
            self.waiting = GroupWaiting(config, self._demand, self.events, self._new_pin)
            self.waiting.adopt_requests(before)
        elif isinstance(before, GroupWaiting):
            self.waiting = Waiting()
            self.waiting.adopt_requests(before)

    def _demand(self) -> tuple[int, int]:
        return self.num_pending + self.pending.queued(), len(self.pending)

    def unpin(self, group: str) -> None:
        """Unpin the pinned client of a priority group, as an administrator requested."""
        if isinstance(self.waiting, GroupWaiting):
            self.waiting.unpin(group, "admin")

    @property
    def outbox(self) -> list[tuple[bytes, bytes]]:
        """The statuses to send to pull requests, in order: (reply subject, header block)."""
        return self.waiting.outbox

    def upcoming(self) -> int:
        """Return the sequence at which the search for the next message to deliver begins."""
        return self.chosen[0] if self.chosen else max(self.next_seq, self.live_from)

    # changes of the stream

    def stored(self, count: int) -> None:
        """Add `count` newly stored messages that match the filters to `num_pending`."""
        self.num_pending += count

    def removed(
        self, gone: Sequence[tuple[int, bytes]], *, tells: bool = True, purged: bool = False
    ) -> bool:
        """Process messages that were removed from the stream, delivered or not.

        With `tells`, removed messages with a pending ack cause events, and count as acknowledged
        under ack policy all.

        Args:
            gone: (sequence, subject) of each message.
            purged: Whether a purge by filter or a roll-up removed them. Such messages never count
                as acknowledged.

        Returns:
            Whether some of them were delivered and not acknowledged.
        """
        nothing_open = not (self.pending.first or self.pending.counts or self.chosen)
        if nothing_open and max(gone)[0] < self.next_seq:
            return False  # All were delivered and acknowledged: no need to check each one.
        done: list[int] = []
        for seq, subject in gone:
            if seq in self.pending.first or seq in self.pending.counts:
                done.append(seq)
            elif self.expects(seq) and self._counts(seq, subject):
                self.num_pending -= 1
                if self.chosen and seq < self.live_from:
                    self.chosen.remove(seq)
        if done:
            if tells:
                self._note_removed(done)
                waiting = [seq for seq in done if seq in self.pending.first]
                if self.acks_all and waiting and not purged:
                    # The removal acknowledges the message, and so all messages before it.
                    self.ack_all(max(waiting), self.pending.first[max(waiting)])
            self.pending.ack(done)
            self.pending.settle_floor(self.delivered_cseq, self.delivered_sseq)
        return bool(done)

    def _note_removed(self, done: list[int]) -> None:
        pending = self.pending
        for seq in done:
            if seq in pending.first:
                # nats-server counts all but the first delivery here.
                count = max(pending.deliveries(seq) - 1, 1)
                self.events.append(Removed(pending.first[seq], seq, count))

    def expects(self, seq: int) -> bool:
        """Return whether a sequence is still to be delivered, if its subject matches."""
        if self.chosen and seq < self.live_from:
            at = bisect_left(self.chosen, seq)
            return at < len(self.chosen) and self.chosen[at] == seq
        return seq >= max(self.next_seq, self.live_from)

    def _counts(self, seq: int, subject: bytes) -> bool:
        is_chosen = bool(self.chosen) and seq < self.live_from
        return is_chosen or self.match is None or self.match(subject)

    def purged(self, first_seq: int) -> bool:
        """Process a purge of all messages below `first_seq`.

        Returns:
            Whether undelivered messages were removed. Then `num_pending` is 0 until it is counted
            again.
        """
        miscounted = self.upcoming() < first_seq
        if miscounted:
            self.num_pending, self.is_counted = 0, False
        self.chosen = [seq for seq in self.chosen if seq >= first_seq]
        self.follow(first_seq)
        return miscounted

    def has_open_below(self, seq: int) -> bool:
        """Return whether a message below sequence `seq` was delivered and awaits its ack."""
        return next(iter(self.pending.first), seq) < seq

    def follow(self, start: int) -> bool:
        """Continue at `start`, the first sequence that a purge or roll-up left.

        Messages below count as acknowledged. Returns whether some of them awaited an ack.
        """
        pending = self.pending
        pending.floor()  # Compute the floor before the purge changes the pending messages.
        self.next_seq = max(self.next_seq, start)
        self.delivered_sseq = max(self.delivered_sseq, self.next_seq - 1)
        gone = [seq for seq in pending.first if seq < start]
        if gone:
            pending.floor_cseq = max(pending.floor_cseq, pending.first[gone[-1]])
        pending.ack([*gone, *(seq for seq in pending.counts if seq < start)])
        pending.floor_sseq = max(pending.floor_sseq, start - 1)
        if not pending.first:
            pending.floor_cseq = self.delivered_cseq
            pending.floor_sseq = self.delivered_sseq
        return bool(gone)

    def reset(self, next_seq: int) -> None:
        """Start over at stream sequence `next_seq`, without pending messages.

        Consumer sequences begin with 1 again; `num_pending` has to be counted.
        """
        self.pending = Pending()
        self.pending.floor_sseq = max(next_seq - 1, 0)
        self.next_seq = next_seq
        self.delivered_sseq = max(next_seq - 1, 0)
        self.delivered_cseq = ConsumerSeq(0)
        self.num_pending, self.is_counted = 0, False
        self.chosen, self.live_from = [], 0

    def count(self, num_pending: int, *, is_exact: bool) -> None:
        """Set `num_pending`. An inexact number is an upper bound, and is counted again later."""
        self.num_pending, self.is_counted = num_pending, is_exact

    def begin_count(self, is_live: Callable[[int], bool]) -> None:
        """Mark `num_pending` as invalid until it is counted; drop removed messages from `chosen`.

        `is_live` returns whether a sequence is still in the stream.
        """
        self.is_counted = False
        self.chosen = list(filter(is_live, self.chosen))

    def watch_settled(self, *, is_watched: bool) -> None:
        """Start or stop recording finished messages, which the stream's retention may remove."""
        self.settled = (self.settled or []) if is_watched else None

    def pop_settled(self) -> list[int]:
        """Return the messages finished since the last call; empty if they are not recorded."""
        if settled := self.settled or []:
            self.settled = []
        return settled

    def bound(self, last: int, msgs: int) -> None:
        """Limit `num_pending` by the messages that can follow the read position in the stream.

        `last` is the stream's last sequence, `msgs` its number of messages. As in nats-server, a
        consumer that starts beyond the last sequence counts messages below its start until its info
        is requested.
        """
        ahead = last - self.upcoming() + 1
        self.num_pending = min(self.num_pending, msgs, ahead) if ahead > 0 else 0

    # pull requests

    def request(self, body: bytes, reply: bytes, now: int) -> None:
        """Queue a pull request, or answer it with a status in `outbox`.

        `body` and `reply` are the payload and reply subject of the request; `now` is in monotonic
        nanoseconds.
        """
        if not reply:
            return
        refusal = self._admit(body, reply, now)
        if refusal:
            self.outbox.append((reply, status(refusal)))

    def _admit(self, body: bytes, reply: bytes, now: int) -> bytes:
        if self.push is not None:
            return PUSH_BASED
        try:
            request = read_request(body, reply, now, self.config)
        except BadRequest as error:
            return error.line
        if isinstance(self.waiting, GroupWaiting) and not self.waiting.admits(request, now):
            return PIN_MISMATCH
        waiting, most = self.waiting, self.config.max_waiting
        if len(waiting) >= most > 0:
            waiting.expire(now, self.delivered_cseq, self.scanned_sseq)
        if request.no_wait and self.is_counted:
            available = self.num_pending + self.pending.queued()
            if not available and not request.expires:
                return NO_MESSAGES
            if available and available < waiting.asked():
                return REQUESTS_PENDING
        if len(waiting) >= most > 0:
            return b"" if request.heartbeat else EXCEEDED_MAX_WAITING
        waiting.add(request)
        return b""

    # deliveries

    def ack_pending_left(self) -> int:
        """Return the number of messages that may be delivered until `max_ack_pending` is reached.

        Dead letters that are not stored yet count too.
        """
        held = len(self.pending_dead_letters) if self.dead_letter_stream else 0
        return max(self.max_pending - len(self.pending) - held, 0)

    def deliver(self, seqs: Sequence[int], now: int) -> ConsumerSeq:
        """Record first deliveries of messages; return the consumer sequence of the first one.

        `seqs` are their stream sequences; `now` is in monotonic nanoseconds.
        """
        count = len(seqs)
        assert count, "something is delivered"
        # Sums are plain integers; `ConsumerSeq(...)` would be one more call for each delivery.
        cseq: ConsumerSeq = self.delivered_cseq + 1  # type: ignore[assignment]
        self.delivered_cseq += count  # type: ignore[assignment]
        self.delivered_sseq = seqs[-1]
        self.next_seq = seqs[-1] + 1
        self.num_pending -= count
        if self.chosen:
            del self.chosen[: bisect_left(self.chosen, self.next_seq)]
            if not self.chosen:
                self.next_seq = max(self.next_seq, self.live_from)
        if self.acks:
            self.pending.add(seqs, cseq, now, self.waits[0])
            if self.sampler is not None:
                self.sampler.delivered(seqs, now)
        else:
            self.pending.floor_cseq = self.delivered_cseq
            self.pending.floor_sseq = self.delivered_sseq
            if self.settled is not None:
                self.settled += seqs
        return cseq

    def lost(self, seq: int) -> None:
        """Skip sequence `seq` if it is the next in `chosen`: its message was removed."""
        if self.chosen and self.chosen[0] == seq:
            del self.chosen[0]
            self.num_pending -= 1

    def passed(self, next_seq: int) -> None:
        """Skip to `next_seq`, below which no message matches; `delivered_sseq` does not change."""
        if not self.chosen:
            self.next_seq = max(self.next_seq, next_seq)

    @property
    def scanned_sseq(self) -> int:
        """The last stream sequence that was delivered or skipped, for idle heartbeats."""
        return max(self.next_seq - 1, 0)

    def ended(self, last: int) -> None:
        """Record that all messages up to the stream's last sequence were delivered or skipped."""
        self.passed(last + 1)
        if self.is_counted and self.upcoming() > last:
            self.num_pending = 0

    def next_redelivery(self) -> int | None:
        """Return the message to redeliver before any first delivery (None: there is none).

        Messages that were delivered `max_deliver` times are given up instead.
        """
        while (sseq := self.pending.next_queued()) is not None:
            if 0 < self.max_deliver <= self.pending.deliveries(sseq):
                self.pending.unqueue()
                self.pending.stop_redelivering(sseq)
                self._note_max_deliver(sseq)
                continue
            return sseq
        return None

    def redelivery(self, sseq: int) -> tuple[int, ConsumerSeq]:
        """Return (delivery count, consumer sequence) that `redeliver` will assign to a message."""
        count = self.pending.deliveries(sseq) + 1
        return count, self.delivered_cseq + 1  # type: ignore[return-value]

    def redeliver(self, sseq: int, now: int) -> tuple[int, ConsumerSeq]:
        """Record a redelivery; return (number of deliveries, new consumer sequence).

        `now` is in monotonic nanoseconds.
        """
        count, self.delivered_cseq = self.redelivery(sseq)
        self.pending.unqueue()
        self.pending.add_redelivery(sseq, count, now + self._wait(count))
        if self.sampler is not None:
            self.sampler.delivered((sseq,), now)
        return count, self.delivered_cseq

    def vanished(self, sseq: int) -> None:
        """Remove a message whose ack is pending, because it is no longer in the stream."""
        self.pending.ack((sseq,))
        self.pending.settle_floor(self.delivered_cseq, self.delivered_sseq)

    def _wait(self, count: int) -> int:
        return wait_of(self.waits, count)

    # acknowledgements

    def ack_each(self, sseqs: Iterable[int]) -> None:
        """Acknowledge messages one by one (ack policy explicit)."""
        if self.settled is not None:
            sseqs = list(sseqs)
            self.settled += filter(self._settles, sseqs)
        self.pending.ack(sseqs)
        self.pending.settle_floor(self.delivered_cseq, self.delivered_sseq)

    def ack_all(self, sseq: int, cseq: ConsumerSeq) -> None:
        """Acknowledge all messages up to stream sequence `sseq` (ack policy all)."""
        pending = self.pending
        opened = None
        if self.settled is not None:
            opened = [seq for seq in {**pending.first, **pending.counts} if seq <= sseq]
        pending.ack_all(sseq, min(cseq, self.delivered_cseq))
        if self.settled is not None and opened:
            done = [seq for seq in opened if not self.is_open(seq)]
            self.settled += [
                seq
                for seq in done
                if not (self.pending_dead_letters and seq in self.pending_dead_letters)
            ]

    @property
    def _settles(self) -> Callable[[int], bool]:
        """Predicate of stream sequences: whether an ack lets the stream remove the message.

        True if the message was delivered and not acknowledged, and has no dead letter to store.
        """
        if not self.pending_dead_letters:
            return self.is_open
        return lambda sseq: self.is_open(sseq) and sseq not in self.pending_dead_letters

    def is_open(self, sseq: int) -> bool:
        """Return whether a message was delivered and not acknowledged, even after `max_deliver`."""
        return sseq in self.pending.first or sseq in self.pending.counts

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether the stream has to keep a message for this consumer.

        That is so until the message is delivered and acknowledged, and its dead letter, if any, is
        stored.
        """
        if self.interest is not None and not self.interest(subject):
            return False
        return self.is_open(seq) or self.expects(seq) or seq in self.pending_dead_letters

    def was_delivered(self, sseq: Seq) -> bool:
        """Return whether a stream sequence was ever delivered; acks of others are ignored."""
        return sseq <= self.delivered_sseq

    def nak(self, sseq: Seq, cseq: ConsumerSeq, argument: bytes, now: int) -> bool:
        """Redeliver a message at once, or after the delay in the NAK (`argument`).

        `now` is in monotonic nanoseconds. Returns False if the message is not pending, or if `cseq`
        is not above the ack floor or is above the next delivery. nats-server has the same limits:
        after a crash, the stored state may lack the last delivery.
        """
        pending = self.pending
        if not pending.floor()[0] < cseq <= self.delivered_cseq + 1 or sseq not in pending.first:
            return False
        delay = nak_delay(argument)
        if delay is None:
            pending.enqueue(sseq)
        else:
            pending.delay(sseq, now + max(delay, 1))
        return True

    def in_progress(self, sseq: Seq, now: int) -> None:
        """Restart the ack wait of a pending message, from `now` (monotonic nanoseconds) on."""
        if sseq in self.pending.first and not self.pending.is_queued(sseq):
            self.pending.delay(sseq, now + self._wait(self.pending.deliveries(sseq)))

    def ack(self, sseq: Seq, cseq: ConsumerSeq) -> None:
        """Acknowledge a message: alone, or with all before it (ack policy all)."""
        if self.acks_all:
            self.ack_all(sseq, cseq)
        else:
            self.ack_each((sseq,))

    def terminate(self, sseq: Seq, cseq: ConsumerSeq, reason: bytes) -> None:
        """End a message without redelivery. Its dead letter, if any, contains the reason."""
        if self.dead_letter_stream and self.is_open(sseq):
            count, text = self.pending.deliveries(sseq), reason[: dead_letter.REASON_MAX]
            self.pending_dead_letters.add(
                DeadLetter(sseq, count, EndingReason.TERMINATED, text), self._new_pin
            )
        self.ack(sseq, cseq)

    def _note_max_deliver(self, sseq: int) -> None:
        """Record an event and a dead letter for a message delivered `max_deliver` times."""
        count = self.pending.deliveries(sseq)
        self.events.append(GivenUp(sseq, count))
        if self.dead_letter_stream:
            self.pending_dead_letters.add(
                DeadLetter(sseq, count, EndingReason.MAX_DELIVER), self._new_pin
            )

    def remove_dead_letters(self, through: int) -> None:
        """Remove stored dead letters, up to number `through`, and finish their messages."""
        self._done_with(self.pending_dead_letters.remove_through(through))

    def _done_with(self, dead_letters: Iterable[DeadLetter]) -> None:
        # After a reset a message may be expected, or pending, once more.
        first = self.pending.first
        done = [e.sseq for e in dead_letters if e.sseq not in first and not self.expects(e.sseq)]
        self.pending.finish(done)
        self.pending.settle_floor(self.delivered_cseq, self.delivered_sseq)
        if self.settled is not None:
            self.settled += done

    # time

    def deadline(self) -> int | None:
        """Return the time of the next call of `expire`, in monotonic nanoseconds.

        None: no call is needed.
        """
        push = self.push.deadline() if self.push else None
        times = (self.pending.deadline(), self.waiting.deadline(), push)
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: int) -> None:
        """Process expired pull requests, due heartbeats, and acks that are overdue at `now`.

        `now` is in monotonic nanoseconds.
        """
        for sseq in self.pending.expire(now, self.max_deliver):
            self._note_max_deliver(sseq)
        self.waiting.expire(now, self.delivered_cseq, self.scanned_sseq)
        if self.push is not None and self.push.bucket is not None:
            self.push.bucket.is_ready(now)

    # persistence

    def state(self, shift: int) -> ConsumerState:
        """Return the state to store; `shift` is wall clock minus monotonic clock, in ns."""
        floor_cseq, floor_sseq = self.pending.floor()
        return ConsumerState(
            delivered_cseq=self.delivered_cseq,
            delivered_sseq=self.delivered_sseq,
            floor_cseq=floor_cseq,
            floor_sseq=floor_sseq,
            pending=self.pending.first,
            delivery_times=[(c, time_units(t, shift)) for c, t in self.pending.delivery_times],
            deadlines={s: t and time_units(t, shift) for s, t in self.pending.deadlines().items()},
            counts=self.pending.counts,
            chosen=[*self.chosen, self.live_from] if self._has_start() else (),
            leaving=sorted(self.leaving.union(self.settled)) if self.settled is not None else (),
            era=self.pending_dead_letters.era,
            ended=self.pending_dead_letters.last,
            dead_letters=self.pending_dead_letters.all(),
        )

    def _has_start(self) -> bool:
        """Return whether the stored state needs more than the last delivery as read position.

        That is so while messages of deliver policy last_per_subject are left, or the start position
        is above the next sequence.
        """
        return bool(self.chosen) or self.live_from > self.delivered_sseq + 1

    def restored(self, state: ConsumerState, shift: int, is_live: Callable[[int], bool]) -> None:
        """Restore a stored state, without messages that are no longer in the stream.

        `is_live` returns whether a sequence is in the stream; `shift` is wall clock minus monotonic
        clock, in nanoseconds. The caller sets `num_pending`. Ack deadlines are restored too, so
        messages that became due while no node ran are redelivered at once.
        """
        pending = self.pending
        self.delivered_cseq = state.delivered_cseq
        self.delivered_sseq = state.delivered_sseq
        self.next_seq = state.delivered_sseq + 1
        pending.floor_cseq, pending.floor_sseq = state.floor_cseq, state.floor_sseq
        # The stored values replace the initial values of a new consumer.
        *self.chosen, self.live_from = state.chosen or (0,)
        pending.first, pending.counts = dict(state.pending), dict(state.counts)
        pending.ack([s for s in {**pending.first, **pending.counts} if not is_live(s)])
        deadlines = {
            s: t and t * TIME_UNIT - shift for s, t in state.deadlines.items() if is_live(s)
        }
        times = [(cseq, time * TIME_UNIT - shift) for cseq, time in state.delivery_times]
        pending.delivery_times.extend(times)
        pending.restore(self._first_deliveries(times), deadlines)
        pending.settle_floor(self.delivered_cseq, self.delivered_sseq)
        if self.settled is not None:
            self.settled += state.leaving
        dead_letters = starmap(DeadLetter, state.dead_letters)
        self.pending_dead_letters = PendingDeadLetters(state.era, state.ended, dead_letters)
        if not self.dead_letter_stream:
            self._done_with(self.pending_dead_letters.clear())

    def _first_deliveries(
        self, times: list[tuple[ConsumerSeq, int]]
    ) -> list[tuple[int, list[int]]]:
        """Group the pending messages by time of first delivery, as (ack deadline, sequences).

        `times` are (consumer sequence, time of first deliveries from that sequence on), in
        monotonic nanoseconds like the deadlines.
        """
        groups: list[tuple[int, list[int]]] = [(at + self.waits[0], []) for _, at in times]
        starts = [cseq for cseq, _ in times]
        for sseq, cseq in self.pending.first.items():
            at = bisect_left(starts, cseq + 1) - 1
            groups[max(at, 0)][1].append(sseq)
        return [group for group in groups if group[1]]
