"""Messages from one peer on their way to those here.

While the hub holds publishes, because what is to store them is still being loaded, messages are
kept, from the first one that has to wait on, up to `max_pending` bytes. What comes beyond that is
lost, as if this server was not there. Nodes of one database send nothing to whom is not ready, so
with them nothing waits (`holds`).
"""

from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.pubsub.account import NODES, Account
from core.pubsub.arriving import deliver_batch_here
from core.pubsub.onward import deliver_here
from core.pubsub.server import Hub

Held = tuple[Account, bytes, bytes, Queues, bytes, bytes]


class Incoming:
    """Delivers at once, or as soon as publishes are taken; the caller arms the turn.

    Attributes:
        is_of_node: whether the peer is a node of the same database: what it sends to this node
            itself is served.
    """

    def __init__(self, hub: Hub, *, holds: bool) -> None:
        self._hub = hub
        self._holds = holds
        self._accounts = {name.encode(): account for name, account in hub.accounts.items()}
        self._nodes = {NODES + name: account for name, account in self._accounts.items()}
        self._held: list[Held] = []
        self._nbytes = 0
        self.is_of_node = False

    def deliver(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Deliver a message; one for an account that is not here reaches nobody."""
        found = self._accounts.get(account)
        if found is None:
            if self.is_of_node and (to := self._nodes.get(account)) is not None:
                _serve(to, subject, reply, headers, payload)
            return
        if self._holds and (self._held or self._has_to_wait(subject)):
            self._nbytes += len(headers) + len(payload)
            if self._nbytes <= self._hub.limits.max_pending:
                self._held.append((found, subject, reply, queues, headers, payload))
            self.release()
            return
        deliver_here(found, subject, reply, queues, headers, payload)

    def deliver_batch(self, account: bytes, batch: MessageColumns) -> None:
        """Deliver messages that came in a row, all for one account and no queue group."""
        if self._holds and (self._hub.is_holding or self._held):
            for subject, reply, headers, payload in batch.messages():
                self.deliver(account, subject, reply, (), headers, payload)
        elif (found := self._accounts.get(account)) is not None:
            deliver_batch_here(found, batch)
        else:
            for subject, reply, headers, payload in batch.messages():
                self.deliver(account, subject, reply, (), headers, payload)

    def _has_to_wait(self, subject: bytes) -> bool:
        return self._hub.is_holding and self._hub.is_held(subject)

    def release(self) -> None:
        """Deliver what was kept, if publishes are taken now."""
        if self._hub.is_holding or not self._held:
            return
        held, self._held, self._nbytes = self._held, [], 0
        for message in held:
            deliver_here(*message)
        self._hub.turn.arm()


def _serve(account: Account, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
    for below, call in account.node_calls.items():
        if subject.startswith(below):
            call(subject, reply, headers, payload)
            return
