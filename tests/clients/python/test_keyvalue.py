"""Key-value buckets of the official client, every operation."""

# Subject: key-value

import asyncio
from functools import partial
from typing import Any

import pytest
from nats.errors import TimeoutError
from nats.js.api import KeyValueConfig, RePublish, StorageType
from nats.js.errors import (
    APIError,
    BadBucketError,
    BucketNotFoundError,
    InvalidKeyError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoKeysError,
)
from nats.js.kv import KeyValue

from tests.clients.python.place import TIMEOUT, Place, on_both, stable


async def _bucket(place: Place, **config: Any) -> KeyValue:
    js = await place.jetstream()
    return await js.create_key_value(KeyValueConfig(**{"bucket": "b"} | config))


def _entry(entry: KeyValue.Entry | None) -> tuple[Any, ...] | None:
    if entry is None:
        return None
    return entry.key, entry.value, entry.revision, entry.delta, entry.operation


@on_both
async def test_a_bucket_of_every_option(place: Place) -> Any:
    js = await place.jetstream()
    kv = await js.create_key_value(
        KeyValueConfig(
            bucket="full",
            description="every option",
            max_value_size=1000,
            history=7,
            ttl=60,
            max_bytes=1 << 20,
            storage=StorageType.MEMORY,
            replicas=1,
            republish=RePublish(src=">", dest="copy.>"),
            direct=True,
        )
    )
    status = await kv.status()
    again = await js.key_value("full")
    await again.put("k", b"v")
    shown = (status.values, status.history, status.ttl, status.marker_ttl, status.bucket)
    await js.add_stream(name="KV_odd", subjects=["$KV.odd.>"])
    assert await js.delete_key_value("full")
    with pytest.raises(BucketNotFoundError):
        await js.key_value("full")
    with pytest.raises(BadBucketError):
        await js.key_value("odd")
    return shown, stable(status.stream_info)


@pytest.mark.parametrize("direct", [False, True])
def test_putting_and_getting(direct: bool, request: pytest.FixtureRequest) -> None:
    async def body(place: Place) -> Any:
        kv = await _bucket(place, history=5, direct=direct)
        for i in range(3):
            await kv.put("a.b", b"%d" % i)
        await kv.put("odd~key", b"!", validate_keys=False)
        found = [await kv.get("a.b"), await kv.get("a.b", revision=2)]
        found.append(await kv.get("odd~key", validate_keys=False))
        for missing in ("none", "a"):
            with pytest.raises(KeyNotFoundError):
                await kv.get(missing)
        with pytest.raises(KeyNotFoundError):
            await kv.get("a.b", revision=4)
        for wrong in ("", ".a", "a.", "a b"):
            with pytest.raises(InvalidKeyError):
                await kv.put(wrong, b"")
            with pytest.raises(InvalidKeyError):
                await kv.get(wrong)
        empty = await kv.put("empty", b"")
        return [_entry(e) for e in found], empty, (await kv.get("empty")).value

    on_both(body)(request.getfixturevalue("nats_server"), request.getfixturevalue("jetgate_server"))


@on_both
async def test_creating_and_updating_by_revision(place: Place) -> Any:
    kv = await _bucket(place, history=3)
    first = await kv.create("k", b"1", validate_keys=True)
    with pytest.raises(KeyWrongLastSequenceError) as twice:
        await kv.create("k", b"again")
    second = await kv.update("k", b"2", last=first, validate_keys=True)
    with pytest.raises(KeyWrongLastSequenceError) as stale:
        await kv.update("k", b"3", last=first)
    with pytest.raises(KeyWrongLastSequenceError):
        await kv.update("k", b"3")
    fresh = await kv.update("new", b"", last=0)
    assert await kv.delete("k", last=second)
    anew = await kv.create("k", b"after delete")
    with pytest.raises(APIError):
        await kv.delete("k", last=first)
    assert await kv.purge("k")
    last = await kv.create("k", b"after purge")
    told = [str(twice.value), str(stale.value)]
    return [first, second, fresh, anew, last], told, _entry(await kv.get("k"))


