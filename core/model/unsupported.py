"""Features whose configuration is understood but which this server does not run yet.

A stream that asks for one is refused by name, never silently served without it. A
feature leaves this table when it works.
"""

from collections.abc import Callable

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.stream import StreamConfig

STREAM_FEATURES: tuple[tuple[str, Callable[[StreamConfig], bool]], ...] = (
    ("batch publish", lambda c: c.allow_batched),
)

REQUESTS = {
    "snapshot": "stream snapshot",
    "restore": "stream restore",
}
"""Requests that are answered with a refusal."""


def refuse_stream(config: StreamConfig) -> None:
    """Raise ApiError 10052 when the stream needs something that is not there yet."""
    for feature, is_used in STREAM_FEATURES:
        if is_used(config):
            raise api_error("JSStreamInvalidConfig", err=_text(feature))


def refuse_request(request: str) -> ApiError:
    """The error of a request that is not served yet."""
    return api_error("JSStreamGeneral", err=_text(REQUESTS[request]))


def _text(feature: str) -> str:
    return f"{feature} is not supported by this server yet"
