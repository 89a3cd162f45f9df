"""The dispatcher of the events that change the ownership of lease groups.

A posted event is applied at once, and its commands are executed before the next event. `post`
returns when the handlers have run: the caller may then acknowledge to a peer that publishes are
held. Commands that wait for storage are queued for one task (`core.node.ownership.transfer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Generic

from core.node.ownership.state import (
    TRANSITIONS,
    Command,
    Event,
    Ownership,
    Peer,
    PeerReleased,
    Row,
    State,
    Step,
)
from core.units import LeaseGroup

Handler = Callable[[Step], None]
Handlers = Mapping[Command, Handler]


class Dispatch(Generic[Peer]):
    """Applies events to the ownership of one node, and calls the handlers of their commands.

    Attributes:
        ownership: The state of each lease group, for reading.
    """

    def __init__(self, transitions: Mapping[tuple[State, type[Event]], Row] = TRANSITIONS) -> None:
        self.ownership: Ownership[Peer] = Ownership(transitions)
        self._inbox: deque[Callable[[], list[Step]]] = deque()
        self._subscribers: list[Handlers] = []
        self._is_applying = False

    def fencing_tokens(self) -> Mapping[LeaseGroup, int]:
        """Return the fencing token of each lease group that this node serves."""
        return self.ownership.fencing_tokens()

    def stale_peers(self) -> Collection[Peer]:
        """Return the peers that still claim a group which another node has acquired since.

        The other node is known by its higher fencing token.
        """
        return self.ownership.stale_peers()

    def subscribe(self, handlers: Handlers) -> Callable[[], None]:
        """Register one handler for each command (`Command`) that events may cause.

        A handler is called with each `Step`: the command, its lease groups and the event. Handlers
        of earlier subscribers are called first. Returns a function that removes the handlers; it
        may be called twice.
        """
        self._subscribers.append(handlers)

        def unsubscribe() -> None:
            self._subscribers = [each for each in self._subscribers if each is not handlers]

        return unsubscribe

    def post(self, event: Event) -> None:
        """Apply an event to its lease groups, and execute the commands. Ignored without groups.

        Called by a handler, it queues the event until the handlers of the present one have run.
        """
        if event.groups:
            self._put(lambda: self.ownership.apply(event))

    def peer_announced(self, peer: Peer, fencing_tokens: Mapping[LeaseGroup, int]) -> None:
        """Replace the fencing tokens that a peer has announced, and execute the commands."""
        self._put(lambda: self.ownership.peer_announced(peer, fencing_tokens))

    def peer_gone(self, peer: Peer) -> None:
        """Record that a peer is unreachable, and owns no lease group any more."""
        self.peer_announced(peer, {})

    def peer_released(self, groups: frozenset[LeaseGroup], to: str, *, is_requested: bool) -> None:
        """Record that a peer has released lease groups for the node named `to`; empty: for any.

        `is_requested` is True if a client has asked the peer for it.
        """
        self.post(PeerReleased(groups, to, is_requested))

    def _put(self, apply: Callable[[], list[Step]]) -> None:
        self._inbox.append(apply)
        if self._is_applying:
            return  # called by a handler, which goes on before the next event
        self._is_applying = True
        try:
            while self._inbox:
                for step in self._inbox.popleft()():
                    self._execute(step)
        finally:
            self._is_applying = False

    def _execute(self, step: Step) -> None:
        for handlers in list(self._subscribers):
            if (handler := handlers.get(step.command)) is not None:
                handler(step)
