"""The options of a client connection, and the fields of INFO that a client uses."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from core.client.errors import NotPermitted
from core.units import Seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The connection settings of a client. Times are in seconds.

    Attributes:
        name: Name of the connection in CONNECT.
        user: User name; empty: none.
        password: Password of the user.
        token: Token in place of user and password; empty: none.
        connect_timeout: Longest duration of one attempt to connect.
        reconnect_wait_max: Longest pause between two attempts to reconnect.
        ping_interval: Time between two PINGs.
        pings_out_max: Number of unanswered PINGs after which the connection is aborted.
        may_publish: Returns False for subjects without permission to publish, as far as the client
            knows them; None: unknown. The client then raises NotPermitted instead of waiting for a
            reply that never arrives.
        lacking: Called with subject and headers; returns the error if the headers require a
            permission that the client lacks, else None.
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
    """Called at every connection; returns the prefix of inbox subjects, with a final dot."""
    identify: Callable[[str], dict[str, str]] | None = None
    """Called with the server's nonce at every connection; returns further fields of CONNECT."""

    def credentials(self, nonce: str) -> dict[str, object]:
        """Return the fields of CONNECT that authenticate the client; `nonce` is the server's.

        Passes on the ClientError of the callback `identify`, which may add fields.
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
    """The fields of the server's INFO that a client uses."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    max_payload: int = 1 << 20
    headers: bool = False
    jetstream: bool = False
    client_id: int = 0
    nonce: str = ""
