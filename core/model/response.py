"""The members that all responses of the JetStream API have."""

from typing import Annotated

import msgspec

from core.errors import ApiError
from core.model.wire import OMIT, Int

TYPE_PREFIX = "io.nats.jetstream.api.v1."
"""The beginning of `Response.type`, the schema name of a response."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An `ApiError` as a JSON object."""

    code: Int = 0
    err_code: Annotated[Int, OMIT] = 0
    description: Annotated[str, OMIT] = ""

    @classmethod
    def of(cls, error: ApiError) -> "ErrorBody":
        return cls(code=error.code, err_code=error.err_code, description=error.description)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the JetStream API.

    `type` is the name of its schema; `error` is set if the request failed.
    """

    type: str = ""
    error: Annotated[ErrorBody | None, OMIT] = None

    def headers(self) -> bytes:
        """Return the header block of the message that carries this response (b"": none)."""
        return b""


class Paged(Response, frozen=True, kw_only=True):
    """A response with one page of a list of `total` items: those from `offset`, at most `limit`."""

    total: Int = 0
    offset: Int = 0
    limit: Int = 0


class SystemResponse(Response, frozen=True, kw_only=True):
    """The response to an API request whose subject is malformed."""

    type: str = TYPE_PREFIX + "system_response"
