"""One connection, one stream and one consumer of it, on either server."""

from itertools import count
from typing import Any

from tests.support.eventually import eventually
from tests.support.wire import Frame, Wire

_numbers = count()


class Bench:
    """One connection, and one stream of five messages."""

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
        """Delete every stream of the server."""
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

        Each frame is a pair: its `shape`, and its status block or payload.
        """
        self.request(body)
        return self.arrived(within=within, count=count)

    def request(self, body: bytes) -> None:
        """Send a pull request under a new reply subject."""
        self.pulls += 1
        self.wire.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.c", body, reply=b"in.%d" % self.pulls
        )

    def arrived(self, *, within: float = 0.25, count: int = 0) -> list[tuple[bytes, bytes]]:
        found = self.frames(within, count)
        return [(shape(frame), frame.headers + frame.payload) for frame in found]

    def frames(self, within: float = 0.25, count: int = 0) -> list[Frame]:
        """Return every frame that arrives, until a period of silence.

        Args:
            within: Seconds of silence that end the wait.
            count: Minimum number of frames. If it is not 0, the method waits for so many frames
                without a limit of time, and returns further ones that have arrived by then.
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

        nats-server applies acknowledgements without a reply, and removals of unacknowledged
        messages, a moment later.
        """

        def look() -> dict[str, Any]:
            state = self.state()
            assert {name: state[name] for name in wanted} == wanted
            return state

        return eventually(look, within=30)

    def ack(self, numbers: bytes, payload: bytes = b"+ACK", reply: bytes = b"") -> None:
        """Acknowledge a delivery; `numbers` is `deliveries.stream sequence.consumer sequence`."""
        self.wire.publish(f"$JS.ACK.{self.name}.c.{numbers.decode()}.0.0", payload, reply=reply)


def shape(frame: Frame) -> bytes:
    """Return the numbers of an ack subject without its timestamp, or any other subject as it is."""
    tokens = frame.reply.split(b".")
    if frame.reply.startswith(b"$JS.ACK."):
        return b".".join([*tokens[4:7], tokens[8]])
    return frame.subject