@on_both
async def test_deleted_and_purged_keys(place: Place) -> Any:
    kv = await _bucket(place, history=5)
    for key in ("a", "b", "c"):
        for i in range(3):
            await kv.put(key, b"%d" % i)
    assert await kv.delete("a", validate_keys=True)
    assert await kv.purge("b")
    for gone in ("a", "b"):
        with pytest.raises(KeyNotFoundError) as error:
            await kv.get(gone)
    histories = {
        k: [(e.key, e.value, e.revision) for e in await kv.history(k)] for k in ("a", "b", "c")
    }
    keys = await kv.keys()
    assert await kv.purge_deletes(olderthan=3600)
    kept = (await kv.status()).values
    assert await kv.purge_deletes(olderthan=0)
    left = (await kv.status()).values
    with pytest.raises(NoKeysError):
        await kv.history("a")
    return histories, keys, kept, left, str(error.value)


@on_both
async def test_many_keys_are_purged_at_once(place: Place) -> Any:
    kv = await _bucket(place, history=5)
    for key in ("x.1", "x.2", "y.1", "x.1", "x.1.a"):
        await kv.put(key, b"")
    assert await kv.purge("x.*")
    for gone in ("x.1", "x.2"):
        with pytest.raises(KeyNotFoundError):
            await kv.get(gone)
    again = await kv.create("x.1", b"again")
    assert await kv.purge(">")
    status = await kv.status()
    return again, status.values, [_entry(entry) for entry in await kv.history(">")]


@on_both
async def test_keys_and_filters(place: Place) -> Any:
    kv = await _bucket(place)
    with pytest.raises(NoKeysError):
        await kv.keys()
    for key in ("x.1", "x.2", "y.1"):
        await kv.put(key, b"")
    await kv.delete("x.2")
    return await kv.keys(), await kv.keys(filters=["x."]), await kv.keys(filters=["1"])


@on_both
async def test_watching(place: Place) -> Any:
    kv = await _bucket(place, history=5)
    for key, value in (("a", b"1"), ("b.x", b"1"), ("a", b"2"), ("b.y", b"1")):
        await kv.put(key, value)
    await kv.delete("b.y")
    seen: dict[str, list[Any]] = {}
    for name, keys, more in (
        ("one", "a", {}),
        ("pattern", "b.*", {}),
        ("all", ">", {}),
        ("history", "a", {"include_history": True}),
        ("deletes", "b.>", {"ignore_deletes": True}),
        ("meta", ">", {"meta_only": True, "inactive_threshold": 60}),
        ("headers", ">", {"headers_only": True}),
        ("none", "z", {}),
    ):
        watcher = await kv.watch(keys, **more)
        seen[name] = []
        while (update := await watcher.updates(timeout=TIMEOUT)) is not None:
            seen[name].append(_entry(update))
        await watcher.stop()
    return seen


@on_both
async def test_a_watcher_goes_on(place: Place) -> Any:
    kv = await _bucket(place)
    watcher = await kv.watchall()
    assert await watcher.updates(timeout=TIMEOUT) is None
    seen = []
    # One by one: each takes the place of the one before, which nobody is shown from then on.
    writes: list[Any] = [partial(kv.put, value=b"%d" % i) for i in range(5)]
    for write in (*writes, kv.delete, kv.purge):
        await write("k")
        seen.append(_entry(await watcher.updates(TIMEOUT)))
    with pytest.raises(TimeoutError):
        await watcher.updates(timeout=0.05)
    await kv.put("last", b"")

    async def loop() -> list[Any]:
        return [_entry(update) async for update in watcher]

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    await watcher.stop()
    return seen, len(await asyncio.wait_for(task, TIMEOUT)) <= 1


@on_both
async def test_full_buckets_refuse(place: Place) -> Any:
    kv = await _bucket(place, max_bytes=500, max_value_size=100)
    said = []
    for key, size in (("big", 150), ("a", 90), ("b", 90), ("c", 90), ("d", 90), ("a", 80)):
        try:
            said.append(str(await kv.put(key, bytes(size))))
        except APIError as error:
            said.append(str(error))
    return said
