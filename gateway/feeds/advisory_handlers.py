"""The handler that streams advisories."""

from starlette.responses import Response

from gateway.feeds.event_feed import EventFeed, open_feed
from gateway.formats.validation import filter_subject
from gateway.requests.call import Call

PREFIX = "$JS.EVENT."


async def advisories(call: Call) -> Response:
    """Follow JetStream advisories as server-sent events, from now on.

    Advisories are not stored. The event `dropped` reports how many a slow reader missed.
    """
    wanted = filter_subject(call.query.get("filter", "ADVISORY.>"), call.gateway.settings)
    feed: EventFeed = await open_feed(call, (PREFIX + wanted).encode())
    return feed
