"""Generation of the OpenAPI 3.1 document from the route table."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from gateway.contract.examples import Examples
from gateway.contract.kinds import (
    EVERYWHERE,
    KINDS,
    OF_WRITES,
    WITH_BODY,
    WITH_JSON,
    WITH_NAME,
    type_of,
)
from gateway.contract.links import LINKS
from gateway.contract.parameters import PATH, QUERY, REQUEST_HEADERS, RESPONSE_HEADERS, SOMETIMES
from gateway.contract.schemas import Schemas, body_name, named
from gateway.formats.models import ProblemBody
from gateway.http.problems import MEDIA_TYPE as PROBLEM
from gateway.http.responses import JSON, NDJSON
from gateway.requests.operation import RAW, Operation

Document = dict[str, Any]

EVENTS = "text/event-stream"
MERGE_PATCH = "application/merge-patch+json"
_OCTETS = "application/octet-stream"
_NO_BODY = (101, 204, 304)
_MEANINGS = {
    101: "The connection speaks WebSocket from now on.",
    200: "It is done.",
    201: "It was created.",
    202: "It is under way.",
    204: "It is done, and the answer has no body.",
    206: "A part of it.",
    304: "The caller has the current version.",
}
_TAGS = {
    "account": "Usage and limits of the account.",
    "advisories": "Advisories of JetStream.",
    "consumers": "Consumers of a stream: configuration, fetching, acknowledging.",
    "kv": "Key-value buckets, shared with the official clients.",
    "objects": "Object stores, shared with the official clients.",
    "publish": "Many messages at once.",
    "session": "Sessions of browsers, by a cookie.",
    "stream-names": "The names of streams.",
    "streams": "Streams and the messages in them.",
    "subjects": "One message at a time, and requests.",
    "tail": "Follow a stream by one of its subjects.",
    "tickets": "Tickets that authenticate a WebSocket.",
    "ws": "Everything over one WebSocket: docs/websocket.md.",
    "system": "Health, metrics and this reference.",
}
_PARAMETER = re.compile(r"\{(\w+)\}")
_INFO = {
    "title": "jetgate",
    "summary": "JetStream over HTTP.",
    "description": "Bodies of JetStream's own objects are the JSON of the JetStream API. Errors are"
    " problem details (RFC 9457): `x-problems` of an operation are the words that end their `type`."
    " GET is answered without a body to HEAD, and OPTIONS with the methods of a path in Allow.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


def document(operations: Iterable[Operation], version: str) -> Document:
    """Generate the OpenAPI document for these operations and this version of jetgate."""
    rows = tuple(operations)
    schemas = Schemas((*rows, _problem_row()))
    examples = Examples()
    paths: dict[str, Document] = {}
    for row in rows:
        operation = _operation(row, schemas)
        examples.show(row, operation)
        paths.setdefault(row.path, {})[row.method.lower()] = operation
    used = {_tag(row.path) for row in rows}
    return {
        "openapi": "3.1.0",
        "info": {"version": version} | _INFO,
        "servers": [{"url": "/", "description": "This server."}],
        "tags": [{"name": tag, "description": _TAGS[tag]} for tag in sorted(used)],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "parameters": _parameters(rows),
            "responses": _refusals(schemas),
            "headers": _headers(rows),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _problem_row() -> Operation:
    """Return an operation without a route, which adds the schema of problems to the document."""
    return Operation("problem", "GET", "/", _unused, None, ProblemBody)


async def _unused(_call: object) -> Any:
    raise AssertionError("not a route")


def _operation(row: Operation, schemas: Schemas) -> Document:
    description = (row.handler.__doc__ or "").strip().split("\n\n")
    found: Document = {
        "operationId": row.id,
        "tags": [_tag(row.path)],
        "summary": " ".join(description[0].split()).rstrip("."),
        "parameters": _references(row),
        "responses": _responses(row, schemas),
        "x-problems": problems_of(row),
    }
    if description[1:]:
        found["description"] = "\n\n".join(" ".join(part.split()) for part in description[1:])
    if row.is_open:
        found["security"] = []
    if row.takes is not None:
        found["requestBody"] = {"required": _needs_body(row), "content": _taken(row, schemas)}
    return found


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    if parts[0] != "v1":
        return "system"
    return "consumers" if "consumers" in parts else parts[1].partition(":")[0]


def _needs_body(row: Operation) -> bool:
    """Return True if the request body is required.

    It is optional if its type is defined in `gateway` and has defaults for all members, or if the
    body is raw bytes. A JSON merge patch is always required.
    """
    if row.takes is RAW:
        return False
    if not isinstance(row.takes, type) or row.takes.__module__.startswith("core."):
        return True
    if row.merges:
        return True
    try:
        msgspec.json.decode(b"{}", type=row.takes)
    except msgspec.ValidationError:
        return True
    return False


def _names(row: Operation) -> Iterable[tuple[str, str]]:
    """Yield the parameters of an operation as (location, key in `gateway.contract.parameters`)."""
    yield from (("path", row.means.get(name, name)) for name in _PARAMETER.findall(row.path))
    yield from (("query", name) for name in row.query or ())
    yield from (("header", name) for name in row.headers)


def _references(row: Operation) -> list[Document]:
    return [{"$ref": f"#/components/parameters/{_key(place, name)}"} for place, name in _names(row)]


def _key(place: str, name: str) -> str:
    return f"{place}-{name.replace('#', '-')}"


def _parameters(rows: Iterable[Operation]) -> dict[str, Document]:
    tables = {"path": PATH, "query": QUERY, "header": REQUEST_HEADERS}
    found: dict[str, Document] = {}
    for place, name in {each for row in rows for each in _names(row)}:
        schema, text = tables[place][name]
        found[_key(place, name)] = {
            "name": name.partition("#")[0],
            "in": place,
            "required": place == "path",
            "description": text,
            "schema": schema,
        }
    return dict(sorted(found.items()))


def _headers(rows: Iterable[Operation]) -> dict[str, Document]:
    used = {name for row in rows for names in row.shows.values() for name in names}
    found: dict[str, Document] = {}
    refusals = {name for names in _REFUSAL_HEADERS.values() for name in names}
    for name in sorted({*used, *refusals, *_RATES}):
        schema, text = RESPONSE_HEADERS[name]
        found[name.replace("#", "-")] = {
            "description": text,
            "required": name not in SOMETIMES,
            "schema": schema,
        }
    return found


def _taken(row: Operation, schemas: Schemas) -> Document:
    if row.takes is RAW:
        return {_OCTETS: {"schema": named("Bytes")}}
    body = {"schema": schemas.of(body_name(row, "Request"))}
    content: Document = {JSON: body}
    if row.merges:
        content[MERGE_PATCH] = body
    if row.takes_lines is not None:
        line = schemas.of(body_name(row, "RequestLine"))
        content[NDJSON] = {"schema": named("Lines"), "x-line": line}
    return content


def _responses(row: Operation, schemas: Schemas) -> Document:
    found: Document = {}
    for status in row.statuses:
        answer: Document = {"description": _MEANINGS[status]}
        rates = () if row.is_open else _RATES
        if shown := (*row.shows.get(status, ()), *rates):
            answer["headers"] = _shown(shown)
        if status not in _NO_BODY and (content := _given(row, schemas)):
            answer["content"] = content
        if links := LINKS.get((row.id, status)):
            answer["links"] = links
        found[str(status)] = answer
    statuses = {status for kind in problems_of(row) for status in KINDS[kind].statuses}
    for status in sorted(statuses - {*row.statuses}):
        found[str(status)] = {"$ref": f"#/components/responses/{_refusal_name(status)}"}
    return found


def _shown(headers: Iterable[str]) -> Document:
    return {
        name.partition("#")[0]: {"$ref": f"#/components/headers/{name.replace('#', '-')}"}
        for name in sorted(headers)
    }


def _given(row: Operation, schemas: Schemas) -> Document:
    content: Document = {}
    if row.gives is RAW:
        schema = "Text" if row.media_type.startswith("text/") else "Bytes"
        content[row.media_type] = {"schema": named(schema)}
    elif row.gives is not None:
        content[JSON] = {"schema": schemas.of(body_name(row, "Response"))}
    if row.json is not None:
        content[JSON] = {"schema": schemas.of(body_name(row, "Json"))}
    if row.lines is not None:
        line = schemas.of(body_name(row, "Line"))
        content[NDJSON] = {"schema": named("Lines"), "x-line": line}
    if row.events is not None:
        event = schemas.of(body_name(row, "Event"))
        content[EVENTS] = {"schema": named("Events"), "x-event": event}
    return content


def problems_of(row: Operation) -> list[str]:
    """Return the kinds of problems that an operation may respond with, sorted."""
    kinds = {*row.problems, *EVERYWHERE}
    if not row.is_open:
        kinds.update(WITH_NAME)
    if row.method != "GET":
        kinds.update(OF_WRITES)
    if row.takes is not None or "unexpected-body" in kinds:
        kinds.update(WITH_BODY)
    if row.takes is not None and row.takes is not RAW:
        kinds.update(WITH_JSON)
    return sorted(kinds)


def _refusal_name(status: int) -> str:
    return HTTPStatus(status).name.title().replace("_", "")


def _refusals(schemas: Schemas) -> dict[str, Document]:
    """Return a reusable OpenAPI response object for each HTTP status of problems."""
    found: dict[str, Document] = {}
    for status in sorted({status for kind in KINDS.values() for status in kind.statuses}):
        kinds = [name for name, kind in sorted(KINDS.items()) if status in kind.statuses]
        description = "\n".join(f"- `{kind}`: {KINDS[kind].description}" for kind in kinds)
        found[_refusal_name(status)] = _refusal(status, kinds[0], description, schemas)
    return found


def _refusal(status: int, kind: str, description: str, schemas: Schemas) -> Document:
    example = {"type": type_of(kind), "title": HTTPStatus(status).phrase, "status": status}
    content = {"schema": schemas.of("ProblemResponse"), "example": example}
    headers = _shown((*_REFUSAL_HEADERS.get(status, ()), *_RATES))
    return {"description": description, "headers": headers, "content": {PROBLEM: content}}


_RATES = ("RateLimit", "RateLimit-Policy")
_REFUSAL_HEADERS = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    412: ("ETag#now",),
    416: ("Content-Range#none",),
    426: ("Sec-WebSocket-Version", "Upgrade"),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
