"""One operation of the façade: a row of the route table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from gateway.requests.call import Call

Handler = Callable[[Call], Awaitable[Response]]

RAW = bytes
"""A body or response of any media type, passed on unchanged."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the route table.

    The keys of `headers`, `query`, `means` and `shows` are those of `gateway.contract.parameters`,
    where `name#meaning` is one of several meanings of a name.

    Attributes:
        id: The `operationId` of the contract.
        takes: Type of the request body; None: no body.
        gives: Type of the response body; None: no body.
        statuses: HTTP statuses of success.
        query: Known query parameters. None accepts any, since probes and scrapers send their own.
        merges: True if the body is a merge patch of `takes` (RFC 7396).
        takes_lines: Type of one line, where the body may be NDJSON.
        lines: Type of one line, where the response may be NDJSON.
        events: Type of the data of one event, where the response may be server-sent events.
        json: Type of the response if the client accepts JSON, where `gives` is `RAW`.
        means: Path parameters with a special meaning here: name to key, such as `key` to `key#new`.
        headers: Request headers that the operation reads beside those that every operation reads.
        shows: Response headers, by HTTP status.
        problems: Last parts of the `type` URIs of its problems, beside those of every operation.
        media_type: Media type of a raw response.
        is_open: True if the operation needs no authentication and counts towards no rate limit.
        takes_message_headers: True if the operation also reads `Nats-H-<Name>`; the handler then
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
