"""Buckets themselves: their configurations are those that official clients make."""

# Subject: key-value, object store, HTTP

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig, RePublish, StorageType

from tests.gateway.conftest import Store
from tests.gateway.web import Web
from tests.support.eventually import eventually

Served = tuple[Web, tuple[str, int]]


def _with_nats(served: Served, body: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        client = await nats.connect("nats://{}:{}".format(*served[1]))
        try:
            return await body(client.jetstream(timeout=20))
        finally:
            await client.close()

    return asyncio.run(run())


def _stream(web: Web, name: str) -> dict[str, Any]:
    config: dict[str, Any] = web.get(f"/v1/streams/{name}").json()["config"]
    config.pop("metadata", None)
    return {key: value for key, value in config.items() if value not in ("", None)}


def test_a_key_value_bucket_is_the_one_of_official_clients(served: Served) -> None:
    web, _ = served
    body = {
        "description": "every option",
        "max_value_size": 1000,
        "history": 7,
        "ttl": "60s",
        "max_bytes": 1 << 20,
        "storage": "memory",
        "republish": {"src": ">", "dest": "copy.>"},
        "limit_marker_ttl": "2s",
    }
    made = web.json("PUT", "/v1/kv/full", body)
    ours = _stream(web, "KV_full")
    web.delete("/v1/kv/full")

    async def create(js: JetStreamContext) -> None:
        await js.create_key_value(
            KeyValueConfig(
                bucket="full",
                description="every option",
                max_value_size=1000,
                history=7,
                ttl=60,
                max_bytes=1 << 20,
                storage=StorageType.MEMORY,
                republish=RePublish(src=">", dest="copy.>"),
                direct=True,
                limit_marker_ttl=2,
            )
        )

    _with_nats(served, create)
    theirs = _stream(web, "KV_full")
    shown = web.get("/v1/kv/full").json()
    web.delete("/v1/kv/full")

    assert ours == theirs
    assert (made.status, made.headers["location"]) == (201, "/v1/kv/full")
    assert shown["config"] == made.json()["config"]
    assert (shown["config"]["ttl"], shown["config"]["limit_marker_ttl"]) == (60 * 10**9, 2 * 10**9)


def test_an_object_store_is_the_one_of_official_clients(served: Served) -> None:
    web, _ = served
    body = {"description": "d", "ttl": "1m", "max_bytes": 1 << 20, "storage": "memory"}
    assert web.json("PUT", "/v1/objects/full", body).status == 201
    ours = _stream(web, "OBJ_full")
    web.delete("/v1/objects/full")

    async def create(js: JetStreamContext) -> None:
        await js.create_object_store(
            "full",
            ObjectStoreConfig(
                description="d", ttl=60, max_bytes=1 << 20, storage=StorageType.MEMORY
            ),
        )

    _with_nats(served, create)
    theirs = _stream(web, "OBJ_full")
    web.delete("/v1/objects/full")

    # The Python client is the one official one that leaves Direct Get out and the window as it is.
    for config in (ours, theirs):
        config.pop("allow_direct")
        config.pop("duplicate_window")
    assert ours == theirs


def test_a_bucket_is_changed_with_conditions(bucket: Store) -> None:
    web = bucket.web
    bucket.revision("k")
    read = web.get(bucket.path)
    assert web.get(bucket.path, If_None_Match=read.headers["etag"]).status == 304
    patched = web.json("PATCH", bucket.path, {"history": 9, "description": "new"})
    assert (patched.status, patched.json()["config"]["history"]) == (200, 9)
    assert patched.json()["values"] == 1
    late = web.json("PATCH", bucket.path, {"history": 1}, If_Match=read.headers["etag"])
    assert (late.status, late.kind) == (412, "precondition-failed")
    assert web.json("PUT", bucket.path, {}, If_None_Match="*").status == 412
    same = web.json("PUT", bucket.path, {"history": 9, "limit_marker_ttl": "1s"})
    assert (same.status, same.json()["config"]["description"]) == (200, "")
    assert web.send("DELETE", bucket.path, None, {"If-Match": '"x"'}).status == 412
    assert web.delete(bucket.path).status == 204
    assert web.delete(bucket.path).kind == "bucket-not-found"
    assert web.json("PATCH", bucket.path, {}).kind == "bucket-not-found"


def test_settings_that_a_bucket_does_not_name_stay(bucket: Store) -> None:
    bucket.web.json("PATCH", bucket.info, {"metadata": {"team": "a"}, "max_consumers": -1})
    bucket.web.json("PATCH", bucket.info, {"allow_direct": True, "deny_purge": False})
    bucket.web.json("PATCH", bucket.path, {"history": 2})
    shown = bucket.web.get(bucket.path).json()["config"]
    assert (shown["metadata"], shown["history"]) == ({"team": "a"}, 2)


def test_buckets_are_listed(bucket: Store, objects: Store) -> None:
    web = bucket.web
    web.json("PUT", "/v1/streams/PLAIN", {"subjects": ["plain.>"]})
    for store, route in ((bucket, "kv"), (objects, "objects")):
        page = web.get(f"/v1/{route}").json()
        assert store.name in [shown["bucket"] for shown in page["buckets"]]
        assert all(shown["bucket"] != "PLAIN" for shown in page["buckets"])
        assert web.get(f"/v1/{route}?offset=1000").json()["buckets"] == []
    web.delete("/v1/streams/PLAIN")


@pytest.mark.parametrize(
    ("route", "body", "kind"),
    [
        ("kv", {"history": 0}, "bad-json"),
        ("kv", {"history": 65}, "bad-json"),
        ("kv", {"ttl": "soon"}, "bad-duration"),
        ("kv", {"limit_marker_ttl": "1ms"}, "bad-duration"),
        ("kv", {"storage": "tape"}, "bad-json"),
        ("kv", {"max_bytes": -2}, "bad-json"),
        ("kv", {"max_value_size": "big"}, "bad-json"),
        ("kv", {"num_replicas": 6}, "bad-json"),
        ("kv", {"retention": "interest"}, "bad-json"),
        ("kv", {"bucket": "other"}, "bad-name"),
        ("kv", {"mirror": {"name": "a"}, "sources": [{"name": "b"}]}, "bad-json"),
        ("kv", {"mirror": {"name": "a.b"}}, "bad-name"),
        ("kv", {"mirror": {"name": "a", "opt_start_time": "noon"}}, "bad-json"),
        ("kv", {"mirror": {"name": "a", "domain": "d", "external": {"api": "x"}}}, "bad-json"),
        ("kv", {"metadata": {"a": 1}}, "bad-json"),
        ("objects", {"history": 2}, "bad-json"),
        ("objects", {"compression": "s2"}, "bad-json"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    served: Served, route: str, body: dict[str, Any], kind: str
) -> None:
    web, _ = served
    answer = web.json("PUT", f"/v1/{route}/bad", body)
    assert (answer.status, answer.kind) == (400, kind)
    assert web.json("PUT", f"/v1/{route}/a.b", {}).kind == "bad-name"
    assert web.json("POST", f"/v1/{route}", {}).kind == "bad-name"
    assert web.get(f"/v1/{route}/bad").kind == "bucket-not-found"


def test_a_bucket_of_another_configuration_is_in_the_way(bucket: Store) -> None:
    body = {"bucket": bucket.name, "history": 5, "limit_marker_ttl": "1s"}
    assert bucket.web.json("POST", "/v1/kv", body).status == 201
    answer = bucket.web.json("POST", "/v1/kv", body | {"history": 6})
    assert (answer.status, answer.json()["err_code"]) == (409, 10058)


def test_a_mirror_is_read_and_its_original_written(bucket: Store) -> None:
    web = bucket.web
    bucket.revision("a", b"1")
    name = f"{bucket.name}-mirror"
    made = web.json("PUT", f"/v1/kv/{name}", {"mirror": {"name": bucket.name}})
    assert made.status == 201, made
    mirror = Store(web, bucket.nats, name, f"/v1/kv/{name}")

    def copied(key: str, body: bytes) -> bool:
        return mirror.get(key).body == body

    assert eventually(lambda: copied("a", b"1"))
    assert mirror.put("b", b"2").status == 200
    assert bucket.get("b").body == b"2"
    assert eventually(lambda: copied("b", b"2"))
    keys = web.get(f"/v1/kv/{name}:keys").json()["keys"]
    assert [key["key"] for key in keys] == ["a", "b"]
    assert mirror.get("c").kind == "key-not-found"
    assert web.get(f"/v1/kv/{name}").json()["config"]["mirror"]["name"] == f"KV_{bucket.name}"
    web.delete(f"/v1/kv/{name}")


def test_sources_keep_the_names_of_keys(bucket: Store) -> None:
    web = bucket.web
    bucket.revision("a.1", b"1")
    bucket.revision("b.1", b"2")
    name = f"{bucket.name}-all"
    origin = {"name": bucket.name, "filter_subject": f"$KV.{bucket.name}.a.*"}
    assert web.json("PUT", f"/v1/kv/{name}", {"sources": [origin]}).status == 201
    copy = Store(web, bucket.nats, name, f"/v1/kv/{name}")
    assert eventually(lambda: copy.get("a.1").body == b"1")
    assert copy.revision("own", b"3")
    keys = web.get(f"/v1/kv/{name}:keys").json()["keys"]
    assert sorted(key["key"] for key in keys) == ["a.1", "own"]
    web.delete(f"/v1/kv/{name}")


def test_a_stream_that_no_bucket_can_be_called_as_is_not_listed_as_one(web: Web) -> None:
    """Any client may make one; it is among the streams."""
    for prefix, route, subject in (("KV_", "kv", "$KV.é.>"), ("OBJ_", "objects", "$O.é.C.>")):
        stream = f"/v1/streams/{quote(prefix + 'é')}"
        assert web.json("PUT", stream, {"subjects": [subject]}).status == 201
        try:
            listed = web.get(f"/v1/{route}").json()["buckets"]
            assert "é" not in [each["bucket"] for each in listed]
            for each in listed:
                assert web.get(f"/v1/{route}/{each['bucket']}").status == 200
        finally:
            assert web.delete(stream).status == 204
