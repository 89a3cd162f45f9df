"""The settings of the HTTP server: limits, timeouts, allowed hosts and origins, keys."""

from dataclasses import dataclass

from core.units import Seconds

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the HTTP server: times in seconds, sizes in bytes, other limits as counts.

    docs/operations/settings.md explains those that operators can set, docs/http-auth.md those of
    authentication.

    Attributes:
        ack_key: Key that signs ack tokens. Nodes accept each other's tokens if their keys are
            equal.
        hosts: Names accepted in the header Host; empty or `*`: any.
        trusted_proxies: Networks of trusted proxies, in CIDR form.
        cors_origins: Origins whose pages may call the API, as browsers write them in Origin.
        rate_requests: Maximum number of requests of a principal in `rate_seconds`; 0: no limit.
    """

    ack_key: bytes = b""
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    rate_requests: int = 0
    rate_seconds: Seconds = Seconds(60.0)
    ticket_seconds: Seconds = Seconds(30.0)
    tickets_max: int = 10_000
    session_seconds: Seconds = Seconds(43_200.0)
    sessions_max: int = 100
    identities_idle_max: int = 1024
    identity_requests_max: int = 16_384
    requests_max: int = 65_536
    connections_max: int = 65_536
    keep_alive_seconds: int = 75
    head_seconds: Seconds = Seconds(20.0)
    head_bytes: int = 64 * 1024
    api_timeout: Seconds = Seconds(5.0)
    publish_timeout: Seconds = Seconds(5.0)
    write_timeout: Seconds = Seconds(30.0)
    body_idle_max: Seconds = Seconds(20.0)
    stream_idle_max: Seconds = Seconds(300.0)
    request_timeout_default: Seconds = Seconds(5.0)
    request_timeout_max: Seconds = Seconds(60.0)
    replies_max: int = 10_000
    event_pause: Seconds = Seconds(15.0)
    events_unread_bytes_max: int = 4 * MIB
    hello_timeout: Seconds = Seconds(5.0)
    feeds_max: int = 256
    feed_controls_max: int = 64
    feed_unanswered_max: int = 16_384
    feed_unread_bytes_max: int = MIB
    tail_messages_max: int = 8192
    tail_bytes_max: int = 8 * MIB
    fetch_expires_default: Seconds = Seconds(20.0)
    fetch_expires_max: Seconds = Seconds(60.0)
    fetch_batch_default: int = 100
    fetch_batch_max: int = 1000
    fetch_bytes_max: int = 16 * MIB
    ack_tokens_max: int = 10_000
    json_body_max: int = MIB
    atomic_body_max: int = 8 * MIB
    line_max: int = MIB
    subject_bytes_max: int = 4096
    target_bytes_max: int = 16 * 1024
    header_count_max: int = 100
    header_bytes_max: int = 32 * 1024
    message_header_count_max: int = 64
    message_header_bytes_max: int = 8192
    batch_unacked_bytes_max: int = 8 * MIB
    batch_unacked_max: int = 16_384
    batch_unread_max: int = 262_144
    feed_heartbeat: Seconds = Seconds(15.0)
    watch_filters_max: int = 64
    object_chunk_bytes: int = 128 * 1024
    object_unacked_bytes_max: int = MIB
    object_chunk_max: Seconds = Seconds(300.0)
    object_clean_age_min: Seconds = Seconds(600.0)
    object_read_bytes: int = 2 * MIB
