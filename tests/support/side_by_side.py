"""Distribution of a run of all tests to workers, and the run of tests marked `quiet` after it.

A run of the whole folder `tests` has three workers of pytest-xdist on two processors. (With two
workers, a processor is idle for a fifth of the time, while tests wait for child processes.) Each
worker runs one test file after the other, or a whole suite in `TOGETHER`. Long suites start first,
so that all workers end at about the same time.

Tests marked `quiet` measure time or load the whole machine. They run after the workers have ended,
one after the other in a child process. In any other run, also with `-n 0`, all tests run in their
order in one process.
"""

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import child_run, report_files, run
from tests.support.budget import SECONDS, suite_of

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

MARK = "quiet"
WORKERS = 3
TOGETHER = {"clients/javascript", "clients/python", "console", "sdks", "spark"}
"""Suites that one worker runs as a whole, because their fixtures are slow or span all tests.
"""

_ROOT = Path(__file__).resolve().parents[1]
_SUITES = list(SECONDS)


def scope_of(test: str) -> str:
    """Return the unit that one worker runs: the suite of a test if in `TOGETHER`, else its file."""
    suite = suite_of(test)
    return suite if suite in TOGETHER else test.partition("::")[0]


def place_of(test: str) -> tuple[int, str]:
    """Return the sort key of a test: index of its suite in `budget.toml`, then its `scope_of`."""
    suite = suite_of(test)
    return (_SUITES.index(suite) if suite in _SUITES else len(_SUITES)), scope_of(test)


def is_whole(config: pytest.Config) -> bool:
    """Return True if the command line of a run names only the folder `tests`."""
    return {(config.invocation_params.dir / name).resolve() for name in config.args} == {_ROOT}


def choose_workers(config: pytest.Config) -> None:
    """Set the number of workers for a run of all tests.

    Does nothing with `-n`, `--dist` or `--pdb` on the command line, and inside a worker.
    """
    option = config.option
    if not run.judges(config):  # a worker of pytest-xdist must have no workers itself
        return
    if (
        is_whole(config)
        and option.numprocesses is None
        and not option.usepdb
        and option.dist == "no"
    ):
        option.numprocesses = WORKERS
        option.dist = "loadscope"
        option.loadscopereorder = False


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `quiet` and, in the process with the workers, the `Controller`."""
    config.addinivalue_line("markers", f"{MARK}: runs alone, when nothing else does")
    if config.option.dist != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Controller(config), "side_by_side_controller")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker: sort tests by suite, and remove those marked `quiet`."""
    output = getattr(config, "workeroutput", None)
    if output is None or config.getoption("--smoke"):
        return
    gc.freeze()  # a full collection would scan a million objects of all tests
    output[MARK] = [item.nodeid for item in items if item.get_closest_marker(MARK)]
    left = [item for item in items if not item.get_closest_marker(MARK)]
    items[:] = sorted(left, key=lambda item: place_of(item.nodeid))


class Controller:
    """The pytest plugin of the process with the workers: it runs tests marked `quiet` after them.

    Args:
        config: pytest configuration of this process.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._quiet: dict[str, None] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: "Producer"
    ) -> "LoadScopeScheduling":
        """Return a scheduler that distributes tests to workers by `scope_of`."""
        from xdist.scheduler import LoadScopeScheduling

        class SuiteScheduling(LoadScopeScheduling):  # type: ignore[misc]
            def _split_scope(self, nodeid: str) -> str:
                return scope_of(nodeid)

        return SuiteScheduling(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: "WorkerController", error: object) -> None:
        """Record the tests marked `quiet` that a worker has removed, when the worker ends."""
        output = getattr(node, "workeroutput", None) or {}
        self._quiet.update(dict.fromkeys(output.get(MARK, ())))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Run the tests marked `quiet` after all workers have ended."""
        done = yield
        self._run_alone(session, list(self._quiet))
        return done

    def _run_alone(self, session: pytest.Session, tests: Sequence[str]) -> None:
        if not tests:
            return
        session.testscollected += len(tests)
        output = report_files.directory(self._config) / "quiet.txt"
        for report in child_run.run(self._config, tests, output):
            if isinstance(report, pytest.TestReport):
                self._config.hook.pytest_runtest_logreport(report=report)
            else:
                self._config.hook.pytest_collectreport(report=report)
