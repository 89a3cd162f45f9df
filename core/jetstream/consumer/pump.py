"""The pump of a consumer: from the log to the sockets, at most 2000 messages or 1 MiB per turn.

Messages leave in batches cut from segments: the machine says how many and to whom, the frame of
the receiver turns the columns into lines, the lines go to the session's output list. Only a
receiver that is not one plain client subscription takes the path message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, islice
from typing import TYPE_CHECKING

from core.consumer.deliver import (
    ack_subject,
    frame,
    lines,
    message,
    routed_frame,
    routed_lines,
    with_pin,
    without_payloads,
)
from core.consumer.pace import Replay
from core.consumer.pull import PullRequest, idle_heartbeat
from core.consumer.push import FLOW_CONTROL_REQUEST, Push
from core.model.consumer import ReplayPolicy
from core.model.segment import Segment
from core.pubsub.route import MESSAGE

if TYPE_CHECKING:
    from core.consumer.machine import ConsumerMachine
    from core.jetstream.consumer.cursor import Cursor
    from core.jetstream.log.stream_log import StreamLog
    from core.pubsub.account import Account, Route, Target
    from core.pubsub.route import Onward, Output
    from core.runtime.turn import Turn

PUSHED, PULLED = 2000, 512
TURN_BYTES = 1 << 20
"""About what is delivered in one turn at most: then the sockets say whether they take more. Who
pulls asks for the next when some have come, so these are written soon: another node on the way
works on them while this one delivers the next."""
_WINDOW = 256
_EMPTY_WINDOW_COST = 16


class Pump:
    """Delivers for one consumer as long as there is somebody to deliver to.

    Args:
        log: The log of the stream.
        account: Where receivers are.
        turn: The turn of the loop, at whose end sessions write.
        cursor: Where the messages come from.
        machine: The rules.
        head: `$JS.ACK.<stream>.<consumer>`.
        wake: Called when a receiver that could not take more can again.
    """

    def __init__(
        self,
        log: StreamLog,
        account: Account,
        turn: Turn,
        cursor: Cursor,
        machine: ConsumerMachine,
        head: bytes,
        wake: Callable[[], None],
    ) -> None:
        self._log = log
        self._account = account
        self._turn = turn
        self._cursor = cursor
        self._machine = machine
        self._head = head
        self._receiver = PullRequest(b"")
        self.set_receiver()
        self.delivered = 0
        original = machine.config.replay_policy is ReplayPolicy.ORIGINAL
        self.replay = Replay() if original else None
        """The pauses to keep, until the end of the stream was reached."""
        self._wake = wake
        self._held: set[Output] = set()
        self._is_cut = False

    def set_receiver(self) -> None:
        """Take the deliver subject of the configuration."""
        self._receiver = PullRequest(self._machine.config.deliver_subject.encode())

    # the loop

    def run(self, now: int) -> bool:
        """Deliver; True when there may be more to do in another turn."""
        machine = self._machine
        budget = PULLED if machine.push is None else PUSHED
        self._is_cut = False
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
                    continue  # It was gone, which says nothing of those that follow.
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
            if self._is_cut:
                return True
        return True

    def send_statuses(self) -> None:
        """Send what the machine has to say to the requesters."""
        outbox = self._machine.outbox
        if outbox:
            for reply, block in outbox:
                self._account.send(reply, reply, b"", block, b"")
            outbox.clear()
            self._turn.arm()

    # receivers

    def _somebody(self, budget: int, now: int) -> bool:
        """Whether a receiver is there that can take messages."""
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
        return not self._is_blocked(self._route(self._receiver))

    def _is_blocked(self, route: Route) -> bool:
        """Whether a receiver takes no more; then the consumer is woken when it does again.

        That is a session that is the only one, or another server: what is for it waits with what
        all others have for it, and has no limit of its own.
        """
        output: Output | None = None
        if route.sole is not None:
            output = route.sole.session
        elif route.onward is not None:
            output = route.onward.blocked()
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
        """Forget requests nobody listens for any more; pass over those that cannot take more."""
        waiting = self._machine.waiting
        count = len(waiting)
        while count:
            count = min(count, budget)
            dropped = False
            for request in list(islice(waiting.queue, count)):
                route = self._route(request)
                if not route.interest:
                    waiting.drop(request)
                    dropped = True
                request.parked = self._is_blocked(route)
            if not dropped:
                return
            count = len(waiting)

    def forget_gone(self) -> None:
        """Forget all requests nobody listens for any more."""
        waiting = self._machine.waiting
        for request in list(waiting.queue):
            if not self._route(request).interest:
                waiting.drop(request)

    def _route(self, request: PullRequest) -> Route:
        route: Route | None = request.route  # type: ignore[assignment]
        if route is None or route.stale:
            route = request.route = self._account.route(request.reply)
        return route

    def _one_target(self, requests: set[PullRequest]) -> bool:
        """Whether one subscription gets it all: a line does not tell for which request it is.

        Elsewhere than in this server that is one subject.
        """
        targets = {self._route(request).sole for request in requests}
        if None in targets:
            return len({request.reply for request in requests}) == 1
        return len(targets) == 1

    def _frame(self, request: PullRequest, target: Target) -> bytes:
        if request.frame_for is not target:
            request.frame_for = target
            request.frame = frame(target.mid, self._head)
        return request.frame

    def _routed_frame(self, request: PullRequest, onward: Onward) -> bytes:
        if request.frame_for is not onward:
            request.frame_for = onward
            request.frame = routed_frame(onward.head, request.reply, self._head)
        return request.frame

    # what comes next

    def _next(self, limit: int) -> Segment | None:
        """Cut the next messages out of the log; an empty batch = a window without wanted ones."""
        machine, cursor, log = self._machine, self._cursor, self._log
        seq = machine.upcoming()
        nothing = machine.num_pending <= 0 and machine.is_counted
        if machine.match is not None and nothing and log.tail.at(seq) is None:
            # Nothing is wanted below the tail, so nothing has to be read to know it.
            machine.passed(log.machine.last_seq + 1)
            return None
        place = cursor.at(seq)
        if place is None:
            return None
        segment, start = place
        if segment.nbytes > TURN_BYTES:
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
        """Return how many messages of the average size a turn may deliver, at most `limit`."""
        most = max(TURN_BYTES * len(segment) // segment.nbytes, 1)
        self._is_cut = limit > most
        return min(limit, most)

    def _wanted(self, segment: Segment, start: int, stop: int) -> list[int]:
        """The places of a window that are live and match the filters."""
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
        """Cut the next of the chosen messages (last per subject) out of the log."""
        machine, cursor, log = self._machine, self._cursor, self._log
        wanted = machine.chosen[:limit]
        place = cursor.pick(machine.chosen)
        if place is None:
            if not cursor.reading:
                machine.lost(wanted[0])
            return None
        segment, _ = place
        places = []
        if segment.nbytes > TURN_BYTES:
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
        """Deliver what the receivers take of a batch; returns the work done, at least 1."""
        machine = self._machine
        if machine.config.headers_only:
            batch = without_payloads(batch)
        push = machine.push
        if push is not None:
            return self._push(push, batch, now)
        owners = machine.waiting.take(len(batch), now, lambda index: self._size(batch, index))
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
                self._emit_in_turn(owners, batch, cseq, left)
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
        """Send a flow-control request, if there is one to send."""
        if request:
            subject = self._receiver.reply
            self._account.send(subject, subject, request, FLOW_CONTROL_REQUEST, b"")

    def _sizes(self, batch: Segment) -> list[int]:
        """Sizes of the messages of a batch, each with the ack subject of the last."""
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
        """Size of a message of the batch with its ack subject."""
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

    def _emit(self, request: PullRequest, batch: Segment, cseq: int, left: int) -> None:
        """Send a batch to one receiver."""
        route = self._route(request)
        target = route.sole
        if target is None:
            if not self._emit_onward(route.onward, request, batch, cseq, left):
                for index in range(len(batch)):
                    self._send_one(request, batch, index, cseq + index, left - index)
            return
        session = target.session
        out = session.out
        if not out:
            self._turn.dirty.append(session)
        plain = self._frame(request, target)
        written, size = lines(batch, target.mid, self._head, cseq, left, plain)
        target.sent += len(batch) * MESSAGE + size
        out += written
        self._turn.arm()

    def _emit_onward(
        self, onward: Onward | None, request: PullRequest, batch: Segment, cseq: int, left: int
    ) -> bool:
        """Send a batch to another server, where its only receiver is; False if it is not so."""
        if onward is None or onward.sole is None or batch.headers is not None:
            return False
        if request.reply in batch.subjects:
            return False  # such a message goes as it was published
        routed = self._routed_frame(request, onward)
        written, size = routed_lines(batch, routed, cseq, left)
        onward.sole.send(written, len(batch) * MESSAGE + size)
        self._turn.arm()
        return True

    def _emit_in_turn(
        self, owners: list[PullRequest], batch: Segment, cseq: int, left: int
    ) -> None:
        """Send a batch message by message, each to the request whose turn it is."""
        dirty = self._turn.dirty
        for index, request in enumerate(owners):
            target = self._route(request).sole
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
        self._turn.arm()

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
        """Send one message; when nobody got it after all it is due for redelivery."""
        target = self._route(request).sole
        if target is not None:
            out = target.session.out
            if not out:
                self._turn.dirty.append(target.session)
            target.sent += MESSAGE + len(header or b"") + len(payload)
            out.append(message(subject, target.mid, reply, header, payload))
        elif (
            not self._account.send(request.reply, subject, reply, header or b"", payload)
            and seq in self._machine.pending.first
        ):
            self._machine.pending.enqueue(seq)
        self._turn.arm()

    # redelivery

    def _redeliver(self, sseq: int, now: int) -> bool:
        """Deliver one message again; False while it has to be read first."""
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
            owners = machine.waiting.take(1, now, lambda _: size)
            if not owners:
                if not machine.waiting.queue:
                    machine.pending.requeue()  # As on the reference server.
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
        """Tell the deliver subject that the consumer lives."""
        machine, push = self._machine, self._machine.push
        assert push is not None, "pull requests have heartbeats of their own"
        block = idle_heartbeat(machine.delivered_cseq, machine.scanned_sseq, push.request)
        subject = self._receiver.reply
        self._account.send(subject, subject, b"", block, b"")
        if machine.flow_acks and len(machine.pending):
            self._ask(push.ask())
        self._turn.arm()
