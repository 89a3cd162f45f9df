"""What schemathesis is told beside the contract: values that mean something, and what to check.

The process that asks loads it (`SCHEMATHESIS_HOOKS`). Names that were made up at random never meet;
so three of four valid ones are replaced by a few that do, and as many configurations by ones that
are possible. What is not valid is left alone.
"""

import json
import zlib
from typing import Any

import requests
import schemathesis
from jsonschema_rs import Validator, is_valid, validator_for
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.generation.meta import TestPhase

_NULL_IS_NOTHING = ("createStream", "putStream", "createConsumer", "putConsumer")
_IF_NEW = {"If-None-Match": "*"}
_session = requests.Session()
_OF_HTTP = {
    "cache-control",
    "connection",
    "content-length",
    "content-security-policy",
    "content-type",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "date",
    "referrer-policy",
    "transfer-encoding",
    "vary",
    "x-accel-buffering",
    "x-content-type-options",
    "x-frame-options",
}
_PREFIX = "urn:jetgate:problem:"
_TOGETHER = [{"subject": "s1.a", "text": "x"}, {"subject": "s1.b", "data": [1]}]
_NAMES: dict[str, list[Any]] = {
    "stream": ["S1", "S2"],
    "consumer": ["C1", "C2"],
    "bucket": ["B1", "B2"],
    "key": ["a", "b.c"],
    "name": ["o", "p q"],
    "subject": ["s1.a", "s2.b"],
    "seq": [1, 2, 3],
}
_BODIES: dict[str, list[Any]] = {
    "createStream": [
        {"name": "S1", "subjects": ["s1.>"], "allow_direct": True, "allow_atomic": True},
        {"name": "S2", "subjects": ["s2.>"], "max_msgs_per_subject": 3, "allow_msg_ttl": True},
    ],
    "putStream": [{}, {"description": "again", "allow_direct": True}],
    "patchStream": [{"description": "changed"}, {"max_msgs": 10}, {"allow_direct": True}],
    "createConsumer": [{"durable_name": "C1", "ack_policy": "explicit"}, {"ack_policy": "all"}],
    "putConsumer": [{"ack_policy": "explicit"}],
    "patchConsumer": [{"description": "changed"}, {"max_deliver": 5}],
    "createKvBucket": [{"bucket": "B1", "history": 5}, {"bucket": "B2", "limit_marker_ttl": "9s"}],
    "putKvBucket": [{}, {"history": 3}],
    "patchKvBucket": [{"description": "changed"}, {"ttl": "1h"}],
    "createObjectStore": [{"bucket": "B1"}, {"bucket": "B2", "description": "x"}],
    "putObjectStore": [{}],
    "linkObject": [{"bucket": "B1", "name": "o"}, {"bucket": "B2"}],
    "publishAtomic": [_TOGETHER],
    "publishBatch": [_TOGETHER],
    "purgeStream": [{"keep": 5}, {"filter": "s1.a"}],
    "fetchMessages": [{"no_wait": True}, {"no_wait": True, "raw": True}, {"batch": 2}],
    "readMessages": [{"seq": 1, "batch": 5}, {"multi_last": ["s1.>"]}],
    "pauseConsumer": [{"duration": "1h"}],
    "resetConsumer": [{"seq": 1}, {}],
}


