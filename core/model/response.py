"""The members of all responses of the JetStream API."""

from typing import Annotated

import msgspec

from core.errors import ApiError
from core.model.wire import OMIT, Int

TYPE_PREFIX = "io.nats.jetstream.api.v1."
"""The beginning of `Response.type`."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of an `ApiError`."""

    code: Int = 0
    err_code: Annotated[Int, OMIT] = 0
    description: Annotated[str, OMIT] = ""

    @classmethod
    def of(cls, error: ApiError) -> "ErrorBody":
        return cls(code=error.code, err_code=error.err_code, description=error.description)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response; `type` identifies its schema, and `error` is present if the request failed."""

    type: str = ""
    error: Annotated[ErrorBody | None, OMIT] = None

    def headers(self) -> bytes:
        """Return the header block of the message with this response (b"": none)."""
        return b""


class Paged(Response, frozen=True, kw_only=True):
    """A response that may be one page of several."""

    total: Int = 0
    offset: Int = 0
    limit: Int = 0


class SystemResponse(Response, frozen=True, kw_only=True):
    """The response to a request whose subject is malformed."""

    type: str = TYPE_PREFIX + "system_response"
