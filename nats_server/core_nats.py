"""What `jetgate-nats-server` adds to a server without JetStream: the JetStream of remotes.

It stands in the place of `nats_server.jetstream.JetStream`, and imports nothing of storage.
"""

from typing import TYPE_CHECKING

from core.node.server import Server

if TYPE_CHECKING:
    from core.node.lifecycle import Candidacy
    from core.node.publish_gate import PublishGate
    from core.node.runtime import JetStreamRuntime
    from core.remote.keeper import Remotes
    from core.remote.settings import Remote


class CoreNats:
    """Publish and subscribe, nothing stored here."""

    def __init__(self, server: Server, remotes: "tuple[Remote, ...]") -> None:
        self._server = server
        self._configured = remotes
        self._connected: tuple[Remote, ...] = ()
        self._is_serving = False
        self._remotes: Remotes | None = None

    def open(self) -> bool:
        """Return that clients wait for nothing else, so that nothing has to be held for them."""
        return False

    async def start(self, gate: "PublishGate") -> "Candidacy | None":
        """Return that there is nothing to lead."""
        return None

    def serve(self, runtime: "JetStreamRuntime | None") -> None:
        """Clients are accepted from now on."""
        self._is_serving = True
        self._connect()

    def reconfigure(self, limits: dict[str, int], remotes: "tuple[Remote, ...]") -> None:
        """Use these remotes, and no others, from now on; there is nothing that `limits` limit."""
        self._configured = remotes
        if self._is_serving:
            self._connect()

    def _connect(self) -> None:
        if self._configured == self._connected:
            return
        if self._remotes is None:
            from core.remote.keeper import Remotes  # a start without does not wait for it

            self._remotes = Remotes(self._server.hub.default_account(), self._server.clock)
        self._connected = self._configured
        self._remotes.configure(self._configured)

    def step_down(self) -> None:
        """There is no runtime."""

    async def retire(self) -> None:
        """Close the connections to remotes."""
        if self._remotes is not None:
            await self._remotes.stop()

    stop = retire
