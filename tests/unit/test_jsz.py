"""/jsz while streams come and go: another node may take one over as the page is made."""

# Subject: monitoring

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from core.model.stream import StreamConfig, StreamInfo
from core.monitor.jsz import jsz
from core.monitor.query import PageQuery
from core.monitor.source import MonitoringSource


class Stream:
    """A stream during whose look something happens."""

    created = 0

    def __init__(self, name: str, meanwhile: Callable[[], object]) -> None:
        self.name = name
        self.machine = SimpleNamespace(msgs=1, bytes=1)
        self._meanwhile = meanwhile

    def consumer_count(self) -> int:
        """Return none."""
        return 0

    async def info(self) -> StreamInfo:
        """Return what the page shows."""
        self._meanwhile()
        return StreamInfo(config=StreamConfig(name=self.name))


def test_streams_that_go_or_come_meanwhile_are_left_out() -> None:
    streams: dict[str, Stream] = {}

    def change() -> None:
        streams.pop("GOES", None)
        streams["COMES"] = Stream("COMES", lambda: None)

    streams |= {"FIRST": Stream("FIRST", change), "GOES": Stream("GOES", lambda: None)}
    streams["LAST"] = Stream("LAST", lambda: None)
    usage = SimpleNamespace(memory=0, storage=0, reserved_memory=0, reserved_storage=0)
    registry = SimpleNamespace(
        streams=streams, account=SimpleNamespace(name="$G"), usage=lambda: usage
    )
    source = SimpleNamespace(
        cluster=None,
        jetstream=SimpleNamespace(
            registry=registry, api=SimpleNamespace(total=0, errors=0, waiting=0, dropped=0)
        ),
        head={},
        about=SimpleNamespace(jetstream={}),
        hub=SimpleNamespace(server_name="n"),
    )

    page = asyncio.run(jsz(cast(MonitoringSource, source), PageQuery({"streams": "true"})))

    details = page["account_details"][0]["stream_detail"]
    assert [stream["name"] for stream in details] == ["FIRST", "LAST"]
