"""ConsumerMachine: what one consumer has delivered, what waits, and what may go out next.

It holds the reference server's rules and no I/O: the runner asks how much may go out (`room`),
hands in what it found (`deliver`, `redeliver`), and sends what the machine left in `outbox`.

    stored -> num_pending -> deliver -> pending --ack/term/removed--> gone (the floor may move)
                                          |  ^
                              wait or nak v  | redeliver (count + 1)
                                        queued --max_deliver--> given up

All times are monotonic nanoseconds given by the caller; `shift` of `state` and `restored` turns
them into wall-clock time. Pausing is the business of the runner.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from core.consumer.acks import nak_delay
from core.consumer.events import Event, GivenUp, Removed
from core.consumer.groups import GroupWaiting
from core.consumer.pending import Pending, wait_of
from core.consumer.pull import (
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
from core.consumer.push import Push
from core.consumer.sampling import Sampler, make_sampler
from core.consumer.state import TIME_UNIT, ConsumerState
from core.model.consumer import AckPolicy, ConsumerConfig, PriorityPolicy
from core.subjects.subject import compile_filters

NO_LIMIT = 1 << 62
_NEVER = 10 * 365 * 24 * 3600 * 1_000_000_000


class ConsumerMachine:
    """The state of one consumer.

    Args:
        config: Complete configuration, defaults filled in.
        next_seq: First stream sequence to deliver.
        chosen: For last-per-subject: the sequences to deliver before `live_from`, ascending.
        live_from: First sequence that is delivered whatever `chosen` says.
        push: The push side, for a push consumer.
        new_pin: Makes the unique pins of a pinned-client group.
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
    ) -> None:
        self.config = config
        self._new_pin = new_pin
        self.pending = Pending()
        self.waits: tuple[int, ...] = ()
        """How long to wait for the acknowledgement of each attempt, the last for all others."""
        self.waiting: Waiting = Waiting()
        self.push = push
        self.next_seq = next_seq
        self.delivered_sseq = max(next_seq - 1, 0)
        self.delivered_cseq = 0
        self.num_pending = 0
        self.is_counted = True
        """Whether `num_pending` is what is left to deliver, and not yet to be counted anew."""
        self.pending.floor_sseq = max(next_seq - 1, 0)
        self.chosen: list[int] = list(chosen)
        self.live_from = live_from
        self.settled: list[int] | None = None
        """Stream sequences this consumer is done with, gathered for whoever set a list here."""
        self.leaving: set[int] = set()
        """Settled ones that were reported and that the stream has yet to remove."""
        self.events: list[Event] = []
        """What happened that others may want to hear; the owner empties it."""
        self.sampler: Sampler | None = None
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Take a new configuration; other waits are also those of what is pending."""
        if not self.sampler or config.sample_freq != self.config.sample_freq:
            self.sampler = make_sampler(config.sample_freq)
        self.config = config
        self._take_groups()
        self.filters = [text.encode() for text in config.filters]
        self.match = compile_filters(self.filters)
        self.acks = config.ack_policy != AckPolicy.NONE
        self.acks_all = config.ack_policy in (AckPolicy.ALL, AckPolicy.FLOW_CONTROL)
        self.flow_acks = config.ack_policy is AckPolicy.FLOW_CONTROL
        before, self.waits = self.waits, config.backoff or (config.ack_wait or 30_000_000_000,)
        if self.flow_acks:
            # Nothing is delivered again: whoever misses something resets the consumer.
            self.waits = (_NEVER,)
        if before and before != self.waits:
            self.pending.rewait(before, self.waits)
        self.max_deliver = config.max_deliver if config.max_deliver > 0 else -1
        limited = self.acks and config.max_ack_pending > 0
        self.max_pending = config.max_ack_pending if limited else NO_LIMIT
        if self.push is not None:
            self.push.set_rate(config.rate_limit_bps)

    def _take_groups(self) -> None:
        """Let requests wait by the priority policy."""
        config, before = self.config, self.waiting
        if isinstance(before, GroupWaiting) and before.policy is config.priority_policy:
            before.configure(config)
        elif config.priority_policy is not PriorityPolicy.NONE:
            self.waiting = GroupWaiting(config, self._demand, self.events, self._new_pin)
            self.waiting.take_over(before)
        elif isinstance(before, GroupWaiting):
            self.waiting = Waiting()
            self.waiting.take_over(before)

    def _demand(self) -> tuple[int, int]:
        return self.num_pending + self.pending.queued(), len(self.pending)

    def unpin(self, group: str) -> None:
        """Take the pin away from the client that has it."""
        if isinstance(self.waiting, GroupWaiting):
            self.waiting.unpin(group, "admin")

    @property
    def outbox(self) -> list[tuple[bytes, bytes]]:
        """Statuses to send, in order: (reply subject, header block)."""
        return self.waiting.outbox

    def upcoming(self) -> int:
        """The sequence from which to look for the next message."""
        return self.chosen[0] if self.chosen else max(self.next_seq, self.live_from)

    # what the stream reports

    def stored(self, count: int) -> None:
        """Wanted messages were added to the stream."""
        self.num_pending += count

    def removed(self, gone: Sequence[tuple[int, bytes]], *, tells: bool = True) -> bool:
        """Messages left the stream: undelivered ones are not pending, pending ones are done.

        Args:
            gone: (sequence, subject) of each.
            tells: Whether those that waited for their acknowledgement make events.

        Returns:
            Whether there are some.
        """
        nothing_open = not (self.pending.first or self.pending.counts or self.chosen)
        if nothing_open and max(gone)[0] < self.next_seq:
            return False  # A consumer that is done with old ones does not look at each of them.
        done: list[int] = []
        for seq, subject in gone:
            if seq in self.pending.first or seq in self.pending.counts:
                done.append(seq)
            elif self.expects(seq) and (self.match is None or self.match(subject)):
                self.num_pending -= 1
                if self.chosen and seq < self.live_from:
                    self.chosen.remove(seq)
        if done:
            if tells:
                self._tell_removed(done)
                waiting = [seq for seq in done if seq in self.pending.first]
                if self.acks_all and waiting:
                    # As if it had been acknowledged, with all before it.
                    self.ack_upto(max(waiting), self.pending.first[max(waiting)])
            self.pending.ack(done)
            self.pending.settle(self.delivered_cseq, self.delivered_sseq)
        return bool(done)

    def _tell_removed(self, done: list[int]) -> None:
        pending = self.pending
        for seq in done:
            if seq in pending.first:
                # The reference server counts all but the first delivery here.
                count = max(pending.deliveries(seq) - 1, 1)
                self.events.append(Removed(pending.first[seq], seq, count))

    def expects(self, seq: int) -> bool:
        """Whether this position is still to be delivered (its subject apart)."""
        if self.chosen and seq < self.live_from:
            at = bisect_left(self.chosen, seq)
            return at < len(self.chosen) and self.chosen[at] == seq
        return seq >= max(self.next_seq, self.live_from)

    def purged(self, first_seq: int) -> bool:
        """Everything below `first_seq` is gone.

        Returns:
            Whether undelivered messages went, so that `num_pending` has to be counted anew (it
            is 0 until then).
        """
        miscounted = self.upcoming() < first_seq
        if miscounted:
            self.num_pending, self.is_counted = 0, False
        self.chosen = [seq for seq in self.chosen if seq >= first_seq]
        self.follow(first_seq)
        return miscounted

    def has_open_below(self, seq: int) -> bool:
        """Whether a message below a sequence waits for its acknowledgement."""
        return next(iter(self.pending.first), seq) < seq

    def follow(self, start: int) -> bool:
        """Go on at a sequence that a purge left as the first; what was passed over is done.

        Returns:
            Whether messages before it waited for their acknowledgement.
        """
        pending = self.pending
        pending.floor()  # Where it was before the purge.
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
        """Start over at a sequence: nothing is pending, counts and positions begin anew."""
        self.pending = Pending()
        self.pending.floor_sseq = max(next_seq - 1, 0)
        self.next_seq = next_seq
        self.delivered_sseq = max(next_seq - 1, 0)
        self.delivered_cseq = 0
        self.num_pending, self.is_counted = 0, False
        self.chosen, self.live_from = [], 0

    def bound(self, last: int, msgs: int) -> None:
        """Correct what is left to deliver by the stream's last sequence and its messages.

        What is stored before a start that lies ahead is counted until somebody asks, as the
        reference server does.
        """
        ahead = last - self.upcoming() + 1
        self.num_pending = min(self.num_pending, msgs, ahead) if ahead > 0 else 0

    # pull requests

    def request(self, body: bytes, reply: bytes, now: int) -> None:
        """Take a pull request: it joins the line or is refused with a status."""
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
        waiting = self.waiting
        if len(waiting) >= self.config.max_waiting > 0:
            waiting.expire(now, self.delivered_cseq, self.scanned_sseq)
            if len(waiting) >= self.config.max_waiting:
                return b"" if request.heartbeat else EXCEEDED_MAX_WAITING
        if request.no_wait and self.is_counted:
            available = self.num_pending + self.pending.queued()
            if not available and not request.expires:
                return NO_MESSAGES
            if available and available < waiting.asked():
                return REQUESTS_PENDING
        waiting.add(request)
        return b""

    # deliveries

    def room(self) -> int:
        """How many messages may be delivered for the first time (0: wait for acks)."""
        return max(self.max_pending - len(self.pending), 0)

    def deliver(self, seqs: Sequence[int], now: int) -> int:
        """Record first deliveries.

        Returns:
            The consumer sequence of the first; the others follow it.
        """
        count = len(seqs)
        assert count, "something is delivered"
        cseq = self.delivered_cseq + 1
        self.delivered_cseq += count
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
        """A chosen message turned out to be gone."""
        if self.chosen and self.chosen[0] == seq:
            del self.chosen[0]
            self.num_pending -= 1

    def passed(self, next_seq: int) -> None:
        """Nothing wanted lies before `next_seq`; what counts as delivered does not move."""
        if not self.chosen:
            self.next_seq = max(self.next_seq, next_seq)

    @property
    def scanned_sseq(self) -> int:
        """The last position that was delivered or passed over, which heartbeats tell."""
        return max(self.next_seq - 1, 0)

    def ended(self, last: int) -> None:
        """Everything up to the stream's last sequence was delivered or passed."""
        self.passed(last + 1)
        if self.is_counted and self.upcoming() > last:
            self.num_pending = 0

    def next_redelivery(self) -> int | None:
        """The message that is delivered before any new one, if any."""
        while (sseq := self.pending.next_queued()) is not None:
            if 0 < self.max_deliver <= self.pending.deliveries(sseq):
                self.pending.unqueue()
                self.pending.give_up(sseq)
                self.events.append(GivenUp(sseq, self.pending.deliveries(sseq)))
                continue
            return sseq
        return None

    def redeliver(self, sseq: int, now: int) -> tuple[int, int]:
        """Record the redelivery of what `next_redelivery` showed.

        Returns:
            (how often it was delivered now, its new consumer sequence).
        """
        self.pending.unqueue()
        count = self.pending.deliveries(sseq) + 1
        self.delivered_cseq += 1
        self.pending.again(sseq, count, now + self._wait(count))
        if self.sampler is not None:
            self.sampler.delivered((sseq,), now)
        return count, self.delivered_cseq

    def vanished(self, sseq: int) -> None:
        """A message due for redelivery is no longer in the stream."""
        self.pending.ack((sseq,))
        self.pending.settle(self.delivered_cseq, self.delivered_sseq)

    def _wait(self, count: int) -> int:
        return wait_of(self.waits, count)

    # acknowledgements

    def ack(self, sseqs: Iterable[int]) -> None:
        """Acknowledge messages one by one (policy explicit)."""
        if self.settled is not None:
            sseqs = list(sseqs)
            self.settled += filter(self.is_open, sseqs)
        self.pending.ack(sseqs)
        self.pending.settle(self.delivered_cseq, self.delivered_sseq)

    def ack_upto(self, sseq: int, cseq: int) -> None:
        """Acknowledge everything up to a message (policy all)."""
        pending = self.pending
        opened = None
        if self.settled is not None:
            opened = [seq for seq in {**pending.first, **pending.counts} if seq <= sseq]
        pending.ack_all(sseq, min(cseq, self.delivered_cseq))
        if self.settled is not None and opened:
            self.settled += [seq for seq in opened if not self.is_open(seq)]

    def is_open(self, sseq: int) -> bool:
        """Whether a delivered message was never acknowledged: pending, or given up."""
        return sseq in self.pending.first or sseq in self.pending.counts

    def needs(self, seq: int, subject: bytes) -> bool:
        """Whether the consumer still expects a message or waits for its acknowledgement."""
        if self.match is not None and not self.match(subject):
            return False
        return self.is_open(seq) or self.expects(seq)

    def was_delivered(self, sseq: int) -> bool:
        """Whether an acknowledgement of this sequence can be meant seriously."""
        return sseq <= self.delivered_sseq

    def nak(self, sseq: int, cseq: int, argument: bytes, now: int) -> bool:
        """Redeliver as soon as possible, or after the delay the argument asks for.

        Returns:
            Whether the message was pending; otherwise nothing happens.
        """
        pending = self.pending
        if not pending.floor()[0] < cseq <= self.delivered_cseq or sseq not in pending.first:
            return False
        delay = nak_delay(argument)
        if delay is None:
            pending.enqueue(sseq)
        else:
            pending.delay(sseq, now + max(delay, 1))
        return True

    def progress(self, sseq: int, now: int) -> None:
        """Start the wait of a pending message anew."""
        if sseq in self.pending.first and not self.pending.is_queued(sseq):
            self.pending.delay(sseq, now + self._wait(self.pending.deliveries(sseq)))

    def term(self, sseq: int, cseq: int) -> None:
        """Never redeliver; counts as an acknowledgement."""
        if self.acks_all:
            self.ack_upto(sseq, cseq)
        else:
            self.ack((sseq,))

    # time

    def deadline(self) -> int | None:
        """When `expire` should be called next."""
        push = self.push.deadline() if self.push else None
        times = (self.pending.deadline(), self.waiting.deadline(), push)
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: int) -> None:
        """Let pass what was due up to `now`: requests, heartbeats, acknowledgements."""
        for sseq in self.pending.expire(now, self.max_deliver):
            self.events.append(GivenUp(sseq, self.pending.deliveries(sseq)))
        self.waiting.expire(now, self.delivered_cseq, self.scanned_sseq)
        if self.push is not None and self.push.bucket is not None:
            self.push.bucket.is_ready(now)

    # persistence

    def state(self, shift: int) -> ConsumerState:
        """What has to survive. `shift` = wall clock minus monotonic clock, nanoseconds."""
        floor_cseq, floor_sseq = self.pending.floor()
        return ConsumerState(
            delivered_cseq=self.delivered_cseq,
            delivered_sseq=self.delivered_sseq,
            floor_cseq=floor_cseq,
            floor_sseq=floor_sseq,
            pending=self.pending.first,
            marks=[(cseq, _stored(time, shift)) for cseq, time in self.pending.marks],
            armed={s: t and _stored(t, shift) for s, t in self.pending.armed().items()},
            counts=self.pending.counts,
            chosen=[*self.chosen, self.live_from] if self._has_start() else (),
            leaving=sorted(self.leaving.union(self.settled)) if self.settled is not None else (),
        )

    def _has_start(self) -> bool:
        """Whether it follows from more than the last delivery where this goes on."""
        return bool(self.chosen) or self.live_from > self.delivered_sseq + 1

    def restored(self, state: ConsumerState, shift: int, is_live: Callable[[int], bool]) -> None:
        """Take over a stored state. Messages that are no longer live are not pending.

        The caller sets `num_pending`. Deadlines are those of the deliveries, so what was due
        while nobody was there is redelivered at once.
        """
        pending = self.pending
        self.delivered_cseq = state.delivered_cseq
        self.delivered_sseq = state.delivered_sseq
        self.next_seq = state.delivered_sseq + 1
        pending.floor_cseq, pending.floor_sseq = state.floor_cseq, state.floor_sseq
        # What a new consumer would start with now has nothing to do with it.
        *self.chosen, self.live_from = state.chosen or (0,)
        pending.first, pending.counts = dict(state.pending), dict(state.counts)
        pending.ack([s for s in {**pending.first, **pending.counts} if not is_live(s)])
        armed = {s: t and t * TIME_UNIT - shift for s, t in state.armed.items() if is_live(s)}
        marks = [(cseq, time * TIME_UNIT - shift) for cseq, time in state.marks]
        pending.marks.extend(marks)
        pending.restore(self._groups(marks), armed)
        pending.settle(self.delivered_cseq, self.delivered_sseq)
        if self.settled is not None:
            self.settled += state.leaving

    def _groups(self, marks: list[tuple[int, int]]) -> list[tuple[int, list[int]]]:
        """First deliveries by the time they happened: (deadline, sequences)."""
        groups: list[tuple[int, list[int]]] = [(at + self.waits[0], []) for _, at in marks]
        starts = [cseq for cseq, _ in marks]
        for sseq, cseq in self.pending.first.items():
            at = bisect_left(starts, cseq + 1) - 1
            groups[max(at, 0)][1].append(sseq)
        return [group for group in groups if group[1]]


def _stored(time: int, shift: int) -> int:
    return max((time + shift) // TIME_UNIT, 1)
