"""What a node tells others that ask for what it leads."""

# Subject: API

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.api.node_queries import NodeQueries
from core.model.account import AccountStats
from core.model.stream import StreamConfig, StreamInfo

Handler = Callable[[bytes], Awaitable[bytes]]


class Requests:
    """Records the handlers of requests of other nodes, by verb."""

    def __init__(self) -> None:
        self.handlers: dict[bytes, Handler] = {}

    def handle(self, verb: bytes, handler: Handler) -> None:
        self.handlers[verb] = handler


class Led:
    """A registry with one stream, and the trust that its node leads."""

    def __init__(self, *, is_trusted: bool) -> None:
        self.streams = {"S": self}
        self.services = SimpleNamespace(trust=self)
        self._is_trusted = is_trusted

    async def wait_open(self) -> bool:
        return self._is_trusted

    async def info(self) -> StreamInfo:
        return StreamInfo(config=StreamConfig(name="S"))

    def usage(self) -> AccountStats:
        return AccountStats(streams=1)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_node_reports_its_streams_while_its_lease_is_trusted(
    is_trusted: bool,
) -> None:
    """Without, another node may have changed or deleted them since."""
    requests = Requests()
    NodeQueries(cast(Any, requests), cast(Any, Led(is_trusted=is_trusted)), cast(Any, None))

    infos = json.loads(asyncio.run(requests.handlers[b"INFOS"](b'["S", "OTHER"]')))  # type: ignore[arg-type]
    usage = json.loads(asyncio.run(requests.handlers[b"USAGE"](b"")))  # type: ignore[arg-type]

    assert [each["config"]["name"] for each in infos["streams"]] == ["S"] * is_trusted
    assert usage.get("streams") == (1 if is_trusted else None)
