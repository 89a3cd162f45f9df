"""A socket that is left open fails a run and is told by the test that opened it, unless that one
failed itself."""

# Subject: tests

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT

_CONFTEST = """
from tests.support import unclosed_sockets

def pytest_configure(config):
    config.pluginmanager.register(unclosed_sockets)
"""
_TESTS = """
import asyncio, gc, socket
import pytest

@pytest.fixture(scope="module")
def kept():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server

async def connected(server):
    reader, writer = await asyncio.open_connection(*server.getsockname())
    peer, _ = server.accept()
    itself = [peer, writer]
    itself.append(itself)
    return itself

async def as_transport(server):
    (await connected(server))[0].close()

async def as_accepted(server):
    (await connected(server))[1].close()

@pytest.mark.parametrize("leave", [as_transport, as_accepted])
def test_leaves_open(kept, leave):
    gc.disable()
    asyncio.run(leave(kept))

def test_fails(kept):
    left = asyncio.run(connected(kept))
    assert not left

def test_keeps_and_fails(kept):
    pytest.last = asyncio.run(connected(kept))
    pytest.mine = socket.socket()
    itself = [asyncio.new_event_loop()]
    itself.append(itself)
    assert pytest.mine is None

def test_collects_what_failed_tests_left():
    gc.collect()
    del pytest.last
    gc.collect()

def test_still_has_the_sockets_in_use(kept):
    pytest.mine.close()
    socket.create_connection(kept.getsockname()).close()
"""


def _run(where: Path, *chosen: str) -> tuple[int, str]:
    (where / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\nfilterwarnings = error\n")
    (where / "conftest.py").write_text(_CONFTEST)
    (where / "test_it.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    done = subprocess.run(
        [*command, "-rA", "--tb=short", *chosen],
        cwd=where,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("left", "shown"),
    [("as_transport", "unclosed transport <"), ("as_accepted", "unclosed <socket.socket ")],
)
def test_a_socket_left_open_by_a_passing_test_fails_another_with_a_warning(
    tmp_path: Path, left: str, shown: str
) -> None:
    code, said = _run(tmp_path, "-k", f"{left} or collects")

    assert code == pytest.ExitCode.TESTS_FAILED
    assert f"PASSED test_it.py::test_leaves_open[{left}]" in said
    warnings = [line for line in said.splitlines() if shown in line]
    assert warnings, said
    for line in warnings:
        assert f", opened in test_it.py::test_leaves_open[{left}]>" in line


def test_a_socket_left_open_by_a_failing_test_fails_no_other(tmp_path: Path) -> None:
    _, said = _run(tmp_path, "-k", "fails or collects or still")

    assert "2 failed, 2 passed" in said, said
    assert "ResourceWarning" not in said
