"""Delivers the messages of another server of the cluster to the receivers of this server.

While publishes of clients have to wait because their streams are still loading, messages wait too:
from the first that has to wait on they are kept, up to `max_pending` bytes. Messages beyond that
are lost, as if this server were absent. Nodes of one database send nothing to a node that does not
serve yet, so their messages never wait (`holds`).
"""

from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.pubsub.account import NODES, Account
from core.pubsub.forwarding import deliver_here
from core.pubsub.remote_delivery import deliver_batch_here
from core.pubsub.server import Hub

Held = tuple[Account, bytes, bytes, Queues, bytes, bytes]


class Incoming:
    """Delivers the messages that arrive over one route to the receivers of this server.

    A message to a stream that is still loading has to wait: it and all later messages of the route
    are kept in memory until `release`. The caller of `deliver` calls `loop_tick.arm` to flush.

    Args:
        hub: The connections and accounts of this server.
        holds: True to keep messages that have to wait; False: every message is delivered at once.

    Attributes:
        is_of_node: True if the other server is a node of the same database. Its internal messages
            to this node are accepted then.
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
        """Deliver a message to this server's receivers; if it has to wait, keep it until `release`.

        Beyond `max_pending` bytes of kept messages, further ones are dropped, as are messages for
        an unknown account. `queues`: one member of each of these queue groups gets the message too.
        """
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
        """Deliver consecutive messages of one account, or keep those that have to wait (`deliver`).

        None of them names a queue group.
        """
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
        """Deliver the kept messages, in order, unless publishes of clients still have to wait."""
        if self._hub.is_holding or not self._held:
            return
        held, self._held, self._nbytes = self._held, [], 0
        for message in held:
            deliver_here(*message)
        self._hub.loop_tick.arm()


def _serve(account: Account, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
    for below, call in account.node_calls.items():
        if subject.startswith(below):
            call(subject, reply, headers, payload)
            return
