"""Ten thousand connections that say nothing, and more than the process may have.

What is expected is what the reference server does: every row runs against both.
"""

# Subject: slow consumers, costs

import os
import resource
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.load.serving import MIB, WITH_REFERENCE, left, serving, waited
from tests.support.best import slowness
from tests.support.crowd import Crowd, affordable
from tests.support.eventually import eventually
from tests.support.memory import resident
from tests.support.wire import HELLO, Closed, Silence, Wire

pytestmark = pytest.mark.quiet

CONNECTIONS = 10_000
LOADS = 4
SILENCES = (b"", b"CONN", b'CONNECT {"verbose":fal')
AFTER_CONNECT = b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPUB a 5\r\nhe'


@WITH_REFERENCE
@pytest.mark.parametrize(
    ("configuration", "silences", "last_line", "hello"),
    [
        pytest.param(
            'ping_interval: "1s"\nping_max: 1',
            (*SILENCES, AFTER_CONNECT),
            b"-ERR 'Stale Connection'",
            HELLO,
            id="without users",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "authorization { user: u, password: p, timeout: 3 }",
            SILENCES,
            b"-ERR 'Authentication Timeout'",
            HELLO.replace(b"{", b'{"user":"u","pass":"p",'),
            id="with users",
        ),
    ],
)
def test_ten_thousand_silent_connections_are_dropped(
    name: str,
    tmp_path: Path,
    configuration: str,
    silences: tuple[bytes, ...],
    last_line: bytes,
    hello: bytes,
) -> None:
    count = affordable(CONNECTIONS)
    with serving(name, tmp_path, configuration) as server:
        before = left(server)
        seconds, sizes = [], []
        for _ in range(LOADS):
            with Crowd(server.address, silences, count) as crowd:
                seconds.append(waited(server, hello) / slowness())
                endings = crowd.until_all_ended(90)
            assert endings == Counter({last_line: count})
            assert eventually(lambda: left(server) == before, within=60)
            sizes.append(resident(server.process.pid))
            # A machine that stops for a moment delays a client, and makes a crowd smaller than
            # the next one, as its first are dropped before its last have come: then once more.
            grown = min((two - one for one, two in pairwise(sizes)), default=25 * MIB)
            if min(seconds) < 2 and (grown < 25 * MIB or name == "nats-server"):
                break

    assert min(seconds) < 2
    # A crowd fits into what the one before it left.
    assert grown < 25 * MIB or name == "nats-server", sizes


def test_more_connections_than_descriptors(name: str, tmp_path: Path) -> None:
    with serving(name, tmp_path) as server, Wire(server.address) as early:
        early.hello()
        limits = (100, 100)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        crowd = [Wire(server.address) for _ in range(150)]

        assert early.flush() == []
        for wire in crowd:
            wire.close()

        def is_served() -> bool:
            try:
                with Wire(server.address, timeout=5) as late:
                    late.hello()
            except (Closed, Silence, OSError, AssertionError):
                return False
            return True

        assert eventually(is_served, within=60)


def test_the_limit_on_descriptors_is_raised(name: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = len(os.listdir("/proc/self/fd")) + 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    try:
        with serving(name, tmp_path) as server:
            server.ports()
            raised, _ = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
            assert raised in (hard, hard - 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
