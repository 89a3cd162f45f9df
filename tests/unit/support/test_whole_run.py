"""A run with workers: what runs alone after it, what is run again, and what is excused."""

# Subject: tests

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT
from tests.support.second_run import EXCUSED, PROMISES, excusable
from tests.support.side_by_side import place_of, scope_of
from tests.support.smoke import nameless
from tests.tools.subjects import SUBJECTS, subjects

_CONFTEST = """
from tests.support import child_run, run, second_run, side_by_side, smoke, thorough

def pytest_addoption(parser):
    for plugin in (run, smoke, thorough):
        plugin.add_option(parser)

def pytest_configure(config):
    for plugin in (run, thorough, smoke, side_by_side, child_run):
        config.pluginmanager.register(plugin)
    if run.judges(config):
        config.pluginmanager.register(second_run)
"""
_FLAKY = """
from pathlib import Path

def _fails_once(name):
    seen = Path(__file__).with_name(name + ".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time of " + name)
"""
_FLAKY_TEST = """
def test_{0}():
    _fails_once("{0}")
"""
_QUIET = """
import os
import pytest

def test_noisy():
    assert "PYTEST_XDIST_WORKER" in os.environ

@pytest.mark.quiet
def test_quiet():
    assert "PYTEST_XDIST_WORKER" not in os.environ

@pytest.mark.skip("not here")
@pytest.mark.quiet
def test_skipped():
    pass
"""
_ENDS = """
import os
import pytest

@pytest.mark.quiet
def test_that_ends_the_process():
    os._exit(3)
"""


def _run(where: Path, files: dict[str, str], *arguments: str) -> tuple[int, str]:
    (where / "pytest.ini").write_text(f"[pytest]\naddopts = -p xdist\npythonpath = {ROOT}\n")
    (where / "conftest.py").write_text(_CONFTEST)
    for name, text in files.items():
        (where / name).parent.mkdir(exist_ok=True)
        (where / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    command += ["-n2", "--dist=loadscope", "--junitxml=out/report.xml", *arguments]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    environment = {**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


def _flaky(*names: str) -> str:
    return _FLAKY + "".join(_FLAKY_TEST.format(name) for name in names)


def test_unsteady_tests_are_excused_and_printed(tmp_path: Path) -> None:
    files = {"test_quiet.py": _QUIET, "test_flaky.py": _flaky("first", "second")}
    code, said = _run(tmp_path, files)
    assert "2 passed, 1 skipped, 2 unsteady" in said
    assert code == pytest.ExitCode.OK, said
    assert "UNSTEADY: test_flaky.py::test_first" in said
    failed = (tmp_path / "out" / "failed-1.txt").read_text()
    assert "test_flaky.py::test_first" in failed
    assert "the first time of first" in failed
    assert re.search(r"2 passed", (tmp_path / "out" / "again.txt").read_text())


def test_more_than_that_fail_the_run(tmp_path: Path) -> None:
    names = [f"number_{number}" for number in range(EXCUSED + 1)]
    code, said = _run(tmp_path, {"test_flaky.py": _flaky(*names)})
    assert code == pytest.ExitCode.TESTS_FAILED
    assert f"4 unsteady tests: at most {EXCUSED} are excused" in said
    assert "4 failed" in said


def test_a_second_failure_or_one_about_promises_fails_the_run(tmp_path: Path) -> None:
    always = "def test_always():\n    assert not '\\udcff'\n"
    files = {"test_ends.py": _ENDS, "test_always.py": always}
    code, said = _run(tmp_path, files | {"test_flaky.py": _flaky("nothing_is_lost", "other")})
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "fails again: test_always.py::test_always" in said
    assert "fails again: test_ends.py::test_that_ends_the_process" in said
    assert "ended with 3 and no report" in said
    assert "never excused: test_flaky.py::test_nothing_is_lost" in said
    assert "3 failed, 1 unsteady" in said


def test_a_smoke_run_ends_in_a_folder_once_a_test_has_passed(tmp_path: Path) -> None:
    skips = "import pytest\n\ndef test_skipped():\n    pytest.skip('needs a program')\n"
    fails = "def test_passes():\n    pass\n\ndef test_never_runs():\n    assert False\n"
    files = {"one/test_a.py": fails, "two/test_b.py": skips}
    code, said = _run(tmp_path, files, "--smoke", "--dist=no", "-n0")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "one: one/test_a.py::test_passes" in said
    assert "names no command: two/test_b.py::test_skipped: Skipped: needs a program" in said
    (tmp_path / "two/test_b.py").write_text(skips.replace("a program", "Go: apt-get install it"))
    assert _run(tmp_path, {}, "--smoke", "--dist=no", "-n0")[0] == pytest.ExitCode.OK


@pytest.mark.parametrize(
    "test",
    [
        "tests/crash/test_points.py::test_a_publish",
        "tests/histories/test_run.py::test_two_minutes",
        "tests/e2e/test_kill.py::test_nothing_acknowledged_is_lost",
        "tests/gateway/test_x.py::test_a_message_is_stored_twice[a]",
        "tests/gateway/test_x.py::test_a_row[killed]",
        "tests/gateway/test_x.py::TestLoss::test_losing_a_link",
        "tests/spark/test_x.py::test_unacknowledged_messages_are_sent",
        "tests/unit/test_x.py::test_a_deleted_message_does_not_come_back",
        "tests/unit/test_x.py::test_a_duplicate_is_answered",
    ],
)
def test_no_promise_is_excused(test: str) -> None:
    assert not excusable(test)


@pytest.mark.parametrize(
    "name",
    [
        "test_the_table_shows_rows",
        "test_a_silent_peer_is_closed",
        "test_nothing_is_disclosed",
        "test_a_peer_without_a_nonce_gets_no_proof",
    ],
)
def test_a_part_of_another_word_is_no_promise(name: str) -> None:
    assert excusable(f"tests/console/test_page.py::{name}")


def test_files_about_promises_are_never_excused_whatever_their_tests_are_called() -> None:
    assert set(SUBJECTS) >= PROMISES
    files = {file for file, names in subjects().items() if PROMISES & {*names}}

    assert any(not file.startswith(("crash/", "histories/")) for file in files)
    assert [
        file for file in files if file.endswith(".py") and excusable(f"tests/{file}::test_a")
    ] == []


def test_files_go_to_workers_whole_and_some_suites_too() -> None:
    assert scope_of("tests/unit/core/test_a.py::test_b[x::y]") == "tests/unit/core/test_a.py"
    assert scope_of("tests/spark/test_a.py::test_b") == scope_of("tests/spark/test_c.py::test_d")
    names = ["tests/unit/test_a.py::t", "tests/test_new.py::t", "tests/histories/test_run.py::t"]
    assert sorted(names, key=place_of) == [names[2], names[0], names[1]]


def test_a_reason_names_a_command() -> None:
    assert nameless([("t", "needs Node: pip install -e '.[all-tests]'")]) == []
    assert nameless([("t", "no Node")]) == ["t: no Node"]
