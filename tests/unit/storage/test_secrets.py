"""Keys that nodes share, while PostgreSQL is away."""

# Subject: storage

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from core.errors import Unavailable
from core.storage.postgres.connect import Connector
from core.storage.postgres.secrets import secret


def test_a_key_that_cannot_be_read_now_may_be_read_later(tmp_path: Path) -> None:
    """Who has just won the leadership tries again instead of ending."""
    connector = Connector(f"postgresql://postgres@/jetgate?host={quote(str(tmp_path))}")

    with pytest.raises(Unavailable, match="PostgreSQL is not reachable"):
        asyncio.run(secret(connector, "ack-tokens"))
