"""The mark `thorough` for slow tests: they run only with `--thorough`, without time budgets."""

import pytest

MARK = "thorough"


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--thorough`."""
    helped = "run the tests marked so, too, however long it takes"
    parser.addoption("--thorough", action="store_true", help=helped)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `thorough`."""
    config.addinivalue_line("markers", f"{MARK}: runs with --{MARK} alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `thorough`, unless the run has the option `--thorough`."""
    if config.getoption(MARK):
        return
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(MARK)]
