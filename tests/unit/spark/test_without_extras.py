"""Without the extra `all-tests` every test module is collected, and names the extra it needs."""

# Subject: Spark rows

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.programs import EXTRA
from tests.support.without_extras import ABSENT

TESTS = Path(__file__).resolve().parents[2]
_NEEDS = re.compile(r"\b(pyspark_jetstream|bench\.spark|" + "|".join(ABSENT) + r")\b")


def _without(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS.parent), "spark"))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_modules_that_need_the_extra_are_skipped_and_name_its_command() -> None:
    modules = [str(at) for at in TESTS.rglob("test_*.py") if _NEEDS.search(at.read_text())]
    plugin = ("-p", "tests.support.without_extras", "--collect-only", "-p", "no:cacheprovider")

    done = _without("-m", "pytest", *plugin, *modules)

    assert done.returncode == 0, done.stdout
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skips
    assert [line for line in skips if EXTRA not in line] == []


def test_the_doctor_names_the_package_that_a_read_needs() -> None:
    script = (
        "from tests.support import without_extras\n"
        "without_extras.install()\n"
        "from pyspark_jetstream.doctor import reach\n"
        "print(*(one.text() for one in reach('read', {'dsn': 'env:DSN', 'stream': 'S'})))"
    )

    done = _without("-c", script)

    assert done.stderr == ""
    assert "fail  options: not checked: the package pyarrow is not installed" in done.stdout
    assert "-> pip install pyarrow" in done.stdout
