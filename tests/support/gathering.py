"""A fixture for tests of protocol parsers: the gathering parser also takes small reads."""

from collections.abc import Iterator

import pytest

from core.protocol import server_parser


@pytest.fixture(autouse=True, scope="module")
def reads_are_worth_gathering() -> Iterator[None]:
    """Make `server_parser` gather reads of any size, in each test of a module that imports this.

    The product gathers only reads of at least `WORTH_GATHERING`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_parser, "WORTH_GATHERING", 0)
        yield
