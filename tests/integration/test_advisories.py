"""Events about the API, streams and consumers: the same on both servers, member by member."""

# Subject: advisories

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Frame, Silence, Wire

API = "$JS.EVENT.ADVISORY.API"
STREAM = "io.nats.jetstream.advisory.v1.stream_action"
CONSUMER = "io.nats.jetstream.advisory.v1.consumer_action"


class Bench:
    """A client that asks and a client that listens."""

    def __init__(self, asking: Wire, listening: Wire, *, is_reference: bool) -> None:
        self.asking = asking
        self.listening = listening
        self.is_reference = is_reference
        asking.hello()
        for name in asking.api("STREAM.NAMES")["streams"] or ():
            asking.api(f"STREAM.DELETE.{name}")
        listening.hello()
        listening.send(b"SUB $JS.EVENT.> 1\r\n")
        listening.flush()
        # Events of the requests above may still be on their way; audits keep their order.
        self.events("STREAM.INFO.UNHEARD")

    def events(
        self, subject: str, body: Any = None, expected: Iterable[str] = ()
    ) -> dict[str, dict[str, Any]]:
        """Ask, and return the events that come of it by subject, at least what is expected."""
        self.asking.api(subject, body)
        return self.heard(subject, expected)

    def heard(self, subject: str, expected: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
        # Event and audit come from different threads of the reference, in either order.
        missing = {f"$JS.API.{subject}", *expected}
        frames: list[Frame] = []
        while missing:
            frames.append(self.listening.frame(10.0))
            missing -= {frames[-1].subject.decode(), frames[-1].json().get("subject")}
        frames += self.listening.flush()
        found = {}
        for frame in frames:
            event = json.loads(frame.payload)
            assert len(event.pop("id")) == 22
            assert event.pop("timestamp").endswith("Z")
            if event.get("stream", "EV") == "EV":  # others were deleted before
                found[frame.subject.decode()] = event
        return found

    def losing_with_a_stream(self) -> AbstractContextManager[None]:
        """What deleting a stream tells: of a hundred times the reference forgets it once or twice,
        because it ends what sends for the stream at the same time.
        """
        return suppress(Silence) if self.is_reference else nullcontext()


@pytest.fixture
def bench(server: JetgateServer | NatsServer) -> Iterator[Bench]:
    with Wire(server.address) as asking, Wire(server.address) as listening:
        yield Bench(asking, listening, is_reference=isinstance(server, NatsServer))


def _actions(events: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {subject: event for subject, event in events.items() if subject != API}


def _stream(kind: str, action: str) -> dict[str, dict[str, Any]]:
    event = {"type": STREAM, "stream": "EV", "action": action}
    return {f"$JS.EVENT.ADVISORY.STREAM.{kind}.EV": event}


def _consumer(kind: str, action: str) -> dict[str, dict[str, Any]]:
    event = {"type": CONSUMER, "stream": "EV", "consumer": "C", "action": action}
    return {f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.EV.C": event}


def test_streams_and_consumers_that_come_change_and_go(bench: Bench) -> None:
    config = {"name": "EV", "subjects": ["ev.>"]}
    consumer: dict[str, Any] = {
        "stream_name": "EV",
        "config": {"durable_name": "C", "ack_policy": "explicit"},
    }

    def ask(
        subject: str, body: Any = None, expected: dict[str, Any] | None = None, why: str = ""
    ) -> None:
        wanted = expected or {}
        assert _actions(bench.events(subject, body, wanted)) == wanted, why

    ask("STREAM.CREATE.EV", config, _stream("CREATED", "create"))
    ask("STREAM.CREATE.EV", config, {}, "it was there")
    ask("STREAM.CREATE.EV", config | {"subjects": ["x"]}, {}, "refused")
    ask("STREAM.UPDATE.EV", config, _stream("UPDATED", "modify"))
    ask("STREAM.PURGE.EV", None, {})
    ask("CONSUMER.CREATE.EV.C", consumer, _consumer("CREATED", "create"))
    ask("CONSUMER.CREATE.EV.C", consumer, {}, "it was there")
    consumer["config"] |= {"description": "other"}
    ask("CONSUMER.CREATE.EV.C", consumer, {}, "updates are not told")
    ask("CONSUMER.DELETE.EV.C", None, _consumer("DELETED", "delete"))
    ask("CONSUMER.DELETE.EV.C", None, {}, "it was not there")
    ask("CONSUMER.CREATE.EV.C", consumer, _consumer("CREATED", "create"))
    gone = _consumer("DELETED", "delete") | _stream("DELETED", "delete")
    with bench.losing_with_a_stream():
        ask("STREAM.DELETE.EV", None, gone)


def test_every_answered_request_is_audited(bench: Bench) -> None:
    requests = ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.NONE", "CONSUMER.NAMES.NONE")
    for subject in requests:
        audit = bench.events(subject)[API]
        assert audit["subject"] == f"$JS.API.{subject}"
        assert "request" not in audit
    for subject in ("STREAM.MSG.GET.NONE", "STREAM.LEADER.STEPDOWN.NONE", "STREAM.DELETE.NONE"):
        audit = bench.events(subject, {"seq": 1})[API]
        assert json.loads(audit["request"]) == {"seq": 1}
        assert "error" in json.loads(audit["response"])


def test_the_members_of_an_audit(bench: Bench, server: JetgateServer | NatsServer) -> None:
    audit = bench.events("STREAM.NAMES", {"subject": "a.>", "offset": 1})[API]
    assert list(audit) == ["type", "server", "client", "subject", "request", "response"]
    assert audit["type"] == "io.nats.jetstream.advisory.v1.api_audit"
    assert audit["response"].startswith('{"type":"io.nats.jetstream.api.v1.stream_names_response"')
    client = audit["client"]
    assert client["server"] == audit["server"]
    assert (client["acc"], client["kind"], client["client_type"]) == ("$G", "Client", "nats")
    assert client["host"] == "127.0.0.1"
    assert client["id"] > 0
    names = [name for name in client if name not in ("name", "lang", "ver", "rtt")]
    assert names == ["start", "host", "id", "acc", "server", "kind", "client_type"]


def test_a_request_without_reply_is_audited_too(bench: Bench) -> None:
    bench.asking.publish("$JS.API.STREAM.NAMES", b"")
    assert bench.heard("STREAM.NAMES")[API]["subject"] == "$JS.API.STREAM.NAMES"


def test_a_stream_may_capture_events(bench: Bench) -> None:
    bench.asking.api("STREAM.CREATE.LOG", {"name": "LOG", "subjects": ["$JS.EVENT.ADVISORY.>"]})
    bench.asking.api("STREAM.CREATE.EV", {"name": "EV", "subjects": ["ev.>"]})
    bench.asking.api("STREAM.UPDATE.EV", {"name": "EV", "subjects": ["ev.>", "more"]})
    created = "$JS.EVENT.ADVISORY.STREAM.CREATED.EV"
    updated = "$JS.EVENT.ADVISORY.STREAM.UPDATED.EV"

    def is_stored() -> bool:
        state = bench.asking.api("STREAM.INFO.LOG", {"subjects_filter": ">"})["state"]
        counts = state.get("subjects", {})
        both = counts.get(created) == counts.get(updated) == 1
        return both and bool(counts.get(API, 0) > 1)

    eventually(is_stored, within=30)
    bench.asking.api("STREAM.DELETE.EV")
    bench.asking.api("STREAM.DELETE.LOG")
