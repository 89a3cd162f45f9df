"""Reading of server-sent events with the client's credentials; reconnects and resumes."""

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
"""Maximum time without data, in seconds; the server sends a comment every 15 s."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event; `id` is its position in the feed."""

    event: str
    data: str
    id: str


async def parsed(answer: Answer) -> AsyncGenerator[ServerEvent, None]:
    """Parse the events of a response, by the HTML standard (server-sent events)."""
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
    """Return an endless iteration over the events of a feed; None stands for a reconnect.

    With `resumes`, the feed continues after the last event, by Last-Event-ID. Raises errors that a
    retry cannot cure, and the problem of an event `end`.
    """
    return transport.tracked(_followed(transport, path, query, resumes))


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
    """An advisory, or a report about missed advisories.

    `kind` is one of:

    - the last token of the advisory's type.
    - `dropped`: the server dropped `count` advisories, because the client read too slowly.
    - `gap`: the connection was lost, and the advisories until the reconnect are lost too.
    """

    kind: str
    subject: str = ""
    data: Mapping[str, Any] | None = None
    count: int = 0


async def advisories(transport: Transport, subject: str) -> AsyncIterator[Event]:
    """Yield advisories as they are published; `subject` filters them ("": all)."""
    query = {"filter": subject} if subject else {}
    async for event in follow(transport, path_of("advisories"), query, resumes=False):
        if event is None:
            yield Event("gap")
            continue
        fields = json.loads(event.data)
        if event.event == "dropped":
            yield Event("dropped", count=fields["count"])
        else:
            yield Event(event.event, fields["subject"], fields["event"])
