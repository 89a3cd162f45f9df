"""The dispatcher of the events that change the ownership of lease groups.

A posted event is applied at once, and its commands are executed before the next event. Publishes
must be held by the time the call returns, since an acknowledgement may then be sent to the peer.
Work that has to wait is done by one task (`core.node.ownership.transfer`).
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
    """The ownership of one node, the events that change it, and the subscribers of its commands.

    Attributes:
        ownership: The states, for reading.
    """

    def __init__(self, transitions: Mapping[tuple[State, type[Event]], Row] = TRANSITIONS) -> None:
        self.ownership: Ownership[Peer] = Ownership(transitions)
        self._inbox: deque[Callable[[], list[Step]]] = deque()
        self._subscribers: list[Handlers] = []
        self._is_applying = False

    def fencing_tokens(self) -> Mapping[LeaseGroup, int]:
        """Return the fencing tokens of the groups that this node serves."""
        return self.ownership.fencing_tokens()

    def stale_peers(self) -> Collection[Peer]:
        """Return the peers that claim a group which another node has acquired later."""
        return self.ownership.stale_peers()

    def subscribe(self, handlers: Handlers) -> Callable[[], None]:
        """Call the handler of a command for each of its steps, after the earlier subscribers.

        Returns a function that ends the subscription; it may be called twice.
        """
        self._subscribers.append(handlers)

        def unsubscribe() -> None:
            self._subscribers = [each for each in self._subscribers if each is not handlers]

        return unsubscribe

    def post(self, event: Event) -> None:
        """Apply an event for its groups. An event without groups does nothing."""
        if event.groups:
            self._put(lambda: self.ownership.apply(event))

    def peer_announced(self, peer: Peer, fencing_tokens: Mapping[LeaseGroup, int]) -> None:
        """Apply the fencing tokens that a peer has announced."""
        self._put(lambda: self.ownership.peer_announced(peer, fencing_tokens))

    def peer_gone(self, peer: Peer) -> None:
        """Apply that a peer is unreachable."""
        self.peer_announced(peer, {})

    def peer_released(self, groups: frozenset[LeaseGroup], to: str, *, is_requested: bool) -> None:
        """Apply that a peer has released groups for the node named `to`."""
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
