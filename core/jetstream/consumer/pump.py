"""Delivery of a consumer's messages to client sessions, at most about 1 MiB per loop tick.

Messages are delivered in batches cut from segments. The consumer's state machine decides how many
messages go to which pull request or deliver subject. If the receiver is one subscription, a whole
batch is formatted at once as protocol lines and appended to the session's output. For other
receivers each message is published separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, islice
from typing import TYPE_CHECKING

from core.model.consumer import ReplayPolicy
from core.model.segment import Segment
from core.pubsub.receivers import MESSAGE
from core.rules.consumer.delivery.lines import (
    ack_subject,
    frame,
    lines,
    message,
    routed_frame,
    routed_lines,
    with_pin,
    without_payloads,
)
from core.rules.consumer.delivery.pace import Replay
from core.rules.consumer.delivery.push import FLOW_CONTROL_REQUEST, Push
from core.rules.consumer.pull.requests import PullRequest, idle_heartbeat
from core.units import ConsumerSeq

if TYPE_CHECKING:
    from core.jetstream.consumer.cursor import Cursor
    from core.jetstream.log.stream_log import StreamLog
    from core.pubsub.account import Account, Receivers, Target
    from core.pubsub.receivers import Output, RemoteForwarder
    from core.rules.consumer.machine import ConsumerMachine
    from core.runtime.loop_tick import LoopTick

PUSHED, PULLED = 2000, 512
TICK_BYTES = 1 << 20
"""Approximate limit on the bytes that one consumer delivers per pass of the event loop.

