"""Encodes lines of the NATS protocol, for server and client.

Deliveries to many subscribers are encoded in `core.pubsub.account`, which shares the parts of a
line between messages and subscriptions.
"""

PING = b"PING\r\n"
PONG = b"PONG\r\n"
OK = b"+OK\r\n"


def error(text: str) -> bytes:
    """Return an -ERR line with a text, which is put in single quotes."""
    return b"-ERR '%b'\r\n" % text.encode("utf-8", "surrogateescape")


def info(body: bytes) -> bytes:
    """Return an INFO line with the JSON `body`.

    A space precedes its line end, as in nats-server.
    """
    return b"INFO %b \r\n" % body


def message(subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a MSG line with its payload, or an HMSG if there are headers."""
    address = b"%b %b %b" % (subject, sid, reply + b" " if reply else b"")
    if not headers:
        return b"MSG %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HMSG %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def connect(body: bytes) -> bytes:
    """Return a CONNECT line with the JSON `body`."""
    return b"CONNECT %b\r\n" % body


def publish(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a PUB line with its payload, or an HPUB if there are headers."""
    address = b"%b %b" % (subject, reply + b" " if reply else b"")
    if not headers:
        return b"PUB %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HPUB %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def subscribe(subject: bytes, queue: bytes, sid: bytes) -> bytes:
    """Return a SUB line; an empty `queue` means no queue group."""
    return b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid)


def unsubscribe(sid: bytes, limit: int = 0) -> bytes:
    """Return an UNSUB line.

    With a `limit`, the subscription ends after that many messages in total.
    """
    return b"UNSUB %b %d\r\n" % (sid, limit) if limit else b"UNSUB %b\r\n" % sid
