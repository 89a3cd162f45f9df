"""Services of the official client (`nats.micro`): discovery, endpoints, groups, statistics."""

# Subject: services

import json
from typing import Any

import pytest
from nats import micro
from nats.aio.client import Client
from nats.micro.request import Request, ServiceError
from nats.micro.service import EndpointConfig, GroupConfig, ServiceConfig

from tests.clients.python.place import TIMEOUT, Place, on_both, through, until

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


async def _ask_all(nc: Client, subject: str, count: int) -> list[dict[str, Any]]:
    inbox = nc.new_inbox()
    answers = await nc.subscribe(inbox)
    await nc.publish(subject, b"", reply=inbox)
    await until(lambda: answers.pending_msgs >= count)
    there = answers.pending_msgs
    found = [json.loads((await answers.next_msg(TIMEOUT)).data) for _ in range(there)]
    await answers.unsubscribe()
    return found


@on_both
async def test_a_service_answers_and_fails(place: Place) -> Any:
    nc, client = await place.connect(), await place.connect()

    async def double(request: Request) -> None:
        if request.data == b"error":
            await request.respond_error("400", "told so", data=b"why", headers={"A": "b"})
        elif request.data == b"raise":
            raise ServiceError("418", "teapot")
        elif request.data == b"crash":
            raise ValueError("bug")
        else:
            assert request.subject == "double"
            await request.respond(b"%d" % (2 * int(request.data)), headers=request.headers)

    config = ServiceConfig(
        name="math", version="1.2.3", description="doubles", metadata={"team": "x"}
    )
    service = await micro.add_service(nc, config)
    await service.add_endpoint(name="double", handler=double, metadata={"e": "1"})
    await through(nc)
    answers = [
        await client.request("double", body, headers={"H": "1"}, timeout=TIMEOUT)
        for body in (b"21", b"error", b"raise", b"crash")
    ]
    stats = service.stats().endpoints[0]
    info = service.info()
    await service.reset()
    await service.stop()
    await service.stopped.wait()
    await through(nc)
    with pytest.raises(Exception, match="no responders"):
        await client.request("double", b"1", timeout=TIMEOUT)
    return (
        [(a.data, a.header) for a in answers],
        (stats.num_requests, stats.num_errors, stats.last_error, stats.queue_group),
        [(e.name, e.subject, e.queue_group, e.metadata) for e in info.endpoints],
    )


@on_both
async def test_services_are_found_all_together_and_by_name(place: Place) -> Any:
    nc, client = await place.connect(), await place.connect()

    async def nothing(request: Request) -> None:
        await request.respond()

    found: dict[str, Any] = {}
    services = []
    for name, version in (("a", "1.0.0"), ("a", "1.0.1"), ("b", "2.0.0")):
        service = await micro.add_service(
            nc, name=name, version=version, stats_handler=lambda endpoint: {"seen": endpoint.name}
        )
        await service.add_endpoint(EndpointConfig(name="e", subject=f"{name}.e", handler=nothing))
        services.append(service)
    await through(nc)
    assert len({service.id for service in services}) == 3
    for verb in ("PING", "INFO", "STATS"):
        for subject, count in (
            (f"$SRV.{verb}", 3),
            (f"$SRV.{verb}.a", 2),
            (f"$SRV.{verb}.b.{services[2].id}", 1),
        ):
            answers = await _ask_all(client, subject, count)
            shown = [(a["type"], a["name"], a["version"]) for a in answers]
            found[subject.replace(services[2].id, "ID")] = sorted(shown)
    for service in services:
        await service.stop()
    return found


@on_both
async def test_groups_prefix_and_queues_share(place: Place) -> Any:
    workers, client = [await place.connect() for _ in range(2)], await place.connect()
    served: list[int] = []

    def handler(number: int) -> Any:
        async def handle(request: Request) -> None:
            served.append(number)
            await request.respond(request.subject.encode())

        return handle

    for number, nc in enumerate(workers):
        service = await micro.add_service(nc, name="s", version="0.1.0", queue_group="own")
        outer = service.add_group(name="v1", queue_group="outer")
        # Both ways of saying it at once: the implementation takes them, its overloads do not.
        users = GroupConfig(name="users")
        inner = outer.add_group(users, queue_group="inner")  # type: ignore[call-overload]  # as above
        await inner.add_endpoint(name="get", handler=handler(number), queue_group="own")
        config = EndpointConfig(name="put", handler=handler(number), queue_group="special")
        await outer.add_endpoint(config, subject="write")  # type: ignore[call-overload]  # as above
        third = service.add_group(GroupConfig(name="v2"))
        await third.add_group(name="deep", queue_group="d").add_endpoint(
            name="x", subject="y", handler=handler(number), metadata={"m": "1"}
        )
        await service.start()
        await through(nc)
    answers = [
        (await client.request(subject, b"", timeout=TIMEOUT)).data
        for subject in ("v1.users.get", "v1.write", "v2.deep.y")
        for _ in range(20)
    ]
    assert set(served) == {0, 1}
    return answers, len(served)


@on_both
async def test_a_service_is_a_context(place: Place) -> Any:
    nc, client = await place.connect(), await place.connect()

    async def echo(request: Request) -> None:
        await request.respond(request.data)

    async with await micro.add_service(nc, name="c", version="0.1.0") as service:
        await service.add_endpoint(name="echo", subject="echo.it", queue_group="q", handler=echo)
        await through(nc)
        said = (await client.request("echo.it", b"x", timeout=TIMEOUT)).data
    return said, service.stopped.is_set()
