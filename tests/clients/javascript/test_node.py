"""Every feature of the official JavaScript packages, in the same words to both servers.

A script prints what it got, step by step, without what time and chance decide. The two transcripts
must be equal, so a step that fails on both servers fails in the same way.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.at_once import at_once
from tests.support.node_packages import node_packages, run_node

_SCRIPTS = Path(__file__).parent / "node"


def transcripts(script: str, addresses: list[str]) -> list[list[dict[str, Any]]]:
    """Run a script against each address at the same time; its steps."""
    node_packages()
    printed = at_once(lambda address: run_node(_SCRIPTS / script, address), addresses)
    return [[json.loads(line) for line in text.splitlines()] for text in printed]


def agree(script: str, addresses: list[str]) -> None:
    """Both servers make a script print the same."""
    ours, theirs = transcripts(script, addresses)
    assert theirs, "the script printed nothing"
    assert ours == theirs


@pytest.mark.parametrize(
    "script",
    [
        "batches",
        "core",
        "direct",
        "groups",
        "ingest",
        "kv",
        "mirrors",
        "objects",
        "publish",
        "pull",
        "push",
        "reconnect",
        "schedules",
        "services",
        "streams",
        "ttl",
    ],
)
def test_over_tcp(script: str, addresses: list[str]) -> None:
    agree(f"{script}.mjs", addresses)


@pytest.mark.parametrize("addresses", ["websocket"], indirect=True)
@pytest.mark.parametrize("script", ["core", "kv", "push", "reconnect"])
def test_over_websocket(script: str, addresses: list[str]) -> None:
    agree(f"{script}.mjs", addresses)
