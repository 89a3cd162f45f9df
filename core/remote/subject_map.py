"""Maps JetStream subjects between this server and another NATS system, a remote.

    here (where requests come from)                  there (the JetStream server)
    $JS.<name>.API.<verb>                            $JS.API.<verb>
    $JS.<name>.FC.<stream>.<consumer>.<n>            $JS.FC.<stream>.<consumer>.<n>
    $JS.ACK.<name>._.<stream>.<consumer>.<5 more>    $JS.ACK.<stream>.<consumer>.<5 more>

The last is the long form of an ack subject (ADR-15) with the remote in the place of the domain, so
that clients can parse sequences and times. If the other system uses the long form itself, its
domain and account become one token, `<domain>:<account>`, instead of `_`.
"""

API = b"$JS.API."
_ACK = b"$JS.ACK."
_FC = b"$JS.FC."
_SHORT_DOTS = 8
_NO_DOMAIN = b"_"
_STALLED = b"\r\nNats-Consumer-Stalled: "


class SubjectMap:
    """Maps the JetStream subjects of one remote; the table is in the description of this module.

    `api`, `fc` and `ack` are the prefixes of the subjects on the side where requests come from.
    """

    def __init__(self, name: str) -> None:
        token = name.encode()
        self.api = b"$JS.%b.API." % token
        self.fc = b"$JS.%b.FC." % token
        self.ack = b"$JS.ACK.%b." % token

    def there(self, subject: bytes) -> bytes:
        """Map the subject of an API request to the subject on the JetStream server."""
        return API + subject[len(self.api) :]

    def ack_here(self, reply: bytes) -> bytes:
        """Map an ack subject of the JetStream server to one for the requesting system.

        It is the reply subject of a delivery. A reply that is no ack subject is returned as it is.
        """
        if not reply.startswith(_ACK):
            return reply
        rest = reply[len(_ACK) :]
        if reply.count(b".") == _SHORT_DOTS:
            return self.ack + b"_." + rest
        domain, _, rest = rest.partition(b".")
        account, _, rest = rest.partition(b".")
        return b"%b%b:%b.%b" % (self.ack, domain, account, rest)

    def ack_there(self, subject: bytes) -> bytes:
        """Map an ack subject of a client's publish to the subject on the JetStream server.

        Return b"" if it is not an ack subject of this remote.
        """
        origin, _, rest = subject[len(self.ack) :].partition(b".")
        if origin == _NO_DOMAIN:
            return _ACK + rest if rest.count(b".") == _SHORT_DOTS - 2 else b""
        domain, colon, account = origin.partition(b":")
        return b"%b%b.%b.%b" % (_ACK, domain, account, rest) if colon else b""

    def flow_here(self, reply: bytes) -> bytes:
        """Map the reply subject of a flow-control message to one for the requesting system.

        The message is from the other system, which has the JetStream server.
        """
        return self.fc + reply[len(_FC) :] if reply.startswith(_FC) else reply

    def flow_there(self, subject: bytes) -> bytes:
        """Map the subject of a client's flow-control response to that of the JetStream server."""
        return _FC + subject[len(self.fc) :]

    def stalled_here(self, headers: bytes) -> bytes:
        """Map the subject in the header `Nats-Consumer-Stalled` of an idle heartbeat.

        It becomes a subject of the side of the API requests. Headers without it are returned as
        they are.
        """
        if _STALLED not in headers:
            return headers
        return headers.replace(_STALLED + _FC, _STALLED + self.fc)
