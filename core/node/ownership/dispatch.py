"""The one place through which the ownership of lease groups changes in a running node.

An event that is posted is applied at once, and its commands are executed before the next event: a
peer may be told that it was heard as soon as the call returns, so publishes have to be held by
then. What a command waits for is done by one task (`core.node.ownership.transfer`).
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

Handler = Callable[[Step], None]
Handlers = Mapping[Command, Handler]


class Dispatch(Generic[Peer]):
    """Applies events to the ownership of one node, and has subscribers execute the commands.

    Attributes:
        ownership: the states; for reading.
    """

    def __init__(self, transitions: Mapping[tuple[State, type[Event]], Row] = TRANSITIONS) -> None:
        self.ownership: Ownership[Peer] = Ownership(transitions)
        self._inbox: deque[Callable[[], list[Step]]] = deque()
        self._subscribers: list[Handlers] = []
        self._is_applying = False

    def claims(self) -> Mapping[int, int]:
        """Return the claims of the groups that this node serves."""
        return self.ownership.claims()

    def stale_peers(self) -> Collection[Peer]:
        """Return the peers that say that they own a group which another node acquired later."""
        return self.ownership.stale_peers()

    def subscribe(self, handlers: Handlers) -> Callable[[], None]:
        """Call a handler for each step of its command, after those that came before.

        Returns what ends the subscription, also if it ended before.
        """
        self._subscribers.append(handlers)

        def unsubscribe() -> None:
            self._subscribers = [each for each in self._subscribers if each is not handlers]

        return unsubscribe

    def post(self, event: Event) -> None:
        """Apply an event that concerns any groups. An event without groups does nothing."""
        if event.groups:
            self._put(lambda: self.ownership.apply(event))

    def peer_told(self, peer: Peer, claims: Mapping[int, int]) -> None:
        """Apply which groups a peer owns, by what it says."""
        self._put(lambda: self.ownership.peer_told(peer, claims))

    def peer_gone(self, peer: Peer) -> None:
        """Apply that a peer cannot be reached any more."""
        self.peer_told(peer, {})

    def peer_released(self, groups: frozenset[int], to: str, *, is_asked: bool) -> None:
        """Apply that a peer has released groups for a node of some name."""
        self.post(PeerReleased(groups, to, is_asked))

    def _put(self, apply: Callable[[], list[Step]]) -> None:
        self._inbox.append(apply)
        if self._is_applying:
            return  # by a handler: it goes on before the next event
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