Between two passes the sockets can report backpressure. Pull consumers have a lower limit on the
messages (`PULLED`): a client requests the next messages when some have arrived, and a node on the
route forwards these while this node delivers the next ones.
"""
_WINDOW = 256
_EMPTY_WINDOW_COST = 16


class Pump:
    """Delivers the messages of one consumer to its pull requests or its deliver subject.

    Args:
        log: The log of the stream.
        account: The account of the receivers.
        loop_tick: Flushes the output of sessions at the end of each pass of the event loop.
        cursor: Reads the messages.
        machine: The state machine of the consumer (`core.rules.consumer.machine`).
        head: `$JS.ACK.<stream>.<consumer>`, the begin of ack subjects.
        wake: Called when a blocked receiver is writable again.

    Attributes:
        delivered: Count of deliveries since the start.
    """

    def __init__(
        self,
        log: StreamLog,
        account: Account,
        loop_tick: LoopTick,
        cursor: Cursor,
        machine: ConsumerMachine,
        head: bytes,
        wake: Callable[[], None],
    ) -> None:
        self._log = log
        self._account = account
        self._loop_tick = loop_tick
        self._cursor = cursor
        self._machine = machine
        self._head = head
        self._receiver = PullRequest(b"")
        self.set_receiver()
        self.delivered = 0
        original = machine.config.replay_policy is ReplayPolicy.ORIGINAL
        self.replay = Replay() if original else None
        """Delays deliveries with replay policy original; None: other policy, or end reached."""
        self._wake = wake
        self._held: set[Output] = set()
        self._is_partial = False

    def set_receiver(self) -> None:
        """Set the receiver of a push consumer to the configured deliver subject."""
        self._receiver = PullRequest(self._machine.config.deliver_subject.encode())

    # the loop

    def run(self, now: int) -> bool:
        """Deliver messages up to the limits of one pass of the event loop.

        Stops at the end of the stream or a blocked receiver. Returns True if messages are left that
        another pass may deliver. `now` is in monotonic nanoseconds.
        """
        machine = self._machine
        budget = PULLED if machine.push is None else PUSHED
        self._is_partial = False
        self.send_statuses()
        while budget > 0:
            if not self._somebody(budget, now):
                return False
            sseq = machine.next_redelivery()
            if sseq is not None:
                if not self._redeliver(sseq, now):
                    return False
                budget -= 1
                continue
            limit = min(budget, machine.ack_pending_left())
            if machine.push is None:
                limit = min(limit, max(machine.waiting.asked(), 1))
            if not limit:
                return False
            is_chosen = len(machine.chosen) > 0
            batch = self._next_chosen(limit) if is_chosen else self._next(limit)
            if batch is None:
                if self._cursor.reading:
                    return False
                if is_chosen:
                    continue  # The first chosen message is removed; the others may exist.
                machine.ended(self._log.machine.last_seq)
                machine.waiting.end_of_stream()
                self.replay = None
                self.send_statuses()
                return False
            if self.replay is not None and len(batch):
                batch = batch.part(0, 1)
                if not self.replay.may_deliver(batch.times[0], now):
                    return False
            if not len(batch):
                budget -= _EMPTY_WINDOW_COST
                continue
            budget -= self._deliver(batch, now)
            if self._is_partial:
                return True
        return True

    def send_statuses(self) -> None:
        """Send the statuses, such as 408 Request Timeout, that are due to pull requests."""
        outbox = self._machine.outbox
        if outbox:
            for reply, block in outbox:
                self._account.send(reply, reply, b"", block, b"")
            outbox.clear()
            self._loop_tick.arm()

    # receivers

    def _somebody(self, budget: int, now: int) -> bool:
        """Return whether a pull request or the deliver subject can get messages at `now`.

        `budget` is the number of messages that may be delivered, `now` monotonic nanoseconds.
        """
        machine = self._machine
        push = machine.push
        if push is None:
            self._check_requests(budget)
            if machine.waiting.can_serve():
                return True
            machine.waiting.pass_over()
            self.send_statuses()
            return False
        if not push.active:
            return False
        if not push.is_open(now):
            return False
        return not self._is_blocked(self._receivers_of(self._receiver))

    def _is_blocked(self, receivers: Receivers) -> bool:
        """Return whether the output to the only receiver is blocked.

        If so, `wake` is called once it is writable. The output is that of a session, or of the link
        to another server, which all consumers share.
        """
        output: Output | None = None
        if receivers.sole is not None:
            output = receivers.sole.session
        elif receivers.forwarder is not None:
            output = receivers.forwarder.blocked()
        if output is None or not output.blocked:
            return False
        if output not in self._held:
            self._held.add(output)
            output.on_writable.append(partial(self._writable, output))
        return True

    def _writable(self, output: Output) -> None:
        self._held.discard(output)
        self._wake()

    def _check_requests(self, budget: int) -> None:
        """Drop pull requests whose reply subject has no subscriber; mark blocked ones.

        A request is blocked while the output to its subscriber is blocked.
        """
        waiting = self._machine.waiting
        count = len(waiting)
        while count:
            count = min(count, budget)
            dropped = False
            for request in list(islice(waiting.queue, count)):
                receivers = self._receivers_of(request)
                if not receivers.interest:
                    waiting.drop(request)
                    dropped = True
                request.parked = self._is_blocked(receivers)
            if not dropped:
                return
            count = len(waiting)

    def forget_gone(self) -> None:
        """Drop all pull requests whose reply subject has no subscriber any more."""
        waiting = self._machine.waiting
        for request in list(waiting.queue):
            if not self._receivers_of(request).interest:
                waiting.drop(request)

    def _receivers_of(self, request: PullRequest) -> Receivers:
        receivers: Receivers | None = request.receivers  # type: ignore[assignment]
        if receivers is None or receivers.stale:
            receivers = request.receivers = self._account.receivers(request.reply)
        return receivers

    def _one_target(self, requests: set[PullRequest]) -> bool:
        """Return whether all pull requests have the same receiver, so that one batch serves them.

        The receiver is one subscription on this server, or one reply subject on another server.
        """
        targets = {self._receivers_of(request).sole for request in requests}
        if None in targets:
            return len({request.reply for request in requests}) == 1
        return len(targets) == 1

    def _frame(self, request: PullRequest, target: Target) -> bytes:
        if request.frame_for is not target:
            request.frame_for = target
            request.frame = frame(target.mid, self._head)
        return request.frame

    def _routed_frame(self, request: PullRequest, forwarder: RemoteForwarder) -> bytes:
        if request.frame_for is not forwarder:
            request.frame_for = forwarder
            request.frame = routed_frame(forwarder.head, request.reply, self._head)
        return request.frame

    # the next messages

    def _next(self, limit: int) -> Segment | None:
        """Return the next messages of the stream to deliver.

        None: the end of the stream is reached, or a read is in progress. An empty segment: none of
        the examined messages matches the filters.
        """
        machine, cursor, log = self._machine, self._cursor, self._log
        seq = machine.upcoming()
        nothing = machine.num_pending <= 0 and machine.is_counted
        if machine.match is not None and nothing and log.tail.at(seq) is None:
            # No message is pending, so none has to be read from storage.
            machine.passed(log.machine.last_seq + 1)
            return None
        place = cursor.at(seq)
        if place is None:
            return None
        segment, start = place
        if segment.nbytes > TICK_BYTES:
            limit = self._fitting(segment, limit)
        if machine.match is None and not log.removed.hidden and not cursor.hidden:
            return segment.part(start, min(start + limit, len(segment)))
        stop = min(start + max(4 * limit, _WINDOW), len(segment))
        places = self._wanted(segment, start, stop)
        batch = segment.pick(places[:limit])
        if not places:
            machine.passed(segment.seqs[stop - 1] + 1)
        return batch

    def _fitting(self, segment: Segment, limit: int) -> int:
        """Return how many messages of average size fit into `TICK_BYTES`, at most `limit`."""
        most = max(TICK_BYTES * len(segment) // segment.nbytes, 1)
        self._is_partial = limit > most
        return min(limit, most)

    def _wanted(self, segment: Segment, start: int, stop: int) -> list[int]:
        """Return the indices in [start, stop) of existing messages that match the filters."""
        machine, hidden, held = self._machine, self._log.removed.hidden, self._cursor.hidden
        places: Sequence[int] = range(start, stop)
        if machine.match is not None:
            matched = map(machine.match, islice(segment.subjects, start, stop))
            places = list(compress(places, matched))
        if hidden or held:
            seqs = segment.seqs
            places = [i for i in places if seqs[i] not in hidden and seqs[i] not in held]
        return list(places)

    def _next_chosen(self, limit: int) -> Segment | None:
        """Return the next messages of deliver policy last_per_subject: the last of each subject.

        None: the first of them is removed, or a read is in progress.
        """
        machine, cursor, log = self._machine, self._cursor, self._log
        wanted = machine.chosen[:limit]
        place = cursor.pick(machine.chosen)
        if place is None:
            if not cursor.reading:
                machine.lost(wanted[0])
            return None
        segment, _ = place
        places = []
        if segment.nbytes > TICK_BYTES:
            wanted = wanted[: self._fitting(segment, limit)]
        for seq in wanted:
            index = segment.index(seq)
            if index == len(segment) or segment.seqs[index] != seq:
                break
            if not log.is_live(seq) or seq in cursor.hidden:
                break
            places.append(index)
        if not places:
            machine.lost(wanted[0])
        return segment.pick(places)

    # first deliveries

    def _deliver(self, batch: Segment, now: int) -> int:
        """Deliver as many messages of a batch as the receivers can get.

        Returns the number of messages, but at least 1; it is subtracted from the number that may be
        delivered in this pass of the event loop. `now` is in monotonic nanoseconds.
        """
        machine = self._machine
        if machine.config.headers_only:
            batch = without_payloads(batch)
        push = machine.push
        if push is not None:
            return self._push(push, batch, now)
        owners = machine.waiting.assign(len(batch), now, lambda index: self._size(batch, index))
        count = len(owners)
        if not count:
            machine.passed(batch.seqs[0])
        else:
            batch = batch if count == len(batch) else batch.part(0, count)
            cseq = machine.deliver(batch.seqs, now)
            left = machine.num_pending + count - 1
            if machine.waiting.pin:
                batch = with_pin(batch, machine.waiting.pin)
            requests = set(owners)
            if len(requests) == 1 or self._one_target(requests):
                self._emit(owners[0], batch, cseq, left)
            else:
                self._emit_round_robin(owners, batch, cseq, left)
        self.delivered += count
        self.send_statuses()
        return max(count, 1)

    def _push(self, push: Push, batch: Segment, now: int) -> int:
        used = 0
        if push.measures():
            sizes = self._sizes(batch)
            count = push.fitting(sizes)
            if not count:
                return 1
            batch = batch if count == len(batch) else batch.part(0, count)
            used = sum(sizes[:count])
        count = len(batch)
        cseq = self._machine.deliver(batch.seqs, now)
        self._emit(self._receiver, batch, cseq, self._machine.num_pending + count - 1)
        self.delivered += count
        self._count_pushed(push, used, now)
        return count

    def _count_pushed(self, push: Push, size: int, now: int) -> None:
        request = push.count(size, now)
        if self._machine.flow_acks and not request and not self._machine.ack_pending_left():
            request = push.ask()
        self._ask(request)

    def _ask(self, request: bytes) -> None:
        """Send a flow-control request with this reply subject (empty: send no request)."""
        if request:
            subject = self._receiver.reply
            self._account.send(subject, subject, request, FLOW_CONTROL_REQUEST, b"")

    def _sizes(self, batch: Segment) -> list[int]:
        """Return the size in bytes of each message of a batch, including an ack subject.

        The length of the last message's ack subject is used for all.
        """
        machine = self._machine
        cseq, left = machine.delivered_cseq + len(batch), max(machine.num_pending - 1, 0)
        ack = len(ack_subject(self._head, 1, batch.seqs[-1], cseq, batch.times[-1], left))
        if batch.headers is not None:
            return [batch.size(index) + ack for index in range(len(batch))]
        return [
            len(subject) + ack + len(payload)
            for subject, payload in zip(batch.subjects, batch.payloads, strict=True)
        ]

    def _size(self, batch: Segment, index: int) -> int:
        """Return the size in bytes of one message of a batch, including its ack subject."""
        machine = self._machine
        ack = ack_subject(
            self._head,
            1,
            batch.seqs[index],
            machine.delivered_cseq + 1 + index,
            batch.times[index],
            max(machine.num_pending - 1 - index, 0),
        )
        return batch.size(index) + len(ack)

    def _emit(self, request: PullRequest, batch: Segment, cseq: ConsumerSeq, left: int) -> None:
        """Send a batch to one receiver.

        `cseq` is the consumer sequence of the first message, `left` the messages left after it.
        """
        receivers = self._receivers_of(request)
        target = receivers.sole
        if target is None:
            if not self._emit_to_peer(receivers.forwarder, request, batch, cseq, left):
                for index in range(len(batch)):
                    self._send_one(request, batch, index, cseq + index, left - index)
            return
        session = target.session
        out = session.out
        if not out:
            self._loop_tick.dirty.append(session)
        plain = self._frame(request, target)
        written, size = lines(batch, target.mid, self._head, cseq, left, plain)
        target.sent += len(batch) * MESSAGE + size
        out += written
        self._loop_tick.arm()

    def _emit_to_peer(
        self,
        forwarder: RemoteForwarder | None,
        request: PullRequest,
        batch: Segment,
        cseq: ConsumerSeq,
        left: int,
    ) -> bool:
        """Send a batch over a link to the server of its only receiver.

        Returns False without sending if there are other receivers, messages have headers, or a
        message was published on the reply subject itself.
        """
        if forwarder is None or forwarder.sole is None or batch.headers is not None:
            return False
        if request.reply in batch.subjects:
            return False  # A message on the reply subject itself is sent as it was published.
        routed = self._routed_frame(request, forwarder)
        written, size = routed_lines(batch, routed, cseq, left)
        forwarder.sole.send(written, len(batch) * MESSAGE + size)
        self._loop_tick.arm()
        return True

    def _emit_round_robin(
        self, owners: list[PullRequest], batch: Segment, cseq: ConsumerSeq, left: int
    ) -> None:
        """Send a batch message by message, each to the pull request to which it is assigned."""
        dirty = self._loop_tick.dirty
        for index, request in enumerate(owners):
            target = self._receivers_of(request).sole
            if target is None or batch.headers is not None:
                self._send_one(request, batch, index, cseq + index, left - index)
                continue
            out = target.session.out
            if not out:
                dirty.append(target.session)
            payload = batch.payloads[index]
            target.sent += MESSAGE + len(payload)
            out.append(
                self._frame(request, target)
                % (
                    batch.subjects[index],
                    batch.seqs[index],
                    cseq + index,
                    batch.times[index],
                    left - index,
                    len(payload),
                    payload,
                )
            )
        self._loop_tick.arm()

    def _send_one(
        self, request: PullRequest, batch: Segment, index: int, cseq: int, left: int
    ) -> None:
        seq = batch.seqs[index]
        reply = ack_subject(self._head, 1, seq, cseq, batch.times[index], max(left, 0))
        header = batch.headers[index] if batch.headers is not None else None
        self._send(request, seq, batch.subjects[index], reply, header, batch.payloads[index])

    def _send(
        self,
        request: PullRequest,
        seq: int,
        subject: bytes,
        reply: bytes,
        header: bytes | None,
        payload: bytes,
    ) -> None:
        """Send one message; if it has no receiver, queue it for redelivery."""
        target = self._receivers_of(request).sole
        if target is not None:
            out = target.session.out
            if not out:
                self._loop_tick.dirty.append(target.session)
            target.sent += MESSAGE + len(header or b"") + len(payload)
            out.append(message(subject, target.mid, reply, header, payload))
        elif (
            not self._account.send(request.reply, subject, reply, header or b"", payload)
            and seq in self._machine.pending.first
        ):
            self._machine.pending.enqueue(seq)
        self._loop_tick.arm()

    # redelivery

    def _redeliver(self, sseq: int, now: int) -> bool:
        """Redeliver one message, or record that it was removed.

        `now` is in monotonic nanoseconds. Returns False if the message has to be read from storage
        first, or flow control blocks it.
        """
        machine, cursor = self._machine, self._cursor
        place = None
        if self._log.is_live(sseq) and sseq not in cursor.hidden:
            place = cursor.pick([sseq, *machine.pending.later_queued()])
            if place is None and cursor.reading:
                return False
        if place is None:
            machine.vanished(sseq)
            return True
        batch = place[0].part(place[1], place[1] + 1)
        if machine.config.headers_only:
            batch = without_payloads(batch)
        ts, left = batch.times[0], max(machine.num_pending, 0)
        count, cseq = machine.redelivery(sseq)
        reply = ack_subject(self._head, count, sseq, cseq, ts, left)
        size = batch.size(0) + len(reply)
        request = self._receiver
        push = machine.push
        if push is None:
            owners = machine.waiting.assign(1, now, lambda _: size)
            if not owners:
                if not machine.waiting.queue:
                    machine.pending.requeue()  # As in nats-server.
                self.send_statuses()
                return True
            request = owners[0]
            if machine.waiting.pin:
                batch = with_pin(batch, machine.waiting.pin)
        elif push.measures() and not push.fitting((size,)):
            return False
        machine.redeliver(sseq, now)
        header = batch.headers[0] if batch.headers else None
        self._send(request, sseq, batch.subjects[0], reply, header, batch.payloads[0])
        self.delivered += 1
        if push is not None:
            self._count_pushed(push, size, now)
        self.send_statuses()
        return True

    def heartbeat(self) -> None:
        """Send an idle heartbeat to the deliver subject of a push consumer."""
        machine, push = self._machine, self._machine.push
        assert push is not None, "pull requests have heartbeats of their own"
        block = idle_heartbeat(machine.delivered_cseq, machine.scanned_sseq, push.request)
        subject = self._receiver.reply
        self._account.send(subject, subject, b"", block, b"")
        if machine.flow_acks and len(machine.pending):
            self._ask(push.ask())
        self._loop_tick.arm()
