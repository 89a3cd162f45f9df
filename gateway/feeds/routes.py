"""HTTP route of the feed of JetStream advisories (`/v1/advisories`)."""

from gateway.feeds import advisory_handlers
from gateway.formats import models
from gateway.requests.operation import Operation

FEED_ROUTES: tuple[Operation, ...] = (
    Operation(
        "followAdvisories",
        "GET",
        "/v1/advisories",
        advisory_handlers.advisories,
        query=("filter",),
        events=models.Advisory | models.Dropped,
        shows={200: ("Cache-Control",)},
        problems=("bad-subject",),
    ),
)
