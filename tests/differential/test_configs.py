"""Stream and consumer configurations, judged by jetgate's rules and by nats-server.

The pure functions get the same request body as the server. Their effective configuration, or their
error, must equal the one in the server's reply: same members, same order, same text.
"""

# Subject: streams, consumers

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import ApiError
from core.model import codec
from core.model.consumer import Action, ConsumerConfig, CreateConsumerRequest
from core.model.stream import StreamConfig, StreamConfigRequest
from core.model.versions import show_consumer, show_stream
from core.rules.consumer.config.validation import check_create_or_update, named_request
from core.rules.stream.config.validation import check_create, check_update
from tests.differential import configs
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

Verdict = dict[str, Any]
ORIGIN = {"name": "ORIGIN", "subjects": ["o.>"], "max_msg_size": 1000, "allow_direct": True}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Wire]:
    with NatsServer() as server, Wire(server.address) as wire:
        wire.hello()
        yield wire


def _bytes(body: configs.Body) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _theirs(oracle: Wire, subject: str, body: configs.Body) -> Verdict:
    reply = json.loads(oracle.request("$JS.API." + subject, _bytes(body)).payload)
    return {"error": reply["error"]} if "error" in reply else {"config": reply["config"]}


def _refused(error: ApiError) -> Verdict:
    members = {"code": error.code, "err_code": error.err_code, "description": error.description}
    return {"error": members}


def _text(verdict: Verdict) -> str:
    """Return a verdict as text, so that the order of members counts."""
    return json.dumps(verdict, ensure_ascii=False)


class Streams:
    """jetgate's rules for streams: the existing streams, and answers to requests."""

    def __init__(self) -> None:
        self.configs: dict[str, StreamConfig] = {}

    def create(self, name: str, body: configs.Body) -> Verdict:
        try:
            request = codec.decode(StreamConfigRequest, _bytes(body))
            config, _ = check_create(
                request.config(), self.configs, name=name, pedantic=request.pedantic
            )
        except ApiError as error:
            return _refused(error)
        self.configs[name] = config
        return {"config": json.loads(codec.encode(show_stream(config)))}

    def update(self, name: str, body: configs.Body) -> Verdict:
        try:
            request = codec.decode(StreamConfigRequest, _bytes(body))
            config = check_update(
                request.config(), self.configs, {}, name=name, pedantic=request.pedantic
            )
        except ApiError as error:
            return _refused(error)
        self.configs[name] = config
        return {"config": json.loads(codec.encode(show_stream(config)))}


class Consumers:
    """jetgate's rules for the consumers of one stream."""

    def __init__(self, stream: StreamConfig) -> None:
        self.stream = stream
        self.configs: dict[str, ConsumerConfig] = {}

    def create(
        self, name: str, body: configs.Body, *, tail: str = "", durable: bool = False
    ) -> Verdict:
        try:
            request = codec.decode(CreateConsumerRequest, _bytes(body))
            config = named_request(request, self.stream.name, name, tail, durable)
            config, _ = check_create_or_update(
                config,
                self.stream,
                self.configs,
                action=request.action,
                pedantic=request.pedantic,
            )
        except ApiError as error:
            return _refused(error)
        self.configs[config.durable_name or config.name or "generated"] = config
        return {"config": json.loads(codec.encode(show_consumer(config)))}


def test_stream_creation_agrees_with_the_reference(oracle: Wire) -> None:
    oracle.api("STREAM.CREATE.ORIGIN", ORIGIN)
    bodies = configs.stream_bodies()
    differences = []

    for body in bodies:
        streams = Streams()
        streams.create("ORIGIN", ORIGIN)
        ours, theirs = streams.create("S", body), _theirs(oracle, "STREAM.CREATE.S", body)
        if "config" in theirs:
            oracle.api("STREAM.DELETE.S")
        if _text(ours) != _text(theirs):
            differences.append((str(body)[:200], ours, theirs))

    oracle.api("STREAM.DELETE.ORIGIN")
    assert not differences, _report(differences, len(bodies))


def test_stream_names_agree_with_the_reference(oracle: Wire) -> None:
    names = ("a/b", "a\\b", configs.NAME_255, configs.NAME_256, "é", "x\x00y", "a,b", "-", "$G")
    differences = []

    for name in names:
        ours = Streams().create(name, {"name": name})
        theirs = _theirs(oracle, f"STREAM.CREATE.{name}", {"name": name})
        if "config" in theirs:
            oracle.api(f"STREAM.DELETE.{name}")
        if _text(ours) != _text(theirs):
            differences.append((name, ours, theirs))

    assert not differences, _report(differences, len(names))


