"""The limits of client connections over NATS. The defaults are those of nats-server."""

from dataclasses import dataclass

from core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one client connection, except `max_connections`, which counts all connections.

    Attributes:
        max_payload: Largest headers and payload of a message, in bytes.
        max_control_line: Longest protocol line, in bytes.
        max_pending: Unsent bytes above which a client is closed as a slow consumer.
        write_deadline: Seconds without progress of output after which a client is closed.
        max_connections: Largest number of connections.
        max_subscriptions: Largest number of subscriptions; 0: unlimited.
        max_subscription_tokens: Largest number of tokens in the subject of a subscription; 0:
            unlimited.
        ping_interval: Seconds between two PINGs.
        ping_max: Unanswered PINGs after which a client is closed.
        first_ping: Seconds after which a new connection gets its first PING.
        no_header_support: True to refuse messages with headers.
    """

    max_payload: int = 1024 * 1024
    max_control_line: int = 4096
    max_pending: int = 64 * 1024 * 1024
    write_deadline: Seconds = Seconds(10.0)
    max_connections: int = 65536
    max_subscriptions: int = 0
    max_subscription_tokens: int = 0
    ping_interval: Seconds = Seconds(120.0)
    ping_max: int = 2
    first_ping: Seconds = Seconds(2.0)
    no_header_support: bool = False
