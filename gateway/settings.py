"""What the façade can be told."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and times. Bytes, counts and seconds.

    `ack_key` signs ack tokens: every node of one system has the same, or tokens of one node mean
    nothing to another.
    """

    ack_key: bytes
    api_timeout: float = 5.0
    publish_timeout: float = 5.0
    write_timeout: float = 30.0
    body_idle_max: float = 20.0
    stream_idle_max: float = 300.0
    fetch_expires_default: float = 20.0
    fetch_expires_max: float = 60.0
    fetch_batch_default: int = 100
    fetch_batch_max: int = 1000
    fetch_bytes_max: int = 16 * MIB
    ack_tokens_max: int = 10_000
    json_body_max: int = MIB
    line_max: int = MIB
    subject_bytes_max: int = 1024
    subject_tokens_max: int = 64
    target_bytes_max: int = 8192
    header_count_max: int = 100
    header_bytes_max: int = 32 * 1024
    message_header_count_max: int = 64
    message_header_bytes_max: int = 8192
    batch_unacked_bytes_max: int = 8 * MIB
    batch_unacked_max: int = 16_384
    batch_unread_max: int = 262_144
