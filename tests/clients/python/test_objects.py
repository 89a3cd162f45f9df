"""Object stores of the official client, every operation."""

# Subject: object store

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import (
    ObjectLink,
    ObjectMeta,
    ObjectMetaOptions,
    ObjectStoreConfig,
    Placement,
    StorageType,
)
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    DigestMismatchError,
    LinkIsABucketError,
    NotFoundError,
    ObjectAlreadyExists,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from nats.js.object_store import ObjectStore

from tests.clients.python.place import TIMEOUT, Place, on_both, stable

LARGE = bytes(range(256)) * 4 * 1024 + b"tail"  # 1 MiB and 4 bytes: nine chunks


async def _store(place: Place, **config: Any) -> tuple[JetStreamContext, ObjectStore]:
    js = await place.jetstream()
    return js, await js.create_object_store("o", **config)


def _known(info: Any) -> Any:
    shown = stable(info)
    for name in ("nuid", "mtime"):
        shown.pop(name, None)
    return shown


@on_both
async def test_a_store_of_every_option(place: Place) -> Any:
    js = await place.jetstream()
    config = ObjectStoreConfig(
        description="every option",
        ttl=3600,
        max_bytes=1 << 20,
        storage=StorageType.MEMORY,
        replicas=1,
        placement=Placement(tags=["a"]),
    )
    store = await js.create_object_store("full", config=config)
    status = await store.status()
    shown = (
        status.description,
        status.ttl,
        status.storage_type,
        status.replicas,
        status.sealed,
        status.size,
        status.bucket,
    )
    again = await js.object_store("full")
    await again.put("x", b"y")
    assert await js.delete_object_store("full")
    with pytest.raises(BucketNotFoundError):
        await js.object_store("full")
    return stable(shown), stable(status.stream_info)


@on_both
async def test_bytes_text_and_files_come_back_as_they_were(place: Place) -> Any:
    _, store = await _store(place)
    infos = [
        await store.put("bytes", b"some bytes"),
        await store.put("text", "some text"),
        await store.put("file", io.BytesIO(b"of a file")),
        await store.put("empty", b""),
        await store.put("näme with/odd chars.*>", b"?"),
    ]
    found = {}
    for info in infos:
        result = await store.get(info.name)
        found[info.name] = (
            result.data,
            _known(result.info),
            _known(await store.get_info(info.name)),
        )
        digest = base64.urlsafe_b64encode(hashlib.sha256(result.data or b"").digest()).decode()
        assert info.digest == f"SHA-256={digest}"
    for call in (store.get, store.get_info, store.delete):
        with pytest.raises(ObjectNotFoundError):
            await call("none")
    return found, stable((await store.status()).stream_info.state)


@on_both
async def test_a_large_object_is_cut_into_chunks(place: Place) -> Any:
    js, store = await _store(place)
    info = await store.put("large", LARGE)
    small = await store.put(
        "small chunks",
        LARGE[:10_000],
        meta=ObjectMeta(options=ObjectMetaOptions(max_chunk_size=1000)),
    )
    into = io.BytesIO()
    written = await store.get("large", writeinto=into)
    assert into.getvalue() == LARGE
    assert written.data == b""
    assert (await store.get("small chunks")).data == LARGE[:10_000]
    state = (await js.stream_info("OBJ_o", subjects_filter="$O.o.C.>")).state
    return _known(info), _known(small), sorted((state.subjects or {}).values())


