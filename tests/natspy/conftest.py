"""Fixtures of the tests with the official Python client."""

from collections.abc import Iterator

import pytest

from tests.natspy.usage import Usage
from tests.natspy.watchers import Subscription, informed

pytest.register_assert_rewrite("tests.natspy.place")


@pytest.fixture(scope="package")
def watchers() -> Iterator[None]:
    """Watchers that do not depend on what of the server's comes first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subscription, "consumer_info", informed)
        yield


@pytest.fixture(scope="package", autouse=True)
def usage(watchers: None) -> Iterator[Usage]:
    """What the tests of this package called so far."""
    watched = Usage()
    watched.start()
    yield watched
    watched.stop()
