"""Publishing into streams with the official client."""

# Subject: publish

import asyncio
import contextlib
from typing import Any

import pytest
from nats.js.api import DiscardPolicy, Header
from nats.js.errors import APIError, NoStreamResponseError, TooManyStalledMsgsError

from tests.clients.python.place import TIMEOUT, Place, on_both, stable, until


@on_both
async def test_an_acknowledgement_names_stream_and_sequence(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="P", subjects=["p.>"])
    acks = [await js.publish("p.a", b"%d" % i, timeout=TIMEOUT) for i in range(3)]
    acks.append(await js.publish("p.a", b"", stream="P"))
    with pytest.raises(NoStreamResponseError):
        await js.publish("nowhere", b"", timeout=TIMEOUT)
    return stable(acks)


@on_both
async def test_expectations_are_checked(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="P", subjects=["p.>"])
    await js.publish("p.a", b"", headers={Header.MSG_ID: "one"})
    await js.publish("p.b", b"", headers={Header.MSG_ID: "two"})
    answers = []
    expectations: tuple[dict[str, Any], ...] = (
        {Header.EXPECTED_LAST_SEQUENCE: "2"},
        {Header.EXPECTED_LAST_SEQUENCE: "2"},
        {Header.EXPECTED_LAST_SUBJECT_SEQUENCE: "3"},
        {Header.EXPECTED_LAST_SUBJECT_SEQUENCE: "1"},
        {Header.EXPECTED_LAST_MSG_ID: "two"},
        {Header.EXPECTED_STREAM: "P"},
        {Header.EXPECTED_STREAM: "Q"},
        {Header.MSG_ID: "two"},
        {Header.EXPECTED_LAST_MSG_ID: "two"},
    )
    for headers in expectations:
        try:
            answers.append(stable(await js.publish("p.a", b"", headers=headers)))
        except APIError as error:
            answers.append(str(error))
    return answers


@on_both
async def test_a_rolled_up_subject_keeps_its_last(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="P", subjects=["p.>"], allow_rollup_hdrs=True)
    for name in "ab" * 3:
        await js.publish(f"p.{name}", name.encode())
    await js.publish("p.a", b"all of a", headers={Header.ROLLUP: "sub"})
    partly = (await js.stream_info("P", subjects_filter=">")).state
    await js.publish("p.c", b"all", headers={Header.ROLLUP: "all"})
    return stable([partly, (await js.stream_info("P")).state])


@on_both
async def test_many_publishes_wait_for_their_acknowledgements_together(place: Place) -> Any:
    nc = await place.connect()
    js = nc.jetstream(publish_async_max_pending=50, timeout=TIMEOUT)
    await js.add_stream(name="P", subjects=["p.>"])
    futures = [
        await js.publish_async(
            "p.x", b"%d" % i, wait_stall=TIMEOUT, stream="P", headers={Header.MSG_ID: str(i)}
        )
        for i in range(300)
    ]
    assert js.publish_async_pending() <= 50
    await asyncio.wait_for(js.publish_async_completed(), TIMEOUT)
    again = await (await js.publish_async("p.x", b"", headers={Header.MSG_ID: "0"}))
    with pytest.raises(NoStreamResponseError):
        await (await js.publish_async("nowhere", b""))
    refused = await js.publish_async("p.x", b"", stream="Q")
    await until(lambda: place.errors)  # this client hands a refusal to its error callback
    refused.cancel()
    return [(await future).seq for future in futures], again.duplicate, again.seq, str(place.errors)


@on_both
async def test_a_publisher_ahead_of_its_acknowledgements_is_held(place: Place) -> Any:
    nc = await place.connect()
    await nc.subscribe("hole")
    js = nc.jetstream(publish_async_max_pending=2)
    waiting = [await js.publish_async("hole", b"") for _ in range(2)]
    with pytest.raises(TooManyStalledMsgsError):
        await js.publish_async("hole", b"", wait_stall=0.05)
    for future in waiting:
        future.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await future
    return js.publish_async_pending()


@on_both
async def test_limits_refuse_with_their_numbers(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(
        name="P", subjects=["p.>"], max_msgs=2, max_msg_size=10, discard=DiscardPolicy.NEW
    )
    said: list[Any] = []
    for body in (b"1", b"2", b"3", b"x" * 11):
        try:
            said.append((await js.publish("p.a", body)).seq)
        except APIError as error:
            said.append(str(error))
    return said
