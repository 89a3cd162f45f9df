"""The table of numbered errors."""

# Subject: streams, API

import pytest

from core.model.api_errors import TABLE, api_error


def test_every_code_is_unique() -> None:
    codes = [row.err_code for row in TABLE.values()]

    assert len(codes) == len(set(codes)) == 227


def test_an_error_is_found_by_name_and_by_number() -> None:
    by_name, by_number = api_error("JSStreamNotFound"), api_error("JSStreamNotFound")

    assert (by_name.code, by_name.err_code, by_name.description) == (404, 10059, "stream not found")
    assert str(by_name) == str(by_number)


def test_placeholders_are_filled_in() -> None:
    assert api_error("JSStreamWrongLastSequence", seq=7).description == "wrong last sequence: 7"


def test_an_unknown_error_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        api_error("JSNoSuchError")
