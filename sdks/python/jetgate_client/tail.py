"""Reading of a stream from a position on, across lost connections and restarts."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from jetgate_client.events import follow
from jetgate_client.payloads import Message
from jetgate_client.transport import Transport, path_of


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages after `after` may be missing; the following ones are after `seq`.

    They were removed before they could be sent, or the stream was recreated or restored.
    `first_seq` and `last_seq` are those of the stream.
    """

    after: int
    seq: int
    first_seq: int
    last_seq: int


async def tail(
    transport: Transport, stream: str, subject: str, begin: str
) -> AsyncIterator[Message | Gap]:
    """Yield the messages of a stream that match a subject, and a Gap for missing ones."""
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
