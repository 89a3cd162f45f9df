"""The HTTP handler that sends JetStream advisories as server-sent events."""

from starlette.responses import Response

from gateway.feeds.event_feed import EventFeed, open_feed
from gateway.formats.validation import filter_subject
from gateway.requests.call import Call

PREFIX = "$JS.EVENT."


async def advisories(call: Call) -> Response:
    """Follow new JetStream advisories as server-sent events.

    Advisories are not stored. The event `dropped` reports the number that a slow client missed.
    """
    wanted = filter_subject(call.query.get("filter", "ADVISORY.>"), call.gateway.settings)
    feed: EventFeed = await open_feed(call, (PREFIX + wanted).encode())
    return feed
