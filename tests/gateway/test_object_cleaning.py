"""What an upload leaves that ends with its process: told from one that goes on, and removed."""

# Subject: object store, HTTP

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from core.units import Seconds
from tests.gateway.conftest import Store
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

BODY = random.Random(8).randbytes(400_000)
EAGER = replace(SETTINGS, object_clean_age_min=Seconds(0.0))
NUID = "AbandonedUpload0000000"


@pytest.fixture(params=["nats-server", "jetgate"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store behind a façade that cleans up what is of any age."""
    name = "nats_server" if request.param == "nats-server" else "jetgate_server"
    address = request.getfixturevalue(name).address
    with GatewayServer(address, EAGER) as server:
        web = Web(server.http)
        store = Store(web, address, "cleaned", "/v1/objects/cleaned")
        assert web.json("PUT", store.path, {}).status == 201
        yield store
        web.delete(store.path)
    assert server.failures == []


def _clean(store: Store, older_than: str = "0s") -> Answer:
    return store.web.json("POST", store.path + ":clean", {"older_than": older_than})


def _stored(store: Store) -> int:
    return int(store.web.get(store.info).json()["state"]["messages"])


def _abandon(store: Store, nuid: str = NUID, chunks: int = 3) -> None:
    """Do what a client does that ends in the middle of an upload."""
    for _ in range(chunks):
        assert store.web.publish(f"$O.{store.name}.C.{nuid}", b"x" * 1024).status == 201


def _begin(store: Store, name: str) -> socket.socket:
    """Send half of a body; return when some of it is stored."""
    before = _stored(store)
    head = (
        f"PUT {store.at(name)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    caller = socket.create_connection(store.web.address, timeout=30)
    caller.sendall(head.encode() + BODY[:300_000])
    assert eventually(lambda: _stored(store) == before + 2)
    return caller


def test_chunks_without_an_object_are_removed_and_all_others_stay(store: Store) -> None:
    store.put("kept", BODY)
    store.put("renamed", BODY[::-1])
    store.web.json("PATCH", store.at("renamed"), {"name": "now"})
    store.put("replaced", b"old")
    store.put("replaced", b"new")
    store.web.json("POST", store.at("link", ":link"), {"bucket": store.name, "name": "kept"})
    store.put("gone", b"x")
    store.web.delete(store.at("gone"))
    before = _stored(store)
    _abandon(store)
    _abandon(store, "AbandonedUpload0000001", 1)

    cleaned = [_clean(store).json() for _ in range(2)]

    assert cleaned == [{"purged": 4}, {"purged": 0}]
    assert _stored(store) == before
    bodies = [store.get(name).body for name in ("kept", "now", "replaced", "link")]
    assert bodies == [BODY, BODY[::-1], b"new", BODY]


def test_a_recent_upload_may_go_on(store: Store) -> None:
    _abandon(store)
    store.put("o", b"before")
    before = _stored(store)
    with _begin(store, "o") as caller:
        cleaned = [_clean(store, age).json() for age in ("24h", "1m")]
        caller.sendall(BODY[300_000:])
        answer = caller.recv(4096)

    assert cleaned == [{"purged": 0}] * 2
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert store.get("o").body == BODY
    assert _stored(store) == before + 3  # four chunks and information in place of one and one
    assert store.web.send("POST", store.path + ":clean").json() == {"purged": 0}  # a day


def test_an_upload_that_is_too_slow_ends(store: Store) -> None:
    """So that whatever goes on stays young."""
    with (
        GatewayServer(store.nats, replace(EAGER, object_chunk_max=Seconds(0.3))) as hasty,
        _begin(replace(store, web=Web(hasty.http)), "o") as caller,
    ):
        caller.settimeout(0.02)
        answer = b""
        while not answer.endswith(b"}\n"):
            with suppress(TimeoutError):
                answer += caller.recv(4096)
            if not answer:
                caller.sendall(b"x")

    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert b"slow-body" in answer
    assert eventually(lambda: _stored(store) == 0)
    assert hasty.failures == []


def test_an_age_that_uploads_may_have_is_refused(objects: Store) -> None:
    _abandon(objects)
    for age in ("0s", "599s", -1, "soon"):
        answer = objects.web.json("POST", objects.path + ":clean", {"older_than": age})
        assert (answer.status, answer.kind) == (400, "bad-duration"), age
    assert _clean(objects, "10m").json() == {"purged": 0}
    assert objects.web.json("POST", "/v1/objects/none:clean", {}).kind == "bucket-not-found"
    objects.web.publish(f"$O.{objects.name}.M.eA==", b"no information")
    assert _clean(objects, "10m").kind == "bad-object-info"


def test_the_upload_of_a_killed_server_is_removed() -> None:
    with JetgateServer() as server:
        name = "killed"
        store = Store(Web(server.http), server.address, name, f"/v1/objects/{name}")
        assert store.web.json("PUT", store.path, {}).status == 201
        store.put("o", b"before")
        with _begin(store, "o"):
            server.kill()
        server.start()
        with GatewayServer(server.address, EAGER) as eager:
            again = replace(store, web=Web(eager.http))
            left = _stored(again)
            cleaned = _clean(again)

            assert (left, cleaned.json()) == (4, {"purged": 2})
            assert again.get("o").body == b"before"
        assert eager.failures == []
