"""What holds for every node inside a test's process."""

import pytest

from core.jetstream import lane


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what waits for storage wait, however long the machine stands still meanwhile.

    Publishes that nobody awaits would be refused unseen. Tests of the refusal override this.
    """
    monkeypatch.setattr(lane, "PATIENCE", 60.0)
