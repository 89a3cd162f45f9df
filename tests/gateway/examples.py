"""The examples of the contract: `python -m tests.gateway.examples` asks again and writes them.

They are asked in order, of a new server. `TOKEN n` in a body stands for the token of the n-th
message that was fetched.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import orjson
from msgspec import UNSET

from core.units import Seconds
from gateway.contract.examples import Example
from gateway.routes import ROUTES
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.short_feeds import ShortFeeds
from tests.gateway.web import Answer, Web
from tests.support.jetgate import ROOT, JetgateServer

PLACE = ROOT / "gateway" / "contract" / "examples.json"
JSON = "application/json"
NDJSON = "application/x-ndjson"
_ROWS = {row.id: row for row in ROUTES}
_ORDERS = {"stream": "ORDERS"}
_BILLING = {"stream": "ORDERS", "consumer": "billing"}
_PROFILES = {"bucket": "profiles"}
_COLOR = {"bucket": "profiles", "key": "sue.color"}
_HOUSE = {"bucket": "plans", "name": "house.txt"}
_HOME = {"bucket": "plans", "name": "home.txt"}
_AS_JSON = {"Accept": JSON}
_ORDER = {"subject": "orders.new", "data": {"id": 8}}
_MOVE = [
    {"subject": "orders.8", "text": "-10"},
    {"subject": "orders.9", "text": "+10", "expect": {"last_subject_seq": 0}},
]
_LINES = b'{"subject": "orders.new", "data": {"id": 9}}\n{"subject": "no.stream", "text": "x"}\n'


def _ask(operation: str, title: str, body: Any = UNSET, **query: Any) -> Example:
    media_type = JSON if body is not UNSET else ""
    return Example(
        operation=operation, title=title, body=body, **{"media_type": media_type} | query
    )


ASKED: tuple[Example, ...] = (
    _ask(
        "putStream",
        "A stream of orders",
        {"subjects": ["orders.>"], "allow_direct": True, "allow_atomic": True},
        params=_ORDERS,
    ),
    _ask("createStream", "A stream of one subject, its name", {"name": "OLD"}),
    _ask("patchStream", "Keep messages for a day", {"max_age": 86_400_000_000_000}, params=_ORDERS),
    _ask("readStream", "Its state", params=_ORDERS),
    _ask("listStreams", "All streams"),
    _ask("listStreamNames", "Who has this subject?", query={"subject": "orders.new"}),
    _ask(
        "publishMessage",
        "An order",
        "paid",
        params={"subject": "orders.7"},
        headers={"Idempotency-Key": '"payment-7"'},
        media_type="application/octet-stream",
    ),
    _ask(
        "publishMessage",
        "The same again",
        "paid",
        params={"subject": "orders.7"},
        headers={"Idempotency-Key": '"payment-7"'},
        media_type="application/octet-stream",
    ),
    _ask("publishBatch", "Two messages", [_ORDER, {"subject": "orders.new", "text": "hello"}]),
    _ask("publishBatch", "Lines, one of them for nobody", _LINES.decode(), media_type=NDJSON),
    _ask("publishAtomic", "Both or none", _MOVE),
    _ask(
        "request",
        "A stream answers with its receipt",
        "2+2",
        params={"subject": "orders.sum"},
        query={"timeout": "50ms"},
        media_type="application/octet-stream",
    ),
    _ask(
        "listSubjects", "Subjects of one token more", params=_ORDERS, query={"filter": "orders.*"}
    ),
    _ask("putConsumer", "A durable one", {"ack_policy": "explicit"}, params=_BILLING),
    _ask(
        "createConsumer",
        "One that ends with its reader",
        {"name": "reader", "ack_policy": "none"},
        params=_ORDERS,
    ),
    _ask("readConsumer", "Its state", params=_BILLING),
    _ask("patchConsumer", "Give up after five deliveries", {"max_deliver": 5}, params=_BILLING),
    _ask("listConsumers", "All of them", params=_ORDERS),
    _ask("fetchMessages", "Up to five", {"batch": 5}, params=_BILLING, headers=_AS_JSON),
    _ask("ackMessages", "Done", {"tokens": ["TOKEN 0"], "sync": True}, params=_BILLING),
    _ask("nakMessages", "Later", {"tokens": ["TOKEN 1"], "delay": "5s"}, params=_BILLING),
    _ask("termMessages", "Never", {"tokens": ["TOKEN 2"], "reason": "no order"}, params=_BILLING),
    _ask("progressMessages", "Still at it", {"tokens": ["TOKEN 3"]}, params=_BILLING),
    _ask(
        "ackAndFetchMessages",
        "Done, and one more",
        {"tokens": ["TOKEN 4"], "batch": 1},
        params=_BILLING,
    ),
    _ask("pauseConsumer", "For ten minutes", {"duration": "10m"}, params=_BILLING),
    _ask("resumeConsumer", "At once", params=_BILLING),
    _ask("resetConsumer", "From the beginning", {"seq": 1}, params=_BILLING),
    _ask(
        "fetchMessages", "One, as a line", {"batch": 1}, params=_BILLING, headers={"Accept": NDJSON}
    ),
    _ask("readMessages", "Two from a sequence on", {"seq": 2, "batch": 2}, params=_ORDERS),
    _ask(
        "findMessage",
        "The last of a subject",
        params=_ORDERS,
        query={"last_by": "orders.new"},
        headers=_AS_JSON,
    ),
    _ask("readMessage", "The first", params={**_ORDERS, "seq": "1"}, headers=_AS_JSON),
    _ask("purgeStream", "All of a subject", {"filter": "orders.7"}, params=_ORDERS),
    _ask("createKvBucket", "A bucket with history", {"bucket": "profiles", "history": 5}),
    _ask("putKvBucket", "The same", {"history": 5}, params=_PROFILES),
    _ask("patchKvBucket", "Keep values for a day", {"ttl": "24h"}, params=_PROFILES),
    _ask("readKvBucket", "Its state", params=_PROFILES),
    _ask("listKvBuckets", "All buckets"),
    _ask("putKey", "A value", "blue", params=_COLOR, media_type="application/octet-stream"),
    _ask("readKey", "The value", params=_COLOR, headers=_AS_JSON),
    _ask("readKeyHistory", "Its history", params=_COLOR),
    _ask("listKeys", "All keys", params=_PROFILES),
    _ask("watchKeys", "As lines", params=_PROFILES),
    _ask(
        "watchKeys",
        "As events",
        params=_PROFILES,
        headers={"Accept": "text/event-stream"},
    ),
    _ask("cleanKvBucket", "Old markers", {"older_than": "1h"}, params=_PROFILES),
    _ask("createObjectStore", "A store", {"bucket": "plans"}),
    _ask(
        "cleanObjectStore",
        "Chunks of unfinished uploads",
        {"older_than": "24h"},
        params={"bucket": "plans"},
    ),
    _ask(
        "putObject",
        "A small object",
        "a house",
        params=_HOUSE,
        headers={"Js-Description": "of a house"},
        media_type="application/octet-stream",
    ),
    _ask("readObject", "All of it", params=_HOUSE),
    _ask("readObjectInfo", "Information about it", params=_HOUSE),
    _ask(
        "linkObject", "Another name of it", {"bucket": "plans", "name": "house.txt"}, params=_HOME
    ),
    _ask("listObjects", "All objects", params={"bucket": "plans"}),
    _ask("readObjectStore", "Its state", params={"bucket": "plans"}),
    _ask("listObjectStores", "All stores"),
    _ask("readAccount", "Its usage"),
    _ask("healthz", "It lives"),
    _ask("readyz", "It serves"),
)


@contextmanager
def server() -> Iterator[Web]:
    """A new façade over a new jetgate, whose feeds end by themselves."""
    settings = replace(SETTINGS, feed_heartbeat=Seconds(0.05))
    with (
        JetgateServer(in_memory=True) as jetgate,
        GatewayServer(jetgate.address, settings, wrap=ShortFeeds) as gateway,
    ):
        yield Web(gateway.http)


def answered(web: Web) -> list[Example]:
    """Ask everything, and return it with the answers."""
    tokens: list[str] = []
    examples = []
    for example in ASKED:
        body = _with_tokens(example.body, tokens)
        answer = _send(web, example, body)
        whole = msgspec.structs.replace(example, body=body, status=answer.status)
        if answer.body:
            whole.answer_type = answer.headers["content-type"].partition(";")[0]
            whole.answer = _value(whole.answer_type, answer.body)
        tokens += re.findall(r'"token": ?"([^"]+)"', answer.body.decode(errors="replace"))
        examples.append(whole)
    return examples


def _with_tokens(body: Any, tokens: list[str]) -> Any:
    if not isinstance(body, dict) or "tokens" not in body:
        return body
    return {**body, "tokens": [tokens[int(each.split()[1])] for each in body["tokens"]]}


def _send(web: Web, example: Example, body: Any) -> Answer:
    row = _ROWS[example.operation]
    names = {name: quote(value, safe="") for name, value in example.params.items()}
    path = row.path.format(**names)
    if example.query:
        path += "?" + urlencode(example.query)
    headers = dict(example.headers)
    sent: bytes | None = None
    if body is not UNSET:
        headers["Content-Type"] = example.media_type
        sent = orjson.dumps(body) if example.media_type == JSON else body.encode()
    return web.send(row.method, path, sent, headers)


def _value(media_type: str, body: bytes) -> Any:
    if media_type == JSON:
        return orjson.loads(body)
    try:
        return body.decode()
    except UnicodeDecodeError:
        return b64encode(body).decode()


def shape(value: Any) -> Any:
    """The names and types in a value: two answers to the same question have the same."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value)


def main() -> None:
    """Ask, and write the file."""
    with server() as web:
        examples = answered(web)
    written = msgspec.json.format(msgspec.json.encode(examples), indent=1)
    Path(PLACE).write_bytes(written + b"\n")
    print(f"wrote {len(examples)} examples to {PLACE}; now python -m gateway.contract")


if __name__ == "__main__":
    main()
