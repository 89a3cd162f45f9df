"""What one client of a bucket stores, any other reads: HTTP, nats-py, the `nats` command."""

# Subject: key-value, object store, HTTP

import asyncio
import json
import random
import subprocess
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError, ObjectNotFoundError

from tests.gateway.conftest import Store
from tests.gateway.feeds import FeedReader
from tests.gateway.serving import GatewayServer
from tests.gateway.web import Web
from tests.support import programs
from tests.support.natsserver import NatsServer

BODY = random.Random(9).randbytes(700_001)


def _with_nats(store: Store, body: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        client = await nats.connect(store.url)
        try:
            return await body(client.jetstream(timeout=20))
        finally:
            await client.close()

    return asyncio.run(run())


def test_keys_go_both_ways(bucket: Store) -> None:
    async def body(js: JetStreamContext) -> None:
        kv = await js.key_value(bucket.name)
        assert bucket.revision("a", b"over http", Content_Type="text/plain") == 1
        entry = await kv.get("a")
        assert (entry.value, entry.revision) == (b"over http", 1)

        assert await kv.update("a", b"over nats", 1) == 2
        assert bucket.get("a").body == b"over nats"
        assert bucket.put("a", b"late", If_Match='"1"').json()["current_sequence"] == 2
        assert bucket.revision("a", b"3", If_Match='"2"') == 3
        with pytest.raises(KeyWrongLastSequenceError):
            await kv.update("a", b"late", 2)

        await kv.delete("a")
        assert bucket.get("a").json()["current_sequence"] == 4
        assert bucket.put("a", b"5", If_None_Match="*").status == 201
        bucket.web.delete(bucket.at("a"))
        with pytest.raises(KeyNotFoundError):
            await kv.get("a")
        assert await kv.create("a", b"7") == 7
        bucket.web.send("POST", bucket.at("a", ":purge"))
        history = await kv.history("a")
        assert [(entry.revision, entry.operation) for entry in history] == [(8, "PURGE")]
        await kv.put("b.c", b"x")
        await kv.purge("b.c")
        entries = bucket.web.get(bucket.at("b.c", ":history")).json()["entries"]
        assert [(entry["revision"], entry["operation"]) for entry in entries] == [(10, "PURGE")]
        await kv.put("d", b"y")
        assert [key["key"] for key in bucket.web.get(bucket.path + ":keys").json()["keys"]] == ["d"]
        assert await kv.keys() == ["d"]

    _with_nats(bucket, body)


def test_changes_are_seen_on_both_sides(bucket: Store) -> None:
    async def body(js: JetStreamContext) -> None:
        kv = await js.key_value(bucket.name)
        watcher = await kv.watchall()
        assert await watcher.updates(20) is None
        with FeedReader(bucket.web, bucket.path + ":watch") as feed:
            feed.until("ready")
            await kv.put("a", b"1")
            bucket.web.delete(bucket.at("a"))
            first = await asyncio.to_thread(feed.line)
            second = await asyncio.to_thread(feed.line)
        assert [(line["event"], line["revision"]) for line in (first, second)] == [
            ("put", 1),
            ("delete", 2),
        ]
        theirs = [await watcher.updates(20), await watcher.updates(20)]
        assert [(e.revision, e.operation) for e in theirs if e] == [(1, None), (2, "DEL")]
        await watcher.stop()

    _with_nats(bucket, body)


def test_objects_go_both_ways(objects: Store) -> None:
    async def body(js: JetStreamContext) -> None:
        store = await js.object_store(objects.name)
        objects.put("http", BODY, Js_Description="d", Nats_H_Owner="me")
        got = await store.get("http")
        assert (got.data, got.info.size, got.info.description) == (BODY, len(BODY), "d")
        assert got.info.headers == {"Owner": ["me"]}

        await store.put("nats", BODY)
        answer = objects.get("nats")
        assert (answer.status, answer.body) == (200, BODY)
        assert objects.get("nats", Range="bytes=131070-500000").body == BODY[131070:500001]
        # Each replaces and deletes what the other stored.
        await store.put("http", b"from nats")
        assert objects.get("http").body == b"from nats"
        objects.put("nats", b"from http")
        assert (await store.get("nats")).data == b"from http"
        await store.delete("nats")
        assert objects.get("nats").status == 404
        objects.web.delete(objects.at("http"))
        with pytest.raises(ObjectNotFoundError):
            await store.get_info("http")
        state = objects.web.get(objects.info).json()["state"]
        assert state["messages"] == 2  # what deletions leave

    _with_nats(objects, body)


def _command(store: Store, *words: str) -> str:
    command = programs.nats()
    if command is None:
        pytest.skip("the `nats` command is not there")
    done = subprocess.run(
        [command, "--server", store.url, "--no-context", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_keys_go_to_the_nats_command_and_back(bucket: Store) -> None:
    bucket.revision("a.b", b"over http")
    assert _command(bucket, "kv", "get", bucket.name, "a.b", "--raw") == "over http"
    _command(bucket, "kv", "update", bucket.name, "a.b", "over nats", "1")
    assert bucket.get("a.b").body == b"over nats"
    _command(bucket, "kv", "del", bucket.name, "a.b", "-f")
    assert bucket.get("a.b").json()["current_sequence"] == 3
    bucket.put("a.b", b"again", If_None_Match="*")
    assert "a.b" in _command(bucket, "kv", "ls", bucket.name)


def test_objects_go_to_the_nats_command_and_back(objects: Store, tmp_path: Path) -> None:
    objects.put("dir/http", BODY)
    _command(objects, "object", "get", objects.name, "dir/http", "-O", str(tmp_path / "out"), "-f")
    assert (tmp_path / "out").read_bytes() == BODY
    name = ["--name", "nats", "-f", "--no-progress"]
    _command(objects, "object", "put", objects.name, str(tmp_path / "out"), *name)
    assert objects.get("nats").body == BODY
    listed = objects.web.get(objects.path + ":list").json()["objects"]
    assert [shown["name"] for shown in listed] == ["dir/http", "nats"]


_MAY = {
    "publish": [
        "$KV.shared.mine.>",
        "$JS.API.DIRECT.GET.KV_shared.$KV.shared.mine.>",
        "$JS.API.STREAM.INFO.KV_shared",
        "$JS.API.CONSUMER.CREATE.KV_shared.*.$KV.shared.mine.>",
        "$JS.API.CONSUMER.MSG.NEXT.KV_shared.*",
        "$JS.API.CONSUMER.DELETE.KV_shared.*",
    ]
}
_CONFIG: dict[str, str | int | bool] = {
    "authorization": "{ users: ["
    "{user: admin, password: secret},"
    "{user: me, password: secret, permissions: " + json.dumps(_MAY) + "} ] }"
}


def test_a_user_has_the_keys_that_permissions_give() -> None:
    """The subjects that official clients use for a key are those that are used here."""
    with (
        NatsServer(_CONFIG) as nats_server,
        GatewayServer(nats_server.address, with_users=True) as server,
    ):
        web = Web(server.http)

        def as_user(name: str, method: str, path: str, body: bytes | None = None) -> int:
            key = b64encode(f"{name}:secret".encode()).decode()
            headers = {"Authorization": f"Basic {key}", "Content-Type": "application/json"}
            return web.send(method, path, body, headers).status

        assert as_user("admin", "PUT", "/v1/kv/shared", b"{}") == 201
        assert as_user("admin", "PUT", "/v1/kv/shared/theirs.k", b"1") == 200
        assert as_user("me", "PUT", "/v1/kv/shared/mine.k", b"2") == 200
        assert as_user("me", "GET", "/v1/kv/shared/mine.k") == 200
        assert as_user("me", "GET", "/v1/kv/shared:keys?keys=mine.%3E") == 200
        # What nats-server does not permit it does not answer, but says so.
        assert as_user("me", "PUT", "/v1/kv/shared/theirs.k", b"3") == 403
        assert as_user("me", "GET", "/v1/kv/shared/theirs.k") == 403
        assert as_user("me", "GET", "/v1/kv/shared:keys?keys=theirs.%3E") == 403
        assert as_user("me", "PUT", "/v1/kv/own", b"{}") == 403
        assert as_user("admin", "GET", "/v1/kv/shared/theirs.k") == 200
        assert server.failures == []
