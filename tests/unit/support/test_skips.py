"""What is skipped fails a run that is to run everything, unless it is allowed by name."""

# Subject: tests

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT
from tests.support.skips import ALLOWED

_CONFTEST = """
import pytest
from tests.support import skips

def pytest_addoption(parser):
    skips.add_option(parser)

def pytest_configure(config):
    skips.ALLOWED.update({"test_it.py::test_foreign": "", "test_it.py::test_one[b]": ""})
    config.pluginmanager.register(skips)
"""
_TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.skip("not from here")
def test_foreign():
    pass

@pytest.mark.xfail(strict=True)
def test_known():
    assert False

@pytest.mark.parametrize("name", ["a", "b"])
def test_one(name):
    pytest.skip("try " + name)

@pytest.fixture
def place():
    pytest.skip("no place")

def test_there(place):
    pass
"""
_MODULE = "import pytest\npytest.skip('no module', allow_module_level=True)\n"
_REFUSED = """
SKIPPED, and must run: test_it.py::test_one[a]: try a
SKIPPED, and must run: test_it.py::test_there: no place
SKIPPED, and must run: test_module.py: no module
"""


def _run(where: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    (where / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (where / "conftest.py").write_text(_CONFTEST)
    (where / "test_it.py").write_text(_TESTS)
    (where / "test_module.py").write_text(_MODULE)
    done = subprocess.run(
        [*command, *arguments],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_run_that_is_to_run_everything_fails(tmp_path: Path) -> None:
    code, said = _run(tmp_path, "--no-skips")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert _REFUSED.strip() in said
    assert said.count("must run") == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], pytest.ExitCode.OK),
        (["--no-skips", "test_it.py", "-k", "passes or foreign or known or b"], pytest.ExitCode.OK),
        (["--no-skips", "test_module.py"], pytest.ExitCode.TESTS_FAILED),
    ],
    ids=["not asked for", "allowed", "nothing ran"],
)
def test_other_runs(tmp_path: Path, arguments: list[str], expected: pytest.ExitCode) -> None:
    assert _run(tmp_path, *arguments)[0] == expected


def test_allowed_skips_name_tests_that_exist() -> None:
    for test in ALLOWED:
        path, _, name = test.partition("::")
        function, _, parameter = name.rstrip("]").partition("[")
        text = (ROOT / path).read_text()
        assert f"def {function}(" in text, test
        assert not parameter or f'"{parameter}"' in text, test
