"""The lines for messages and interest between servers of a cluster, as in nats-server 2.15.1.

RMSG <account> <subject> [<reply>] <size>            HMSG ... <header size> <size>
RMSG <account> <subject> + <reply> <queue>... <size>
RMSG <account> <subject> | <queue>... <size>
RS+ <account> <subject> [<queue> <weight>]           RS- <account> <subject> [<queue>]
"""

Queues = tuple[bytes, ...]


def routed_message(
    account: bytes, subject: bytes, reply: bytes, queues: Queues, headers: bytes, payload: bytes
) -> bytes:
    """Return an RMSG or HMSG line with its payload, for another server of the cluster.

    On that server, one member of each queue group in `queues` gets the message.
    """
    if queues:
        mark = b"+ %b" % reply if reply else b"|"
        address = b"%b %b %b %b " % (account, subject, mark, b" ".join(queues))
    elif reply:
        address = b"%b %b %b " % (account, subject, reply)
    else:
        address = b"%b %b " % (account, subject)
    if not headers:
        return b"RMSG %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HMSG %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)


def interest(account: bytes, subject: bytes, queue: bytes, count: int) -> bytes:
    """Return the line that announces interest in a subject: RS+, or RS- if `count` is 0.

    `count` is the number of subscriptions in the queue group; it is sent only with a `queue`.
    """
    if not count:
        return b"RS- %b %b%b\r\n" % (account, subject, b" " + queue if queue else b"")
    if queue:
        return b"RS+ %b %b %b %d\r\n" % (account, subject, queue, count)
    return b"RS+ %b %b\r\n" % (account, subject)