@schemathesis.hook
def map_path_parameters(
    context: HookContext, path_parameters: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Let most requests be about a few streams, consumers, buckets and keys."""
    assert context.operation is not None
    if not path_parameters:
        return path_parameters
    for parameter in context.operation.path_parameters:
        if not is_valid(parameter.definition["schema"], path_parameters.get(parameter.name)):
            return path_parameters
    return {
        name: _chosen(value, _NAMES.get(name, [value])) for name, value in path_parameters.items()
    }


@schemathesis.hook
def map_body(context: HookContext, body: Any) -> Any:
    """Let most configurations be possible ones."""
    assert context.operation is not None
    operation = context.operation.definition.raw
    choices = _BODIES.get(operation["operationId"])
    if choices is None or not isinstance(body, dict | list):
        return body
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if not _validator(context.operation.schema.raw_schema, schema).is_valid(body):
        return body
    return _chosen(body, choices)


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Ask for each media type that an operation has, about what is there."""
    raw = case.operation.definition.raw
    place = _number([case.path_parameters, case.query, str(case.body)])
    answers = [types for each in raw["responses"].values() if (types := each.get("content"))]
    if answers and "Accept" not in case.headers:
        case.headers["Accept"] = list(answers[0])[place % len(answers[0])]
    is_free = case.meta is None or case.meta.phase.name is not TestPhase.STATEFUL
    if is_free and place % 2 and not raw["operationId"].startswith(("create", "put")):
        _provide(str(case.operation.base_url).rstrip("/"), case.path_parameters or {})


def _provide(url: str, names: dict[str, Any]) -> None:
    """Create what a path names, if it is one of our own names."""
    session = _session
    stream, bucket = str(names.get("stream")), str(names.get("bucket"))
    if stream in _NAMES["stream"]:
        place = f"{url}/v1/streams/{stream}"
        prefix = stream.lower()
        session.put(
            place, json={"subjects": [f"{prefix}.>"], "allow_direct": True}, headers=_IF_NEW
        )
        session.post(f"{url}/v1/subjects/{prefix}.a", data=b"{}")
        if (consumer := names.get("consumer")) in _NAMES["consumer"]:
            path = f"{place}/consumers/{consumer}"
            session.put(path, json={"ack_policy": "explicit"}, headers=_IF_NEW)
    elif bucket in _NAMES["bucket"] and "name" in names:
        session.put(f"{url}/v1/objects/{bucket}", json={}, headers=_IF_NEW)
        session.put(f"{url}/v1/objects/{bucket}/o", data=b"x")
    elif bucket in _NAMES["bucket"]:
        session.put(f"{url}/v1/kv/{bucket}", json={"history": 5}, headers=_IF_NEW)
        if (key := names.get("key")) in _NAMES["key"]:
            session.put(f"{url}/v1/kv/{bucket}/{key}", data=b"x")


@schemathesis.check
def problem_is_declared(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """A refusal is a problem of a kind that the operation names."""
    if response.status_code < 400:
        return
    assert _media_type(response) == "application/problem+json", response.text
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code, problem
    kind = str(problem["type"]).removeprefix(_PREFIX)
    known = case.operation.definition.raw["x-problems"]
    assert kind in known or (response.status_code == 405 and kind == "method-not-allowed"), problem


@schemathesis.check
def headers_are_declared(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """An answer has no header that the contract does not name, but those of HTTP itself and, where
    it is a message, those of the message."""
    document = case.operation.schema.raw_schema
    answer = case.operation.definition.raw["responses"].get(str(response.status_code), {})
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    elif not answer or response.request.method == "OPTIONS":
        return  # an answer to another method
    declared = {name.lower() for name in answer.get("headers", {})}
    found = {name.lower() for name in response.headers}
    is_message = "nats-sequence" in declared and "nats-sequence" in found
    unknown = {
        name
        for name in found - declared - _OF_HTTP
        if not (is_message and name.startswith(("nats-", "ce-")))
    }
    assert not unknown, unknown


@schemathesis.check
def lines_are_as_declared(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Every line of NDJSON, and the data of every event, has the schema that is named."""
    if response.status_code >= 300:
        return
    answers = case.operation.definition.raw["responses"]
    answer = answers.get(str(response.status_code), {})
    content = answer.get("content", {}).get(_media_type(response), {})
    schema = content.get("x-line") or content.get("x-event")
    if schema is None:
        return
    validator = _validator(case.operation.schema.raw_schema, schema)
    for line in response.content.decode().splitlines():
        if line.startswith(("{", "data: ")):
            validator.validate(json.loads(line.removeprefix("data: ")))


@schemathesis.check
def what_is_accepted_is_valid(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Where JetStream takes null for nothing, which the contract does not offer: all else holds."""
    operation = case.operation.definition.raw
    if operation["operationId"] not in _NULL_IS_NOTHING or response.status_code >= 300:
        return
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    _validator(case.operation.schema.raw_schema, schema).validate(_without_null(case.body))


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if each is not None}
        return {name: _without_null(each) for name, each in kept.items()}
    if isinstance(value, list):
        return [_without_null(each) for each in value if each is not None]
    return value


def _validator(document: dict[str, Any], schema: dict[str, Any]) -> Validator:
    return validator_for({**schema, "components": document["components"]})


def _chosen(value: Any, choices: list[Any]) -> Any:
    number = _number(value)
    return value if number % 4 == 0 else choices[number // 4 % len(choices)]


def _number(value: Any) -> int:
    """A number that looks random and is the same in every run."""
    return zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode())


def _media_type(response: Response) -> str:
    return response.headers.get("content-type", [""])[0].partition(";")[0]
