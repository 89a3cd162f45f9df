"""The errors for API requests that nats-server has and this server does not serve yet."""

from core.errors import ApiError
from core.model.api_errors import api_error

REQUESTS = {
    "snapshot": "stream snapshot",
    "restore": "stream restore",
}
"""Names for error texts of the requests that are not served."""


def refuse_request(request: str) -> ApiError:
    """Return the error for a request (a key of `REQUESTS`) that is not served yet."""
    text = f"{REQUESTS[request]} is not supported by this server yet"
    return api_error("JSStreamGeneral", err=text)
