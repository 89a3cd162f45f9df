"""The encoding of many requests as one buffer: the work per message when a batch is published."""

from collections.abc import Sequence


def publish_run(
    subjects: Sequence[bytes],
    payloads: Sequence[bytes],
    headers: Sequence[bytes] | None,
    reply: bytes,
) -> bytes:
    """Return the PUB or HPUB protocol lines of requests; the reply subject is `<reply><index>`.

    `headers` has a header block or empty bytes for each request; None: no headers.
    """
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
