"""Does the server keep its contract, whatever is asked? (schemathesis)

Requests that the contract allows, those that it does not, and rows of requests that follow its
links. No answer is a 5xx but a 503 or 504 that the operation names; status, media type, headers and
body of every answer are among those that are declared.
"""

# Subject: HTTP, HTTP contract

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.units import Seconds
from gateway.routes import ROUTES
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.short_feeds import ShortFeeds
from tests.support.jetgate import ROOT, JetgateServer

CONFIG = Path(__file__).with_name("schemathesis.toml")
# Nobody answers most requests: callers wait as long as these say.
HASTY = replace(
    SETTINGS,
    fetch_expires_default=Seconds(0.02),
    fetch_expires_max=Seconds(0.05),
    request_timeout_default=Seconds(0.05),
    request_timeout_max=Seconds(0.1),
    publish_timeout=Seconds(0.5),
    feed_heartbeat=Seconds(0.05),
    event_pause=Seconds(0.05),
)
# Each member of a configuration makes some dozen requests.
MANY = (
    "createStream",
    "putStream",
    "patchStream",
    "createKvBucket",
    "putKvBucket",
    "patchKvBucket",
)

# How many runs the operations are shared out to: each takes some minutes.
PARTS = 8


@pytest.fixture
def hasty() -> Iterator[GatewayServer]:
    """The façade over a jetgate of its own: whatever may be created will be."""
    with (
        JetgateServer(in_memory=True) as server,
        GatewayServer(server.address, HASTY, wrap=ShortFeeds) as gateway,
    ):
        yield gateway


def test_random_requests_are_answered_as_declared(hasty: GatewayServer, tmp_path: Path) -> None:
    _ask(hasty, tmp_path, "--phases=fuzzing,stateful", "--max-examples=2", "--seed=11")

    assert hasty.failures == []


@pytest.mark.thorough
def test_values_at_the_edge_are_answered_as_declared(hasty: GatewayServer, tmp_path: Path) -> None:
    _ask(hasty, tmp_path, "--phases=coverage", *(f"--exclude-operation-id={id}" for id in MANY))

    assert hasty.failures == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_much_is_asked_and_answered_as_declared(
    hasty: GatewayServer, tmp_path: Path, part: int
) -> None:
    some = [f"--include-operation-id={row.id}" for row in ROUTES[part::PARTS]]
    _ask(hasty, tmp_path, "--phases=coverage,fuzzing", "--max-examples=300", *some, within=3600.0)

    assert hasty.failures == []


@pytest.mark.thorough
def test_many_rows_of_requests_are_answered_as_declared(
    hasty: GatewayServer, tmp_path: Path
) -> None:
    _ask(hasty, tmp_path, "--phases=stateful", "--max-examples=1000", within=3600.0)

    assert hasty.failures == []


def _ask(gateway: GatewayServer, place: Path, *options: str, within: float = 900.0) -> None:
    """Run schemathesis; what it found is the message."""
    url = "http://{}:{}/openapi.json".format(*gateway.http)
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "--no-color", f"--config-file={CONFIG}", "run", url]
    ended = subprocess.run(
        [*command, "--continue-on-failure", *options],
        cwd=place,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.gateway.contract_hooks",
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
        },
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-4_000:]