def test_a_file_goes_to_a_file(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(LARGE)

    async def body(place: Place) -> Any:
        _, store = await _store(place)
        with source.open("rb") as reader:
            info = await store.put("file", reader)
        with target.open("wb") as writer:
            await store.get("file", writeinto=writer)
        assert target.read_bytes() == LARGE
        return _known(info)

    on_both(body)(request.getfixturevalue("nats_server"), request.getfixturevalue("jetgate_server"))


@on_both
async def test_an_object_is_replaced_whole(place: Place) -> Any:
    js, store = await _store(place)
    meta = ObjectMeta(description="first", headers={"A": ["1"]})
    first = await store.put("x", LARGE, meta=meta)
    second = await store.put("x", b"short")
    assert first.nuid != second.nuid
    assert (await store.get("x")).data == b"short"
    info = await js.stream_info("OBJ_o", subjects_filter=">")
    state = stable(info.state)
    assert sorted(state["subjects"]) == sorted(
        ["$O.o.M." + base64.urlsafe_b64encode(b"x").decode(), f"$O.o.C.{second.nuid}"]
    )
    del state["subjects"]
    return state, _known(first), _known(second)


@on_both
async def test_deleted_objects_leave_a_marker_and_no_chunks(place: Place) -> Any:
    js, store = await _store(place)
    await store.put("gone", LARGE)
    await store.put("kept", b"1")
    await store.delete("gone")
    with pytest.raises(ObjectNotFoundError):
        await store.get("gone")
    marker = await store.get_info("gone", show_deleted=True)
    empty = await store.get("gone", show_deleted=True)
    assert not empty.data
    listed = [_known(info) for info in await store.list()]
    living = [_known(info) for info in await store.list(ignore_deletes=True)]
    state = (await js.stream_info("OBJ_o")).state
    await store.put("gone", b"back")
    return _known(marker), listed, living, stable(state), (await store.get("gone")).data


@on_both
async def test_watching_a_store(place: Place) -> Any:
    _, store = await _store(place)
    empty = await store.watch()
    assert await empty.updates(timeout=TIMEOUT) is None
    await empty.stop()
    with pytest.raises(NotFoundError):
        await store.list()
    for name in ("a", "b"):
        await store.put(name, name.encode())
    await store.delete("b")
    seen: dict[str, list[Any]] = {}
    for label, options in (
        ("all", {}),
        ("living", {"ignore_deletes": True}),
        ("history", {"include_history": True, "meta_only": True}),
    ):
        watcher = await store.watch(**options)
        seen[label] = []
        async for update in watcher:
            if update is None:
                break
            seen[label].append(_known(update))
        await watcher.stop()
    fresh = await store.watch(updates_only=True)
    await store.put("c", b"c")
    seen["fresh"] = [_known(await fresh.updates(timeout=TIMEOUT))]
    await fresh.stop()
    return seen


@on_both
async def test_describing_and_renaming(place: Place) -> Any:
    _, store = await _store(place)
    await store.put("a", b"a")
    await store.put("b", b"b")
    await store.update_meta("a", ObjectMeta(name="a", description="told", headers={"X": ["y"]}))
    told = await store.get_info("a")
    assert told.meta.description == "told"
    with pytest.raises(ObjectDeletedError):
        await store.update_meta("none", ObjectMeta(name="none"))
    with pytest.raises(ObjectAlreadyExists):
        await store.update_meta("a", ObjectMeta(name="b"))
    return _known(told), (await store.get("a")).data


@on_both
async def test_links_lead_to_objects(place: Place) -> Any:
    _js, store = await _store(place)
    await store.put("real", b"the object")
    for name, link in (
        ("link", ObjectLink(bucket="o", name="real")),
        ("store", ObjectLink(bucket="o")),
    ):
        options = ObjectMetaOptions(link=link, max_chunk_size=1000)
        await store.put(name, b"", meta=ObjectMeta(options=options))
    info = await store.get_info("link")
    assert info.is_link()
    with pytest.raises(LinkIsABucketError):
        await store.get("store")
    return _known(info), (await store.get("link")).data


@on_both
async def test_a_sealed_store_is_read_only(place: Place) -> Any:
    _js, store = await _store(place)
    await store.put("x", b"before")
    await store.seal()
    status = await store.status()
    said = []
    for call in (store.put("y", b"after"), store.delete("x")):
        with pytest.raises(APIError) as refused:
            await call
        said.append(str(refused.value))
    return status.sealed, (await store.get("x")).data, said, stable(status.stream_info.config)


@on_both
async def test_damage_is_noticed(place: Place) -> Any:
    js, store = await _store(place)
    info = await store.put("x", LARGE)
    await js.publish(f"$O.o.C.{info.nuid}", b"too much")
    with pytest.raises(DigestMismatchError):
        await store.get("x")


@on_both
async def test_a_full_store_takes_back_what_it_began(place: Place) -> Any:
    js, store = await _store(place, max_bytes=500_000)
    with pytest.raises(APIError) as refused:
        await store.put("x", LARGE)
    await store.put("y", LARGE[:200_000])
    return str(refused.value), stable((await js.stream_info("OBJ_o")).state)


@on_both
async def test_many_objects(place: Place) -> Any:
    _, store = await _store(place)
    for i in range(60):
        await store.put(f"object {i}", b"%d" % i)
    for i in range(0, 60, 3):
        await store.delete(f"object {i}")
    return [_known(info) for info in await store.list(ignore_deletes=True)]
