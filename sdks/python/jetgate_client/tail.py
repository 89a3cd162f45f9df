"""Reading of a stream over server-sent events, from a position on; reconnects and resumes."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from jetgate_client.events import follow
from jetgate_client.payloads import Message
from jetgate_client.transport import Transport, path_of


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages after the sequence `after` may be missing; the feed continues after `seq`.

    They were removed before they could be sent, or the stream was created again or restored.
    `first_seq` and `last_seq` are those of the stream.
    """

    after: int
    seq: int
    first_seq: int
    last_seq: int


async def tail(
    transport: Transport, stream: str, subject: str, begin: str
) -> AsyncIterator[Message | Gap]:
    """Yield the messages of a stream that match a subject, and a Gap where messages may be missing.

    An empty `subject` matches all messages; `begin` is as in `Jetgate.tail`.
    """
    query = {"filter": subject} if subject else {}
    if begin:
        query["from"] = begin
    place = 0
    path = path_of("streams", stream, "tail")
    async for event in follow(transport, path, query, resumes=True):
        if event is None:
            continue
        if event.event == "message":
            message = Message.read(event.data)
            place = message.seq
            yield message
            continue
        fields = json.loads(event.data)
        if event.event == "gap" or (event.event == "position" and not fields["recovered"]):
            after = fields.get("after", place)
            yield Gap(after, fields["seq"], fields.get("first_seq", 0), fields.get("last_seq", 0))
        place = fields.get("seq", place)
