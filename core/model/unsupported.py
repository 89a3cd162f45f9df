"""Requests that are understood but that this server does not serve yet: refused by name."""

from core.errors import ApiError
from core.model.api_errors import api_error

REQUESTS = {
    "snapshot": "stream snapshot",
    "restore": "stream restore",
}
"""How a refusal names a request."""


def refuse_request(request: str) -> ApiError:
    """The error of a request that is not served yet."""
    text = f"{REQUESTS[request]} is not supported by this server yet"
    return api_error("JSStreamGeneral", err=text)
