"""The encoding of lines of the NATS protocol, for server and client.

The server's delivery path has an encoding of its own, which shares the parts of a line between
messages and subscriptions (see `core.pubsub.account`).
"""

PING = b"PING\r\n"
PONG = b"PONG\r\n"
OK = b"+OK\r\n"


def error(text: str) -> bytes:
    """Return an -ERR line."""
    return b"-ERR '%b'\r\n" % text.encode("utf-8", "surrogateescape")


def info(body: bytes) -> bytes:
    """Return an INFO line, with a space before its line end as in the reference server."""
    return b"INFO %b \r\n" % body


def message(subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a MSG, or an HMSG if there are headers."""
    address = b"%b %b %b" % (subject, sid, reply + b" " if reply else b"")
    if not headers:
        return b"MSG %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HMSG %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def connect(body: bytes) -> bytes:
    """Return a CONNECT line."""
    return b"CONNECT %b\r\n" % body


def publish(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a PUB, or an HPUB if there are headers."""
    address = b"%b %b" % (subject, reply + b" " if reply else b"")
    if not headers:
        return b"PUB %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HPUB %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def subscribe(subject: bytes, queue: bytes, sid: bytes) -> bytes:
    """Return a SUB line."""
    return b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid)


def unsubscribe(sid: bytes, limit: int = 0) -> bytes:
    """Return an UNSUB; a limit delays its effect until that many messages in total."""
    return b"UNSUB %b %d\r\n" % (sid, limit) if limit else b"UNSUB %b\r\n" % sid
