"""The type of a row in the route table: one HTTP operation with its handler and contract."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from gateway.requests.call import Call

Handler = Callable[[Call], Awaitable[Response]]

RAW = bytes
"""The type of a request or response body of any media type, passed on unchanged."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the route table: an HTTP operation.

    Headers and parameters in `headers`, `query`, `means` and `shows` are keys of
    `gateway.contract.parameters`. A name with several descriptions has the keys `name#description`.

    Attributes:
        id: The `operationId` in the OpenAPI document.
        takes: Type of the request body; None: no body.
        gives: Type of the response body; None: no body.
        statuses: HTTP statuses of success.
        query: Accepted query parameters; None: any, because probes and scrapers send their own.
        merges: True if the body is a JSON merge patch of `takes` (RFC 7396).
        takes_lines: Type of one line if the request body may be NDJSON.
        lines: Type of one line if the response may be NDJSON.
        events: Type of the data of one event if the response may be server-sent events.
        json: Type of the response if the client accepts JSON and `gives` is `RAW`.
        means: Path parameters with a description of their own: name to key (`key` to `key#new`).
        headers: Request headers that this operation reads; those of every operation are left out.
        shows: Response headers, by HTTP status.
        problems: Last parts of the `type` URIs of its problems; those of every operation are left
            out.
        media_type: Media type of a raw response.
        is_open: True if the operation needs no authentication and no rate limit applies.
        takes_message_headers: True if the operation also reads `Nats-H-<Name>`. Its handler then
            checks all other `Nats-*` headers itself (`gateway.requests.write_headers`).
    """

    id: str
    method: str
    path: str
    handler: Handler
    takes: object = None
    gives: object = None
    statuses: tuple[int, ...] = (200,)
    query: tuple[str, ...] | None = field(default=())
    merges: bool = False
    takes_lines: object = None
    lines: object = None
    events: object = None
    json: object = None
    means: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    shows: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    media_type: str = "*/*"
    is_open: bool = False
    takes_message_headers: bool = False
