"""What every response of the JetStream API has in common."""

from typing import Annotated

import msgspec

from core.errors import ApiError
from core.model.wire import OMIT, Int


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """A numbered error as it travels."""

    code: Int = 0
    err_code: Annotated[Int, OMIT] = 0
    description: Annotated[str, OMIT] = ""

    @classmethod
    def of(cls, error: ApiError) -> "ErrorBody":
        return cls(code=error.code, err_code=error.err_code, description=error.description)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """`type` names the response; `error` is there when the request failed."""

    type: str = ""
    error: Annotated[ErrorBody | None, OMIT] = None

    def headers(self) -> bytes:
        """The header block that the response travels with."""
        return b""


class Paged(Response, frozen=True, kw_only=True):
    """A response that may be one page of several."""

    total: Int = 0
    offset: Int = 0
    limit: Int = 0


class SystemResponse(Response, frozen=True, kw_only=True):
    """The answer to a request whose subject is malformed."""

    type: str = "io.nats.jetstream.api.v1.system_response"
