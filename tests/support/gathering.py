"""A fixture of the tests of parsers: every read is gathered, however small."""

from collections.abc import Iterator

import pytest

from core.protocol import server_parser


@pytest.fixture(autouse=True, scope="module")
def reads_are_worth_gathering() -> Iterator[None]:
    """Gather reads of any size in a module that imports this fixture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_parser, "WORTH_GATHERING", 0)
        yield
