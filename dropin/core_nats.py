"""The replacement of `dropin.jetstream` for a server without JetStream.

It imports no storage module, so that the start is fast.
"""

from typing import TYPE_CHECKING

from core.node.server import Server

if TYPE_CHECKING:
    from core.node.lifecycle import Candidacy
    from core.node.publish_gate import PublishGate
    from core.node.runtime import JetStreamRuntime
    from core.remote.remotes import Remotes
    from core.remote.settings import Remote


class CoreNats:
    """A server without JetStream: publish and subscribe, and connections to remotes.

    A remote is another NATS system whose JetStream clients can use here. The methods are those of
    `dropin.jetstream.JetStream`.
    """

    def __init__(self, server: Server, remotes: "tuple[Remote, ...]") -> None:
        self._server = server
        self._configured = remotes
        self._connected: tuple[Remote, ...] = ()
        self._is_serving = False
        self._remotes: Remotes | None = None

    def open(self) -> bool:
        """Return False: without JetStream, no publish has to wait at the start."""
        return False

    async def start(self, gate: "PublishGate") -> "Candidacy | None":
        """Return None: a server without JetStream acquires no leases and loads no streams."""
        return None

    def serve(self, runtime: "JetStreamRuntime | None") -> None:
        """Connect to the remotes (other NATS systems), when the client port is open.

        `runtime` is None, because this server has no streams.
        """
        self._is_serving = True
        self._connect()

    def reconfigure(self, limits: dict[str, int], remotes: "tuple[Remote, ...]") -> None:
        """Replace the remotes (other NATS systems) after a reload; `limits` have no effect."""
        self._configured = remotes
        if self._is_serving:
            self._connect()

    def _connect(self) -> None:
        if self._configured == self._connected:
            return
        if self._remotes is None:
            # Imported late: starts without remotes are faster
            from core.remote.remotes import Remotes

            self._remotes = Remotes(self._server.hub.default_account(), self._server.clock)
        self._connected = self._configured
        self._remotes.configure(self._configured)

    def step_down(self) -> None:
        """Do nothing: without JetStream there are no streams in memory to drop."""

    async def retire(self) -> None:
        """Close the connections to remotes."""
        if self._remotes is not None:
            await self._remotes.stop()

    stop = retire
