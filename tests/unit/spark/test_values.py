"""Option strings as values, and what is said when they are none."""

# Subject: Spark rows

from pathlib import Path

import pytest
from pyspark_jetstream.values import InvalidOption, Secret, Values, rfc3339_ns


def values(**options: str) -> Values:
    return Values(options)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("500ms", 0.5), ("1.5s", 1.5), ("5m", 300), ("1h", 3600)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert values(timeout=text).seconds("timeout", 1.0) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1048576", 1 << 20), ("64MiB", 64 << 20), ("64m", 64 << 20), ("2 kb", 2048)]
)
def test_a_size_has_a_unit_or_is_bytes(text: str, size: int) -> None:
    assert values(most=text).size("most") == size


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1e3", "much", "٣"])
def test_invalid_numbers_are_refused_by_name(text: str) -> None:
    if not text:
        assert values(most=text).number("most") is None
        return
    with pytest.raises(InvalidOption, match=r"option 'most' is .*, expected a whole number"):
        values(most=text).number("most")


def test_names_of_options_have_no_case() -> None:
    assert values(PayLoad="JSON").choice("payload", ("binary", "json"), "binary") == "json"


def test_names_in_a_list_may_hold_commas_when_they_are_json() -> None:
    assert values(stream="A, B,A").names_list("stream") == ("A", "B")
    assert values(stream='["A,B", "C"]').names_list("stream") == ("A,B", "C")
    with pytest.raises(InvalidOption, match="none of them empty"):
        values(stream="A,,B").names_list("stream")


def test_a_secret_is_taken_from_where_it_is_kept_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEPT", "s3cret")
    (tmp_path / "kept").write_text("s3cret\n")

    for reference in ("env:KEPT", f"file:{tmp_path / 'kept'}", "s3cret"):
        secret = Secret("dsn", reference)
        assert secret.resolve() == "s3cret"
        assert "s3cret" not in repr(secret) + str(secret)


def test_a_secret_that_is_not_there_is_reported_by_its_place() -> None:
    with pytest.raises(InvalidOption, match="option 'dsn' is 'env:NOT_SET'"):
        Secret("dsn", "env:NOT_SET").resolve()
    with pytest.raises(InvalidOption, match="option 'dsn' is 'file:/no/file'"):
        Secret("dsn", "file:/no/file").resolve()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("2026-11-22T10:00:00.123456789Z", 1795341600123456789),
        ("2026-11-22", None),
        ("2026-13-22T10:00:00Z", None),
    ],
)
def test_a_time_is_exact_to_the_nanosecond(text: str, ns: int | None) -> None:
    assert rfc3339_ns(text) == ns


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://me@host/db?password=s3cret&x=1",
        "host=h password='s3cret' dbname=d",
        "s3cret is no connection string",
    ],
)
def test_errors_of_a_connection_string_do_not_repeat_its_password(value: str) -> None:
    secret = Secret("dsn", value)
    said = f'missing "=" after "s3cret" in {value}, host h'
    assert "s3cret" not in secret.without(said)
    assert "missing" in secret.without(said)
