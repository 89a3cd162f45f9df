"""The tree of exceptions: what each one says."""

# Subject: API

import pytest

from core import errors


def test_each_error_shows_its_values() -> None:
    assert str(errors.ConfigError("nats.port", "not a number")) == "nats.port: not a number"
    assert str(errors.ApiError(404, 10059, "stream not found")) == "stream not found (10059)"
    assert str(errors.ProtocolError("Invalid Subject")) == "Invalid Subject"
    assert str(errors.ProtocolError(reason="bad size")) == "bad size"


@pytest.mark.parametrize("kind", [errors.Unavailable, errors.OutcomeUnknown, errors.Fenced])
def test_storage_errors_are_one_family(kind: type[errors.StorageError]) -> None:
    with pytest.raises(errors.StorageError):
        raise kind("text")
    assert issubclass(kind, errors.CoreError)
