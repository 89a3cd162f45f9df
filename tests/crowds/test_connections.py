"""Ten thousand connections that say nothing, and more than the process may have.

What is expected is what the reference server does: every row runs against both.
"""

import resource
from collections import Counter
from pathlib import Path

import pytest

from tests.crowds.serving import MIB, left, resident, serving, waited
from tests.support.best import slowness
from tests.support.crowd import Crowd, affordable
from tests.support.dropin import NAMES
from tests.support.eventually import eventually
from tests.support.wire import HELLO, Closed, Silence, Wire

CONNECTIONS = 10_000
SILENCES = (b"", b"CONN", b'CONNECT {"verbose":fal')
AFTER_CONNECT = b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPUB a 5\r\nhe'


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("configuration", "silences", "ending", "hello"),
    [
        (
            'ping_interval: "1s"\nping_max: 1',
            (*SILENCES, AFTER_CONNECT),
            b"-ERR 'Stale Connection'",
            HELLO,
        ),
        (
            "authorization { user: u, password: p, timeout: 3 }",
            SILENCES,
            b"-ERR 'Authentication Timeout'",
            HELLO.replace(b"{", b'{"user":"u","pass":"p",'),
        ),
    ],
    ids=["without users", "with users"],
)
def test_ten_thousand_silent_connections_are_dropped(
    name: str,
    tmp_path: Path,
    configuration: str,
    silences: tuple[bytes, ...],
    ending: bytes,
    hello: bytes,
) -> None:
    count = affordable(CONNECTIONS)
    with serving(name, tmp_path, configuration) as server:
        before = left(server)
        sizes = []
        for _ in range(1 if name == "nats-server" else 2):
            with Crowd(server.address, silences, count) as crowd:
                seconds = waited(server, hello)
                endings = crowd.until_all_ended(90)
            assert endings == Counter({ending: count})
            assert seconds < 2 * slowness()
            assert eventually(lambda: left(server) == before, within=30)
            sizes.append(resident(server))

    # The second crowd fits into what the first one left.
    assert sizes[-1] - sizes[0] < 25 * MIB, sizes


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
            with Wire(server.address, timeout=5) as late:
                try:
                    late.hello()
                except (Closed, Silence, AssertionError):
                    return False
                return True

        assert eventually(is_served, within=20)


def test_the_limit_on_descriptors_is_raised(name: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with serving(name, tmp_path) as server:
            server.ports()
            raised, _ = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
            assert raised in (hard, hard - 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
