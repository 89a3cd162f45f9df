"""Times to live with the official client: of messages, of keys, of the markers they leave."""

# Subject: expiry, key-value

from operator import itemgetter
from typing import Any

import pytest
from nats.js.api import KeyValueConfig
from nats.js.errors import APIError, KeyNotFoundError, NotFoundError

from tests.clients.python.place import TIMEOUT, Place, on_both, stable, until


@on_both
async def test_messages_with_a_time_to_live(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="T", subjects=["t.>"], allow_msg_ttl=True)
    acks = [
        await js.publish("t.short", b"1", msg_ttl=2),
        await js.publish("t.long", b"2", msg_ttl=3600),
        await (await js.publish_async("t.async", b"3", msg_ttl=2)),
    ]
    shown = await js.get_msg("T", 2)  # the others may be gone
    left = 3
    while left > 1:
        left = (await js.stream_info("T")).state.messages
    with pytest.raises(NotFoundError):
        await js.get_msg("T", 1)
    await js.add_stream(name="U", subjects=["u"])
    with pytest.raises(APIError) as refused:
        await js.publish("u", b"", msg_ttl=1)
    state = stable((await js.stream_info("T", subjects_filter=">")).state)
    return stable(acks), shown.header, str(refused.value), state


@on_both
async def test_keys_with_a_time_to_live(place: Place) -> Any:
    js = await place.jetstream()
    kv = await js.create_key_value(
        KeyValueConfig(bucket="b", history=3, limit_marker_ttl=1, direct=True)
    )
    status = await kv.status()
    watcher = await kv.watchall()
    assert await watcher.updates(TIMEOUT) is None
    seen: list[tuple[Any, ...]] = []

    async def see(count: int) -> None:
        for _ in range(count):
            update = await watcher.updates(timeout=TIMEOUT)
            seen.append((update.key, update.value, update.operation))

    await kv.put("purged", b"v")
    created = await kv.create("k", b"v", msg_ttl=1)
    await see(2)  # what is purged now would not be shown any more
    await kv.purge("purged", msg_ttl=1)
    await see(2)
    seen.sort(key=itemgetter(0))  # which key goes first is a matter of time
    await watcher.stop()
    again = await kv.put("k", b"again")
    left = 2
    while left > 1:
        left = len((await js.stream_info("KV_b", subjects_filter=">")).state.subjects or {})
    with pytest.raises(KeyNotFoundError):
        await kv.get("purged")
    return status.marker_ttl, stable(status.stream_info.config), created, seen, again


@on_both
async def test_a_bucket_forgets(place: Place) -> Any:
    js = await place.jetstream()
    kv = await js.create_key_value(bucket="b", ttl=0.5)
    await kv.put("k", b"v")
    gone: list[bool] = []

    async def look() -> None:
        try:
            await kv.get("k")
        except KeyNotFoundError:
            gone.append(True)

    while not gone:
        await look()
    await until(lambda: gone)
    status = await kv.status()
    return status.ttl, status.stream_info.config.duplicate_window, await kv.create("k", b"new")
