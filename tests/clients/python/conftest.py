"""Fixtures of the tests with the official Python client."""

from collections.abc import Iterator

import pytest

from tests.clients.python.usage import Usage

pytest.register_assert_rewrite("tests.clients.python.place")


@pytest.fixture(scope="package", autouse=True)
def usage() -> Iterator[Usage]:
    """What the tests of this package called so far."""
    watched = Usage()
    watched.start()
    yield watched
    watched.stop()
