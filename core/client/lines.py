"""The formatting of many requests as one buffer: the per-message work of publishing a batch."""

from collections.abc import Sequence


def publish_run(
    subjects: Sequence[bytes],
    payloads: Sequence[bytes],
    headers: Sequence[bytes] | None,
    reply: bytes,
) -> bytes:
    """Return the PUB and HPUB lines of requests; their reply subjects are `<reply><index>`."""
    parts: list[bytes] = []
    for i, payload in enumerate(payloads):
        head = headers[i] if headers is not None else b""
        if head:
            hlen = len(head)
            sizes = (subjects[i], reply, i, hlen, hlen + len(payload))
            parts += (b"HPUB %s %s%d %d %d\r\n" % sizes, head, payload, b"\r\n")
        else:
            line = b"PUB %s %s%d %d\r\n" % (subjects[i], reply, i, len(payload))
            parts += (line, payload, b"\r\n")
    return b"".join(parts)
