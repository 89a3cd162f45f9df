"""Advisories as they happen."""

from starlette.responses import Response

from gateway.call import Call
from gateway.event_feed import EventFeed, open_feed
from gateway.validation import filter_subject

PREFIX = "$JS.EVENT."


async def advisories(call: Call) -> Response:
    """Follow what JetStream tells of: server-sent events, from now on.

    Nothing is kept for who was away; who reads too slowly is told by the event `dropped`.
    """
    wanted = filter_subject(call.query.get("filter", "ADVISORY.>"), call.gateway.settings)
    feed: EventFeed = await open_feed(call, (PREFIX + wanted).encode())
    return feed
