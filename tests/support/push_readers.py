"""Subscribers of push consumers of each kind in `KINDS`, with nats-py."""

from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.node_clients import At

BEAT = 0.5
KINDS = ("plain", "group", "ordered", "flow")


class Reader:
    """The subscribers of one push consumer, which acknowledge its messages.

    Args:
        kind: One of `KINDS`: a durable consumer, one with a queue group, an ordered consumer, or
            one with flow control.
        stream: Name of the stream.
        leaves: The payload that this reader does not acknowledge; empty for none.

    Attributes:
        got: The received payloads, in order of arrival.
        acked: The payloads whose acknowledgement the server has confirmed.
    """

    def __init__(self, kind: str, stream: str, leaves: bytes = b"") -> None:
        self.kind, self.stream, self.leaves = kind, stream, leaves
        self.got: list[bytes] = []
        self.acked: set[bytes] = set()

    async def begin(self, *members: At) -> None:
        """Create the consumer and subscribe at one node or, for the kind "group", at several."""
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=2 if self.leaves else 60)
        for at in members:
            take = self._acknowledging(at)
            subject, stream, js = f"{self.stream}.>", self.stream, at.js
            match self.kind:
                case "plain":
                    await js.subscribe(
                        subject, stream=stream, durable="P", cb=take, manual_ack=True, config=config
                    )
                case "group":
                    await js.subscribe(
                        subject, "G", stream=stream, cb=take, manual_ack=True, config=config
                    )
                case "ordered":
                    await js.subscribe(
                        subject,
                        stream=stream,
                        cb=self._note,
                        ordered_consumer=True,
                        idle_heartbeat=BEAT,
                    )
                case "flow":
                    await self._with_flow_control(at)

    async def _with_flow_control(self, at: At) -> None:
        """Create consumer F, subscribe to its messages, and answer its flow control requests.

        nats-py answers flow control requests only for ordered consumers.
        """
        inbox = at.client.new_inbox()
        take = self._acknowledging(at)

        async def answer(message: Msg) -> None:
            if is_status(message):
                if message.reply:
                    await message.respond(b"")
            else:
                await take(message)

        await at.client.subscribe(inbox, cb=answer)
        await at.done(f"CONSUMER.CREATE.{self.stream}.F", flowing(self.stream, inbox))

    async def _note(self, message: Msg) -> None:
        self.got.append(message.data)

    def _acknowledging(self, at: At) -> Callable[[Msg], Awaitable[None]]:
        async def take(message: Msg) -> None:
            self.got.append(message.data)
            if message.data != self.leaves:
                await at.acknowledge(message)
                self.acked.add(message.data)

        return take

    def has(self, bodies: list[bytes]) -> bool:
        """Return True if all these payloads have arrived and their acknowledgements are confirmed.

        The payload `leaves` and the messages of an ordered consumer need no acknowledgement.
        """
        acked = self.got if self.kind == "ordered" else self.acked | {self.leaves}
        return {*bodies} <= {*self.got} & {*acked}


def is_status(message: Msg) -> bool:
    return bool(message.headers and "Status" in message.headers)


def flowing(stream: str, inbox: str, **config: object) -> dict[str, object]:
    """Return the body of CONSUMER.CREATE for durable F, with flow control and heartbeats."""
    asked = {
        "durable_name": "F",
        "deliver_subject": inbox,
        "ack_policy": "explicit",
        "flow_control": True,
        "idle_heartbeat": int(BEAT * 1e9),
        **config,
    }
    return {"stream_name": stream, "config": asked}
