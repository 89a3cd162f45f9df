"""One connection, one stream and one consumer of it, on either server."""

from itertools import count
from typing import Any

from tests.support.eventually import eventually
from tests.support.wire import Frame, Wire

_numbers = count()


class Bench:
    """One connection, one stream of five messages."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.pulls = 0
        # The reference server removes a deleted stream's files behind its answer; a stream of
        # the same name made at once may find the state of the old consumers. No other test has
        # such names: some tests leave their stream behind.
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
        """(control line without subject and sid, status block or payload) of what arrives."""
        self.request(body)
        return self.arrived(within=within, count=count)

    def request(self, body: bytes) -> None:
        """Ask for messages, under a reply subject of its own."""
        self.pulls += 1
        self.wire.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.c", body, reply=b"in.%d" % self.pulls
        )

    def arrived(self, *, within: float = 0.25, count: int = 0) -> list[tuple[bytes, bytes]]:
        found = self.frames(within, count)
        return [(shape(frame), frame.headers + frame.payload) for frame in found]

    def frames(self, within: float = 0.25, count: int = 0) -> list[Frame]:
        """Everything that arrives until nothing comes for a while.

        Args:
            within: Seconds of silence that end it.
            count: How many come at least: that many are waited for, however long they take, and
                what is there by then beyond them is shown too.
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
        """Wait until these members of `state` are so; return all of them.

        The reference server takes acknowledgements without an answer, and messages that go before
        they are acknowledged, into account a moment later.
        """

        def look() -> dict[str, Any]:
            state = self.state()
            assert {name: state[name] for name in wanted} == wanted
            return state

        return eventually(look, within=30)

    def ack(self, numbers: bytes, payload: bytes = b"+ACK", reply: bytes = b"") -> None:
        """Acknowledge `delivered.stream seq.consumer seq`."""
        self.wire.publish(f"$JS.ACK.{self.name}.c.{numbers.decode()}.0.0", payload, reply=reply)


def shape(frame: Frame) -> bytes:
    """The numbers of an ack subject without its time, or the subject of anything else."""
    tokens = frame.reply.split(b".")
    if frame.reply.startswith(b"$JS.ACK."):
        return b".".join([*tokens[4:7], tokens[8]])
    return frame.subject
