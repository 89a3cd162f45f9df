"""The errors for API requests that this server knows but does not serve yet."""

from core.errors import ApiError
from core.model.api_errors import api_error

REQUESTS = {
    "snapshot": "stream snapshot",
    "restore": "stream restore",
}
"""The names of the requests in error texts."""


def refuse_request(request: str) -> ApiError:
    """Return the error for a request that is not served yet."""
    text = f"{REQUESTS[request]} is not supported by this server yet"
    return api_error("JSStreamGeneral", err=text)
