"""One connection to a server, and the requests that these tests send over it."""

import json
from typing import Any, Self

from tests.support.headers import block
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Frame, Wire

Server = JetgateServer | NatsServer
SECOND = 1_000_000_000


class Desk:
    """Makes streams and consumers, publishes, pulls and acknowledges, over raw lines."""

    def __init__(self, server: Server) -> None:
        self.wire = Wire(server.address)
        self.wire.hello()
        self.wire.send(b"SUB in.> 1\r\n")
        self._pulls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    def api(self, subject: str, body: Any = None) -> Any:
        """The answer of a request, which may be an error."""
        return self.wire.api(subject, body)

    def ok(self, subject: str, body: Any = None) -> Any:
        """The answer of a request that is granted."""
        answer = self.api(subject, body)
        assert "error" not in answer, (subject, answer["error"])
        return answer

    def stream(self, name: str, **config: Any) -> Any:
        """Create a stream over `<name>.>`."""
        return self.ok(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]} | config)

    def state(self, name: str) -> Any:
        return self.ok(f"STREAM.INFO.{name}", {"subjects_filter": ">", "deleted_details": True})[
            "state"
        ]

    def consumer(self, stream: str, name: str = "c", **config: Any) -> Any:
        given = {"durable_name": name, "ack_policy": "explicit"} | config
        request = {"stream_name": stream, "config": given}
        return self.ok(f"CONSUMER.CREATE.{stream}.{name}", request)

    def info(self, stream: str, name: str = "c") -> Any:
        return self.ok(f"CONSUMER.INFO.{stream}.{name}")

    def numbers(self, stream: str, name: str = "c") -> tuple[int, ...]:
        """Delivered and floor in the stream; pending acks, redelivered, still to come."""
        info = self.info(stream, name)
        counts = (info["num_ack_pending"], info["num_redelivered"], info["num_pending"])
        return (info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"], *counts)

    def publish(self, subject: str, body: bytes = b"", **headers: str) -> Any:
        """Publish and return the answer; `Nats_Msg_Id` names the header Nats-Msg-Id."""
        return self.wire.request(subject, body, block(**headers)).json()

    def fill(self, stream: str, count: int, subjects: int = 1) -> None:
        """Publish messages `m0`, `m1`, ... over some subjects `<stream>.<i>`."""
        for i in range(count):
            answer = self.publish(f"{stream}.{i % subjects}", b"m%d" % i)
            assert "error" not in answer, answer

    def pull(
        self, stream: str, count: int, name: str = "c", *, within: float = 20.0, **options: Any
    ) -> list[Frame]:
        """Ask for messages; return what comes, until as many or a status is there."""
        self._pulls += 1
        reply = b"in.%d" % self._pulls
        body = {"batch": count, "expires": round(within * SECOND), **options}
        self.wire.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", json.dumps(body).encode(), reply=reply
        )
        found: list[Frame] = []
        while len(found) < count:
            found.append(self.wire.frame(within + 20))
            if found[-1].headers.startswith(b"NATS/1.0 ") and not found[-1].reply:
                break
        return found

    def bodies(self, stream: str, count: int, name: str = "c", **options: Any) -> list[bytes]:
        """The payloads of a pull, without its status."""
        return [f.payload for f in self.pull(stream, count, name, **options) if f.reply]

    def ack(self, frame: Frame, body: bytes = b"+ACK") -> None:
        """Acknowledge and wait for the confirmation."""
        self.wire.request(frame.reply.decode(), body)

    def quiet(self, within: float = 0.2) -> list[Frame]:
        """What arrives although nothing was asked for."""
        return self.wire.until_silence(within)


def code(answer: Any) -> int:
    """The number of the error of an answer; 0 for none."""
    return int(answer.get("error", {}).get("err_code", 0))


def seqs(frames: list[Frame]) -> list[int]:
    """The stream sequences of delivered messages."""
    return [int(frame.reply.split(b".")[5]) for frame in frames if frame.reply]
