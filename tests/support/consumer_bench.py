"""One connection, one stream and one consumer of it, on jetgate or nats-server."""

from itertools import count
from typing import Any

from tests.support.eventually import eventually
from tests.support.wire import Frame, Wire

_numbers = count()


class Bench:
    """One connection to a server, one stream with five messages, and its consumer `c`.

    Deletes all streams of the server when it is created.

    Args:
        wire: A connection on which `hello` has not been called.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.pulls = 0
        # nats-server removes the files of a deleted stream after its answer. A stream of the same
        # name created at once may find the state of the old consumers. No other test uses these
        # names, because some tests leave their streams behind.
        self.name = f"BENCH{next(_numbers)}"
        wire.hello()
        self.clear()
        created = wire.api(f"STREAM.CREATE.{self.name}", {"name": self.name, "subjects": ["s.>"]})
        assert "error" not in created, created
        for i in range(5):
            wire.request(f"s.{i}", b"m%d" % i)
        wire.send(b"SUB in.> 1\r\n")

    def clear(self) -> None:
        """Delete every stream of the account."""
        for name in self.wire.api("STREAM.NAMES")["streams"] or ():
            self.wire.api(f"STREAM.DELETE.{name}")

    def consumer(self, **config: Any) -> dict[str, Any]:
        config = {"name": "c", "durable_name": "c", "ack_policy": "explicit"} | config
        reply = self.wire.api(
            f"CONSUMER.CREATE.{self.name}.c", {"stream_name": self.name, "config": config}
        )
        assert "error" not in reply, reply
        return dict(reply)

    def pull(
        self, body: bytes, *, within: float = 0.25, count: int = 0
    ) -> list[tuple[bytes, bytes]]:
        """Send a pull request and return the frames that arrive.

        Each frame is a pair: its `shape`, and its headers and payload as one byte string. `within`
        and `count` are those of `frames`.
        """
        self.request(body)
        return self.arrived(within=within, count=count)

    def request(self, body: bytes) -> None:
        """Send a pull request with a new reply subject; do not wait for messages."""
        self.pulls += 1
        self.wire.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.c", body, reply=b"in.%d" % self.pulls
        )

    def arrived(self, *, within: float = 0.25, count: int = 0) -> list[tuple[bytes, bytes]]:
        found = self.frames(within, count)
        return [(shape(frame), frame.headers + frame.payload) for frame in found]

    def frames(self, within: float = 0.25, count: int = 0) -> list[Frame]:
        """Return the frames that arrive until none arrives for `within` seconds.

        Args:
            within: Seconds without a frame that end the wait; unused if `count` is positive.
            count: Minimum number of frames. If it is positive, wait for this many frames, then
                return them with those that arrive before the PONG of a PING.
        """
        if count:
            found = [self.wire.frame() for _ in range(count)]
            return found + self.wire.flush()
        return self.wire.until_silence(within)

    def state(self) -> dict[str, Any]:
        info = self.wire.api(f"CONSUMER.INFO.{self.name}.c")
        return {
            "delivered": (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]),
            "floor": (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]),
            "ack_pending": info["num_ack_pending"],
            "redelivered": info["num_redelivered"],
            "waiting": info["num_waiting"],
            "pending": info["num_pending"],
        }

    def reaches(self, **wanted: Any) -> dict[str, Any]:
        """Wait until these members of `state` have these values; return all members.

        A wait is necessary because nats-server applies acknowledgements without a reply subject,
        and removals of unacknowledged messages, asynchronously. Raises AssertionError after 30
        seconds.
        """

        def look() -> dict[str, Any]:
            state = self.state()
            assert {name: state[name] for name in wanted} == wanted
            return state

        return eventually(look, within=30)

    def ack(self, numbers: bytes, payload: bytes = b"+ACK", reply: bytes = b"") -> None:
        """Acknowledge a delivery.

        Args:
            numbers: Delivery count, stream sequence and consumer sequence, as `1.5.3`.
            payload: The kind of acknowledgement, such as `+ACK` or `-NAK`.
            reply: The reply subject; empty for none.
        """
        self.wire.publish(f"$JS.ACK.{self.name}.c.{numbers.decode()}.0.0", payload, reply=reply)


def shape(frame: Frame) -> bytes:
    """Return the numbers of the ack subject of a message: `deliveries.sseq.cseq.pending`.

    For a frame without an ack subject (such as a status) return the frame's own subject.
    """
    tokens = frame.reply.split(b".")
    if frame.reply.startswith(b"$JS.ACK."):
        return b".".join([*tokens[4:7], tokens[8]])
    return frame.subject
