"""What a start of `jetgate-nats-server` waits for."""

# Subject: configuration

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STORAGE = (
    "asyncpg",
    "sqlalchemy",
    "alembic",
    "core.storage",
    "core.jetstream",
    "core.node.runtime",
)
UNUSED = ("core.remote", "core.pubsub.mappings", "starlette", "typer")


def test_without_jetstream_neither_storage_nor_the_facade_is_imported() -> None:
    code = "import dropin.command, dropin.process, sys; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout

    assert "core.node.server" in printed.split()
    assert [name for name in printed.split() if name.startswith((*STORAGE, *UNUSED))] == []
