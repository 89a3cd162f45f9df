"""How subjects of another system are called here, and back.

    here                                             there
    $JS.<name>.API.<verb>                            $JS.API.<verb>
    $JS.<name>.FC.<stream>.<consumer>.<n>            $JS.FC.<stream>.<consumer>.<n>
    $JS.ACK.<name>._.<stream>.<consumer>.<5 more>    $JS.ACK.<stream>.<consumer>.<5 more>

The last is the long form of an acknowledgement with the remote in the place of the domain, so
that clients find sequences and times in it. Where the other system uses the long form itself, its
own domain and account stand in one token, `<domain>:<account>`, instead of `_`.
"""

API = b"$JS.API."
_ACK = b"$JS.ACK."
_FC = b"$JS.FC."
_SHORT_DOTS = 8
_NO_DOMAIN = b"_"
_STALLED = b"\r\nNats-Consumer-Stalled: "


class Names:
    """The subjects of one remote."""

    def __init__(self, name: str) -> None:
        token = name.encode()
        self.api = b"$JS.%b.API." % token
        self.fc = b"$JS.%b.FC." % token
        self.ack = b"$JS.ACK.%b." % token

    def there(self, subject: bytes) -> bytes:
        """What a request here is called there."""
        return API + subject[len(self.api) :]

    def ack_here(self, reply: bytes) -> bytes:
        """What the acknowledgement subject of a delivery is called here."""
        if not reply.startswith(_ACK):
            return reply
        rest = reply[len(_ACK) :]
        if reply.count(b".") == _SHORT_DOTS:
            return self.ack + b"_." + rest
        domain, _, rest = rest.partition(b".")
        account, _, rest = rest.partition(b".")
        return b"%b%b:%b.%b" % (self.ack, domain, account, rest)

    def ack_there(self, subject: bytes) -> bytes:
        """The acknowledgement subject of the other system; empty if it is none of its own."""
        origin, _, rest = subject[len(self.ack) :].partition(b".")
        if origin == _NO_DOMAIN:
            return _ACK + rest if rest.count(b".") == _SHORT_DOTS - 2 else b""
        domain, colon, account = origin.partition(b":")
        return b"%b%b.%b.%b" % (_ACK, domain, account, rest) if colon else b""

    def flow_here(self, reply: bytes) -> bytes:
        """What the subject that answers a flow-control request is called here."""
        return self.fc + reply[len(_FC) :] if reply.startswith(_FC) else reply

    def flow_there(self, subject: bytes) -> bytes:
        """Back from `flow_here`."""
        return _FC + subject[len(self.fc) :]

    def stalled_here(self, headers: bytes) -> bytes:
        """A heartbeat that names an unanswered flow-control request names it as it is here."""
        if _STALLED not in headers:
            return headers
        return headers.replace(_STALLED + _FC, _STALLED + self.fc)
