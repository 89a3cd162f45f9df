"""Fixtures that more than one suite needs, and what a whole run is held to."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.compat import plugin as compatibility
from tests.support import (
    budget,
    child_run,
    run,
    second_run,
    side_by_side,
    skips,
    smoke,
    thorough,
    unclosed_sockets,
)
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.pg import database, durable, postgres  # noqa: F401  (fixtures)

# Whether a run passes depends neither on chance nor on how quick the machine is: the examples are
# the same in every run and may take their time. `--hypothesis-profile=default` looks for others.
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugins; `--compatibility` writes the page instead of comparing it."""
    run.add_option(parser)
    skips.add_option(parser)
    smoke.add_option(parser)
    thorough.add_option(parser)
    helped = (
        "write docs/compatibility.md; with `again` the last run counts where this one is silent"
    )
    parser.addoption(
        "--compatibility", nargs="?", const="new", choices=("new", "again"), help=helped
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Have workers run all tests, before pytest-xdist looks at what is asked for."""
    side_by_side.choose_workers(config)


def pytest_configure(config: pytest.Config) -> None:
    """Run tests as the plugins of `support` say; one process judges the run.

    It holds the run to its budgets, to what it may skip and to the page of compatibility.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As shells start what runs in the background; servers under test would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    plugins = config.pluginmanager
    plugins.register(run, "run")
    plugins.register(unclosed_sockets, "unclosed_sockets")
    plugins.register(thorough, "thorough")
    plugins.register(smoke, "smoke")
    plugins.register(side_by_side, "side_by_side")
    plugins.register(child_run, "child_run")
    plugins.register(compatibility.Comparisons(), "comparisons")
    if run.judges(config):
        plugins.register(second_run, "second_run_of_workers")
        plugins.register(budget, "budget")
        plugins.register(skips, "skips")
        plugins.register(compatibility, "compatibility")


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """The reference server, one for the session."""
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="session")
def jetgate_server() -> Iterator[JetgateServer]:
    """jetgate over its own PostgreSQL, one for the session."""
    with JetgateServer(in_memory=True) as server:
        yield server


@pytest.fixture(params=["jetgate", "nats-server"])
def server(request: pytest.FixtureRequest) -> JetgateServer | NatsServer:
    """Both servers, one after the other: what holds on one must hold on the other."""
    name = "jetgate_server" if request.param == "jetgate" else "nats_server"
    started: JetgateServer | NatsServer = request.getfixturevalue(name)
    return started