@pytest.mark.parametrize("again", ["CREATE", "UPDATE"])
def test_a_second_stream_request_agrees_with_the_reference(oracle: Wire, again: str) -> None:
    oracle.api("STREAM.CREATE.ORIGIN", ORIGIN)
    pairs = (*configs.STREAM_RECREATIONS, *configs.STREAM_UPDATES)
    differences = []

    for first, second in pairs:
        created, changed = {"name": "S", **first}, {"name": "S", **second}
        streams = Streams()
        streams.create("ORIGIN", ORIGIN)
        streams.create("S", created)
        oracle.api("STREAM.CREATE.S", created)
        ours = (streams.create if again == "CREATE" else streams.update)("S", changed)
        theirs = _theirs(oracle, f"STREAM.{again}.S", changed)
        oracle.api("STREAM.DELETE.S")
        if _text(ours) != _text(theirs):
            differences.append((f"{first} then {second}", ours, theirs))

    oracle.api("STREAM.DELETE.ORIGIN")
    assert not differences, _report(differences, len(pairs))


def test_updating_a_missing_stream_agrees_with_the_reference(oracle: Wire) -> None:
    for body in ({"name": "S"}, {"name": "T"}, {"name": ""}, {"name": "S", "max_age": -1}):
        assert Streams().update("S", body) == _theirs(oracle, "STREAM.UPDATE.S", body)


@pytest.mark.parametrize("stream", configs.CONSUMER_STREAMS)
def test_consumer_creation_agrees_with_the_reference(oracle: Wire, stream: str) -> None:
    streams = _with_stream(oracle, stream)
    bodies = configs.consumer_configs()
    differences = []

    for config in bodies:
        body = _request(stream, config)
        for name in ("", "C"):
            consumers = Consumers(streams.configs[stream])
            subject = f"CONSUMER.CREATE.{stream}" + (f".{name}" if name else "")
            ours, theirs = consumers.create(name, body), _theirs(oracle, subject, body)
            if "config" in theirs:
                _delete_consumers(oracle, stream)
            if _text(ours) != _text(theirs):
                differences.append((f"{name} {config}"[:200], ours, theirs))

    oracle.api(f"STREAM.DELETE.{stream}")
    assert not differences, _report(differences, 2 * len(bodies))


@pytest.mark.parametrize("action", list(Action))
def test_a_second_consumer_request_agrees_with_the_reference(oracle: Wire, action: Action) -> None:
    streams = _with_stream(oracle, "LIMITS")
    differences = []

    for kind in ("durable_name", "name"):
        for first, second in configs.CONSUMER_UPDATES:
            consumers = Consumers(streams.configs["LIMITS"])
            created = _request("LIMITS", {kind: "C", **first})
            changed = {**_request("LIMITS", {kind: "C", **second}), "action": action.value}
            consumers.create("C", created)
            oracle.api("CONSUMER.CREATE.LIMITS.C", created)
            ours = consumers.create("C", changed)
            theirs = _theirs(oracle, "CONSUMER.CREATE.LIMITS.C", changed)
            _delete_consumers(oracle, "LIMITS")
            if _text(ours) != _text(theirs):
                differences.append((f"{kind} {first} then {second}", ours, theirs))

    oracle.api("STREAM.DELETE.LIMITS")
    assert not differences, _report(differences, 2 * len(configs.CONSUMER_UPDATES))


FORMS: tuple[tuple[str, str, str, bool, Verdict], ...] = (
    ("CREATE.LIMITS", "", "", False, {"durable_name": "C"}),
    ("CREATE.LIMITS", "", "", False, {"name": "C"}),
    ("CREATE.LIMITS", "", "", False, {"name": "a/b"}),
    ("CREATE.LIMITS.C", "C", "", False, {"durable_name": "D"}),
    ("CREATE.LIMITS.C", "C", "", False, {"name": "D"}),
    ("CREATE.LIMITS.a/b", "a/b", "", False, {}),
    ("CREATE.LIMITS.C.l.a", "C", "l.a", False, {}),
    ("CREATE.LIMITS.C.l.a", "C", "l.a", False, {"filter_subject": "l.a"}),
    ("CREATE.LIMITS.C.l.a", "C", "l.a", False, {"filter_subjects": ["l.a"]}),
    ("CREATE.LIMITS.C.l.>", "C", "l.>", False, {"filter_subject": "l.>"}),
    ("DURABLE.CREATE.LIMITS.C", "C", "", True, {}),
    ("DURABLE.CREATE.LIMITS.C", "C", "", True, {"durable_name": "C"}),
    ("DURABLE.CREATE.LIMITS.C", "C", "", True, {"durable_name": "D"}),
    ("DURABLE.CREATE.LIMITS.C", "C", "", True, {"durable_name": "C", "name": "D"}),
    ("CREATE.LIMITS.C", "C", "", False, {"num_replicas": 3}),
    ("CREATE.LIMITS.x\x00y", "x\x00y", "", False, {"durable_name": "x\x00y"}),
    ("CREATE.LIMITS.x\x00y", "x\x00y", "", False, {}),
    (f"CREATE.LIMITS.{'n' * 256}", "n" * 256, "", False, {"durable_name": "n" * 256}),
)


