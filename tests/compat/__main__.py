"""The page of compatibility, written from the results of its tests: `python -m tests.compat`.

With tests as arguments only these run; for the others the results of the last run count.
"""

import sys

import pytest

from tests.compat.page import load


def main() -> int:
    """Return the exit code of the run."""
    files: dict[str, None] = {}
    for section in load():
        for feature in section.features:
            for written in feature.tests:
                place = written.split("::")[0] if written.startswith("tests/") else "tests/wire"
                files[place] = None
    chosen = sys.argv[1:]
    return int(pytest.main([f"--compatibility={'again' if chosen else 'new'}", *(chosen or files)]))


if __name__ == "__main__":
    sys.exit(main())
