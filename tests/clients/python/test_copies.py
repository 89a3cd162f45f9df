"""Mirrors and sources as the official client makes and reads them."""

# Subject: mirrors and sources

from typing import Any

from nats.js import JetStreamContext
from nats.js.api import StreamSource, SubjectTransform

from tests.clients.python.place import TIMEOUT, Place, on_both, stable
from tests.support.eventually import observed


async def _holds(js: JetStreamContext, name: str, count: int) -> Any:
    async def state() -> Any:
        found = (await js.stream_info(name)).state
        return found if found.messages == count else None

    return stable(await observed(state, within=40))


@on_both
async def test_a_mirror_follows_its_origin(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="O", subjects=["o.>"])
    for i in range(20):
        await js.publish(f"o.{i % 2}", b"%d" % i)
    made = await js.add_stream(
        name="M", mirror=StreamSource(name="O", filter_subject="o.1"), allow_direct=True
    )
    state = await _holds(js, "M", 10)
    await js.publish("o.1", b"later")
    after = await _holds(js, "M", 11)
    info = await js.stream_info("M")
    last = await js.get_last_msg("M", "o.1", direct=True)
    assert info.mirror is not None
    return stable(made.config), state, after, (info.mirror.name, info.mirror.lag), last.data


@on_both
async def test_sources_are_gathered(place: Place) -> Any:
    js = await place.jetstream()
    for name in "AB":
        await js.add_stream(name=name, subjects=[f"{name}.>"])
        for i in range(5):
            await js.publish(f"{name}.x", b"%d" % i)
    transform = SubjectTransform(src="B.>", dest="from.b.>")
    made = await js.add_stream(
        name="S",
        subjects=["own"],
        sources=[
            StreamSource(name="A", opt_start_seq=3),
            StreamSource(name="B", subject_transforms=[transform]),
        ],
    )
    await _holds(js, "S", 8)
    await js.publish("own", b"mine")
    sub = await js.pull_subscribe(">", stream="S")
    found = sorted((msg.subject, msg.data) for msg in await sub.fetch(9, TIMEOUT))
    listed = (await js.stream_info("S", subjects_filter=">")).state.subjects
    assert made.sources is None or len(made.sources) == 2
    return stable(made.config), found, listed