def test_forms_of_consumer_creation_agree_with_the_reference(oracle: Wire) -> None:
    streams = _with_stream(oracle, "LIMITS")
    differences = []

    for subject, name, tail, durable, config in FORMS:
        for stream in ("LIMITS", "OTHER"):
            body = {**_request(stream, config)}
            consumers = Consumers(streams.configs["LIMITS"])
            ours = consumers.create(name, body, tail=tail, durable=durable)
            theirs = _theirs(oracle, f"CONSUMER.{subject}", body)
            _delete_consumers(oracle, "LIMITS")
            if _text(ours) != _text(theirs):
                differences.append((f"{subject} {body}", ours, theirs))

    oracle.api("STREAM.DELETE.LIMITS")
    assert not differences, _report(differences, len(FORMS))


def test_consumers_of_a_work_queue_agree_with_the_reference(oracle: Wire) -> None:
    streams = _with_stream(oracle, "QUEUE")
    filters = ("", "q.a", "q.b", "q.*", "q.>", "q.a.b", "q.*.b")
    differences = []

    for first in filters:
        for second in filters:
            consumers = Consumers(streams.configs["QUEUE"])
            for name, subject in (("A", first), ("B", second), ("A", second)):
                config = {"ack_policy": "explicit", "filter_subject": subject}
                body = _request("QUEUE", config)
                ours = consumers.create(name, body)
                theirs = _theirs(oracle, f"CONSUMER.CREATE.QUEUE.{name}", body)
                if _text(ours) != _text(theirs):
                    differences.append((f"{first} {second} {name}", ours, theirs))
            _delete_consumers(oracle, "QUEUE")

    oracle.api("STREAM.DELETE.QUEUE")
    assert not differences, _report(differences, len(filters) ** 2)


def test_the_limit_of_consumers_agrees_with_the_reference(oracle: Wire) -> None:
    body = {"name": "FEW", "max_consumers": 2}
    streams = Streams()
    streams.create("FEW", body)
    oracle.api("STREAM.CREATE.FEW", body)
    consumers = Consumers(streams.configs["FEW"])

    for name in ("a", "b", "c", "a"):
        request = _request("FEW", {})
        ours = consumers.create(name, request)
        assert _text(ours) == _text(_theirs(oracle, f"CONSUMER.CREATE.FEW.{name}", request))

    oracle.api("STREAM.DELETE.FEW")


def _request(stream: str, config: Verdict) -> Verdict:
    members = {key: value for key, value in config.items() if key != "pedantic"}
    request: Verdict = {"stream_name": stream, "config": members}
    if "pedantic" in config:
        request["pedantic"] = config["pedantic"]
    return request


def _with_stream(oracle: Wire, name: str) -> Streams:
    body = {"name": name, **configs.CONSUMER_STREAMS[name]}
    streams = Streams()
    streams.create(name, body)
    assert "error" not in oracle.api(f"STREAM.CREATE.{name}", body)
    return streams


def _delete_consumers(oracle: Wire, stream: str) -> None:
    for name in oracle.api(f"CONSUMER.NAMES.{stream}")["consumers"]:
        oracle.api(f"CONSUMER.DELETE.{stream}.{name}")


def _report(differences: list[tuple[str, Verdict, Verdict]], total: int) -> str:
    lines = [f"{len(differences)} of {total} differ"]
    for request, ours, theirs in differences[:40]:
        lines += [
            request,
            f"  jetgate     {_text(ours)}"[:1500],
            f"  nats-server {_text(theirs)}"[:1500],
        ]
    return "\n".join(lines)
