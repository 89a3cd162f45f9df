"""One operation of the façade: a row of the route table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from gateway.call import Call

Handler = Callable[[Call], Awaitable[Response]]

RAW = bytes
"""A body or answer of any type, taken as it is."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. `takes` and `gives` are the types of the bodies; `statuses` those of success.

    `query`: the parameters it knows; None: any, for probes and scrapers bring their own.
    `media_type` is that of a raw answer; `json`: what a raw answer is when JSON is asked for.
    `merges`: the body is a merge patch of `takes` (RFC 7396).
    `takes_lines`: the type of a line where the body may be NDJSON.
    `lines`: the type of one line where the answer may be NDJSON; `events`: of the data of one
    event where it may be server-sent events.
    `means`: of a parameter of the path that is more here than its name says, what it is in the
    tables: the name, and more behind a `#`.
    `headers` are those that it reads beside what every operation has; one of several meanings has
    that behind a `#` (`gateway.contract.parameters`). `shows` are those that it answers with, by
    status. `problems` are the words that end the `type` of its errors, beside those that every
    operation may give. `is_open`: nobody is asked who he is, and no rate is counted.
    `takes_message_headers`: `Nats-H-<Name>` too, and the handler judges all other `Nats-*` itself
    (`gateway.write_headers`).
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
