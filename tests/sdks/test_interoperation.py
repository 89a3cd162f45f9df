"""What anyone publishes or keeps is read, given back, acknowledged and changed by anyone else."""

# Subject: SDKs

import asyncio
from itertools import pairwise
from pathlib import Path

import jetgate_client

from tests.sdks.actors import everybody
from tests.support.jetgate import JetgateServer


def test_a_message_of_each_client_is_read_nacked_and_acked_by_every_client(
    jetgate_server: JetgateServer, typescript_sdk: Path, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with (
            everybody(jetgate_server.address, jetgate_server.http, typescript_sdk) as actors,
            jetgate_client.connect(url) as js,
        ):
            await js.put_stream(name, subjects=[f"{name}.>"])
            for number in range(len(actors)):
                await js.put_consumer(name, f"C{number}", ack_policy="explicit", max_ack_pending=1)
            for said, actor in actors.items():
                await actor.publish(f"{name}.x", f"grüße of {said}")
            for number, (reader, actor) in enumerate(actors.items()):
                for said in actors:
                    read = await actor.fetch(name, f"C{number}")
                    await actor.nak()
                    again = await actor.fetch(name, f"C{number}")
                    await actor.ack()
                    expected = f"grüße of {said}"
                    assert (read, again) == ((expected, 1), (expected, 2)), reader
                info = await js.put_consumer(
                    name, f"C{number}", ack_policy="explicit", max_ack_pending=1
                )
                assert (info.num_ack_pending, info.num_pending) == (0, 0), reader

    asyncio.run(scenario())


def test_a_key_of_each_client_is_read_changed_and_deleted_by_every_client(
    jetgate_server: JetgateServer, typescript_sdk: Path, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with (
            everybody(jetgate_server.address, jetgate_server.http, typescript_sdk) as actors,
            jetgate_client.connect(url) as js,
        ):
            await js.put_bucket(name, history=3)
            revisions = {
                said: await actor.put(name, f"by-{index}", f"value of {said}")
                for index, (said, actor) in enumerate(actors.items())
            }
            for actor in actors.values():
                found = [await actor.get(name, f"by-{index}") for index in range(len(actors))]
                assert found == [(f"value of {said}", at) for said, at in revisions.items()]
            around = [*actors.items(), next(iter(actors.items()))]
            for index, ((said, _), (changer, actor)) in enumerate(pairwise(around)):
                key = f"by-{index}"
                changed = await actor.update(name, key, f"changed by {changer}", revisions[said])
                for reader in actors.values():
                    assert await reader.get(name, key) == (f"changed by {changer}", changed)
                await actor.delete(name, key)
                assert [await reader.get(name, key) for reader in actors.values()] == [None] * len(
                    actors
                )

    asyncio.run(scenario())


def test_an_object_of_each_client_is_read_and_deleted_by_every_client(
    jetgate_server: JetgateServer, typescript_sdk: Path, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with (
            everybody(jetgate_server.address, jetgate_server.http, typescript_sdk) as actors,
            jetgate_client.connect(url) as js,
        ):
            await js.put_store(name)
            texts = {said: f"object of {said}, " * 10_000 for said in actors}
            for index, (said, actor) in enumerate(actors.items()):
                await actor.put_object(name, f"by-{index}", texts[said])
            for reader, actor in actors.items():
                found = [await actor.get_object(name, f"by-{i}") for i in range(len(actors))]
                assert found == list(texts.values()), reader
            around = [*actors.values(), next(iter(actors.values()))]
            for index, actor in enumerate(around[1:]):
                await actor.delete_object(name, f"by-{index}")
                found = [await reader.get_object(name, f"by-{index}") for reader in actors.values()]
                assert found == [None] * len(actors)

    asyncio.run(scenario())
