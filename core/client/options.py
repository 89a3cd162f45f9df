"""The options of a client connection, and the fields of INFO that a client uses."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from core.client.errors import NotPermitted
from core.units import Seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The connection settings of a client. Times in seconds.

    Attributes:
        may_publish: Returns False for subjects that the server denies, if the client knows them.
            The client then raises NotPermitted instead of waiting for a reply that never comes.
        lacking: The same for permissions that headers require; called with subject and headers,
            returns the error or None.
    """

    name: str = "jetgate"
    user: str = ""
    password: str = ""
    token: str = ""
    connect_timeout: Seconds = Seconds(5.0)
    reconnect_wait_max: Seconds = Seconds(2.0)
    ping_interval: Seconds = Seconds(30.0)
    pings_out_max: int = 2
    may_publish: Callable[[bytes], bool] | None = None
    lacking: Callable[[bytes, bytes], NotPermitted | None] | None = None
    inbox: Callable[[], bytes] | None = None
    """Called at every connection; returns the prefix of inboxes, with a final dot."""
    identify: Callable[[str], dict[str, str]] | None = None
    """Called with the server's nonce at every connection; returns more fields of CONNECT."""

    def credentials(self, nonce: str) -> dict[str, object]:
        """Return the fields of CONNECT that authenticate the client.

        Raises ClientError if `identify` fails.
        """
        fields: dict[str, object] = {}
        if self.user:
            fields |= {"user": self.user, "pass": self.password}
        if self.token:
            fields["auth_token"] = self.token
        if self.identify is not None:
            fields |= self.identify(nonce)
        return fields


class ServerInfo(msgspec.Struct, frozen=True):
    """The fields of INFO that a client uses."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    max_payload: int = 1 << 20
    headers: bool = False
    jetstream: bool = False
    client_id: int = 0
    nonce: str = ""
