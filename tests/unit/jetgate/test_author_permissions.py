"""The flag --author-permissions: over which doors authors are asked."""

# Subject: configuration

import pytest

from core.pubsub.server import IN_PROCESS, WEBSOCKET
from jetgate.config import AuthorPermissions

_NATS = {"STANDARD", WEBSOCKET}


@pytest.mark.parametrize(
    ("flag", "doors"),
    [("http", {IN_PROCESS}), ("nats", _NATS), ("all", {IN_PROCESS, *_NATS}), ("none", set())],
)
def test_each_value_names_its_doors(flag: str, doors: set[str]) -> None:
    assert AuthorPermissions(flag).doors == doors
