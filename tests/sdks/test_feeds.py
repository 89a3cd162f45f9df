"""Feeds of the SDKs: they break, go on where they were, and say what they missed."""

# Subject: SDKs

import asyncio
import json
import re
import subprocess
from pathlib import Path

import jetgate_client as sdk
import pytest
from jetgate_client.generated.api.streams import purge_stream
from jetgate_client.generated.models import PurgeRequest

from tests.sdks.lossy import LossyWay
from tests.sdks.pages import passed_in_a_page
from tests.sdks.test_python import QUICK, stream
from tests.support.programs import node
from tests.support.scenario import run_within

pytest.importorskip("gateway.ws", reason="the façade has no feeds yet")

_HERE = Path(__file__).parent / "typescript"
_NAMES = re.findall(r'^  async "(.+)"\(', (_HERE / "feeds.mjs").read_text(), re.MULTILINE)


def test_typescript_in_node(typescript_sdk: Path, url: str) -> None:
    command = [node(), str(_HERE / "node.mjs"), str(typescript_sdk), url, "FEED", "feeds"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == _NAMES
    assert len(_NAMES) > 4


@pytest.mark.thorough
def test_typescript_in_a_page(typescript_sdk: Path, tmp_path: Path) -> None:
    assert passed_in_a_page(typescript_sdk, tmp_path, "feeds") == _NAMES


def test_a_tail_goes_on_and_reports_its_gap(way: LossyWay, url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js, sdk.connect(way.url, retry=QUICK) as follower:
            await js.publish(f"{name}.x", "0")
            seen: list[str] = []
            async for message in follower.tail(name, begin="all"):
                if isinstance(message, sdk.Gap):
                    seen.append(f"gap behind {message.after}, on behind {message.seq}")
                    break
                seen.append(message.text())
                if len(seen) == 4:
                    way.away = True
                    way.break_connections()
                    await js.publish(f"{name}.x", "gone")
                    await purge_stream.asyncio(name, client=js.api, body=PurgeRequest())
                    way.away = False
                else:
                    if len(seen) % 2:
                        way.break_connections()
                    await js.publish(f"{name}.x", str(len(seen)))
            assert seen == ["0", "1", "2", "3", "gap behind 4, on behind 5"]

    run_within(60, scenario)


def test_a_tail_of_no_stream_is_refused(url: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(url) as js:
            with pytest.raises(sdk.NotFound) as absent:
                async with asyncio.timeout(20):
                    await anext(js.tail("ABSENT"))
            assert absent.value.kind == "stream-not-found"

    run_within(60, scenario)
