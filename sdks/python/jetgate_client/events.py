"""Server-sent events over HTTP with the credentials of the client, begun again when they break."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from jetgate_client.errors import ConnectionLost, JetgateError, is_passing, problem_from
from jetgate_client.iteration import Iteration
from jetgate_client.retrying import Backoff
from jetgate_client.transport import EVENTS, Answer, Transport, path_of

SILENCE_S = 40.0
"""The server says something every 15 s."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event as it came; `id` is that of the feed's place."""

    event: str
    data: str
    id: str


async def parsed(answer: Answer) -> AsyncGenerator[ServerEvent, None]:
    """The events of an answer, as the HTML standard (server-sent events) says."""
    event, place = "", ""
    data: list[str] = []
    async for lines in answer.lines():
        for line in lines:
            if not line:
                if data:
                    yield ServerEvent(event or "message", "\n".join(data), place)
                event, data = "", []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "event":
                event = value
            elif name == "id" and "\0" not in value:
                place = value


def follow(
    transport: Transport, path: str, query: Mapping[str, str], *, resumes: bool
) -> Iteration[ServerEvent | None]:
    """The events of a feed, for ever; None: it was begun again.

    `resumes`: the feed goes on behind the last event, as Last-Event-ID. Raises what cannot pass by
    itself, and the problem of an event `end`.
    """
    return transport.kept(_followed(transport, path, query, resumes))


async def _followed(
    transport: Transport, path: str, query: Mapping[str, str], resumes: bool
) -> AsyncGenerator[ServerEvent | None, None]:
    place = ""
    backoff = Backoff(transport.retry)
    began = False
    while True:
        headers = {"Accept": EVENTS, "Cache-Control": "no-store"}
        if resumes and place:
            headers["Last-Event-ID"] = place
        try:
            async with transport.stream(
                "GET", path, silence=SILENCE_S, params=dict(query), headers=headers
            ) as answer:
                if began:
                    yield None
                began = True
                async with aclosing(parsed(answer)) as events:
                    async for event in events:
                        backoff.reset()
                        place = event.id or place
                        if event.event == "end":
                            raise problem_from(json.loads(event.data)["problem"])
                        yield event
            raise ConnectionLost("the feed ended")
        except JetgateError as error:
            if not is_passing(error):
                raise
            await backoff.wait(error)


@dataclass(frozen=True, slots=True)
class Event:
    """An advisory, or what happened to the feed of them.

    `kind`: the last word of the advisory's type; `dropped`: `count` of them were not sent to a slow
    reader; `gap`: the connection was lost, and nobody kept what there was meanwhile.
    """

    kind: str
    subject: str = ""
    data: Mapping[str, Any] | None = None
    count: int = 0


async def advisories(transport: Transport, subject: str) -> AsyncIterator[Event]:
    """Advisories as they are published."""
    query = {"filter": subject} if subject else {}
    async for event in follow(transport, path_of("advisories"), query, resumes=False):
        if event is None:
            yield Event("gap")
            continue
        said = json.loads(event.data)
        if event.event == "dropped":
            yield Event("dropped", count=said["count"])
        else:
            yield Event(event.event, said["subject"], said["event"])
