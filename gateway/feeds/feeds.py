"""What the feeds over one client have in common."""

from collections.abc import Callable

from core.client import JetStream, Msg, Subscription
from gateway.feeds.tail import Tails

OnEnd = Callable[[], None]


class Feeds:
    """The tails over a client, and who wants to be told of its end.

    Attributes:
        tails: of the streams that are followed.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.tails = Tails(js, items, nbytes)
        self._client = js.client
        self._watchers: set[OnEnd] = set()
        self._sub: Subscription | None = None

    def watch(self, on_end: OnEnd) -> None:
        """Call `on_end` when the client is closed. Raises ConnectionLost."""
        if self._sub is None:
            self._sub = self._client.subscribe(self._client.new_inbox(), _ignore)
            self._sub.on_end = self._ended
        self._watchers.add(on_end)

    def unwatch(self, on_end: OnEnd) -> None:
        """Do not call it any more."""
        self._watchers.discard(on_end)
        if not self._watchers and self._sub is not None:
            self._sub.unsubscribe()
            self._sub = None

    def _ended(self) -> None:
        watchers, self._watchers = self._watchers, set()
        for on_end in watchers:
            on_end()


def _ignore(batch: list[Msg]) -> None:
    """Take what nobody sends."""
