"""Objects over the Python SDK: up and down in pieces, checked, resumed, described, watched."""

# Subject: SDKs

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import jetgate_client as sdk
import pytest
from jetgate_client.generated.api.objects import delete_object_store

from tests.sdks.lossy import LossyWay
from tests.sdks.test_python import QUICK
from tests.support.scenario import run_within

_BYTES = random.Random(7).randbytes(1_500_000)
_LARGE = _BYTES * 4
_BREAK = 2_000_000


def test_objects_go_up_and_come_down_in_any_form(url: str, name: str, tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(_BYTES), 70_000):
            yield _BYTES[at : at + 70_000]

    async def scenario() -> None:
        file = tmp_path / "object"
        file.write_bytes(_BYTES)
        async with sdk.connect(url, retry=QUICK) as js:
            store = await js.put_store(name, description="of a test")
            with file.open("rb") as opened:
                for content in (_BYTES, pieces(), opened):
                    info = await store.put("a/b", content, media_type="image/png")
                    assert info.size == len(_BYTES)
                    async with store.open("a/b") as download:
                        assert download.size == info.size
                        assert download.revision == info.revision
                        assert download.headers["content-type"] == "image/png"
                        assert b"".join([each async for each in download]) == _BYTES
            assert await store.get("a/b", begin=100_000, end=300_000) == _BYTES[100_000:300_000]
            assert await store.get("a/b", begin=1_499_990) == _BYTES[-10:]
            await store.put("text", "grüße")
            assert await store.get("text") == "grüße".encode()
            await store.put("nothing", b"")
            assert await store.get("nothing") == b""
            await delete_object_store.asyncio_detailed(name, client=js.api)

    run_within(60, scenario)


def test_metadata_of_objects_is_read_changed_and_listed(url: str, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(url, retry=QUICK) as js:
            store = await js.put_store(name)
            assert await store.info("a") is None
            with pytest.raises(sdk.NotFound):
                await store.get("a")
            first = await store.put("a", b"1", description="one", headers={"X-Owner": "me"})
            assert (first.description, first.headers["X-Owner"]) == ("one", ["me"])
            with pytest.raises(sdk.PreconditionFailed):
                await store.put("a", b"2", revision=0)
            second = await store.put("a", b"2", revision=first.revision)
            with pytest.raises(sdk.PreconditionFailed):
                await store.put("a", b"3", revision=first.revision)
            changed = await store.update("a", name="b", metadata={"keep": "a year"})
            assert (changed.name, changed.metadata) == ("b", {"keep": "a year"})
            assert changed.digest == second.digest
            await store.link("latest", "b")
            assert await store.get("latest") == b"2"
            assert [each.name for each in await store.list()] == ["b", "latest"]
            await store.delete("b")
            listed = await store.list(deleted=True)
            assert {each.name for each in listed if each.deleted} >= {"b"}
            await delete_object_store.asyncio_detailed(name, client=js.api)

    run_within(60, scenario)


def test_lost_answers_and_broken_downloads_are_made_good(
    way: LossyWay, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            store = await js.put_store(name)
            way.lose = 1
            assert (await store.put("a", _BYTES)).size == len(_BYTES)
            assert way.lost == 1
            await store.put("large", _LARGE)
            way.most = _BREAK
            before = way.passed
            assert await store.get("large") == _LARGE  # each connection gives a part
            assert way.passed >= before + 2
            async with store.open("large") as download:
                pieces = aiter(download)
                await anext(pieces)
                await store.put("large", _LARGE[::-1])
                with pytest.raises(sdk.Conflict):
                    [piece async for piece in pieces]
            await delete_object_store.asyncio_detailed(name, client=js.api)

    run_within(60, scenario)


def test_a_watch_of_objects_goes_on_where_it_broke(way: LossyWay, url: str, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            store = await js.put_store(name)
            await store.put("a", b"1")
            seen: list[str] = []
            async with asyncio.timeout(30):
                async for change in store.watch():
                    seen.append(f"{change.event} {change.info.name if change.info else ''}".strip())
                    if change.event == "ready":
                        way.break_connections()
                        await store.put("b", b"2")
                    elif seen[-1] == "put b":
                        way.break_connections()
                        await store.delete("a")
                    elif seen[-1] == "delete a":
                        break
            assert seen == ["put a", "ready", "put b", "delete a"]
            await delete_object_store.asyncio_detailed(name, client=js.api)

    run_within(60, scenario)
