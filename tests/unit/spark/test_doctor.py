"""What the doctor finds, and what it says to do."""

# Subject: Spark rows, Spark pipelines

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark_jetstream import doctor
from pyspark_jetstream.doctor import Finding, executor, interpreters, java, packages, reach

VERSION = list(sys.version_info[:3])
INSTALLED = {
    "pyspark": "4.3.0",
    "pyarrow": "26.0.1",
    "pandas": "2.3.3",
    "adbc-driver-postgresql": "1.13.0",
    "crc32c": "2.9",
    "pyyaml": "6.0",
}


def states(changes: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What is said of packages: state and text by name."""
    found = packages(lambda name: (INSTALLED | changes).get(name, ""))
    return {one.what: (one.state, one.found) for one in found}


def test_packages_that_suffice_are_fine() -> None:
    assert {state for state, _ in states({}).values()} == {"ok"}


@pytest.mark.parametrize(
    ("name", "version", "state", "words"),
    [
        ("pyspark", "", "fail", "is not installed"),
        ("pyspark", "3.5.6", "fail", "older than 4.0"),
        ("pyspark", "4.0.1", "warn", "without filter pushdown"),
        ("pyspark", "4.1.0", "warn", "without limits of a micro-batch"),
        ("pyspark", "4.2.0", "ok", "4.2.0"),
        ("pyspark", "5.0.0", "warn", "newer than"),
        ("pyarrow", "9.0", "fail", "older than 18.0"),
        ("pandas", "3.0.1", "warn", "made for pandas 2"),
        ("adbc-driver-postgresql", "", "warn", "no transport=sql"),
        ("pyyaml", "", "warn", "no pipelines in YAML"),
    ],
)
def test_a_package_that_lacks_or_is_old(name: str, version: str, state: str, words: str) -> None:
    found = states({name: version})[name]
    assert found[0] == state
    assert words in found[1]


def runs(version: str, modules: str = "java.base\njdk.incubator.vector") -> Any:
    """Stands for running java."""

    def run(command: Sequence[str]) -> str:
        return version if command[1] == "-version" else modules

    return run


def not_there(command: Sequence[str]) -> str:
    """Stands for running what is not there."""
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("run", "state", "words"),
    [
        (runs('openjdk version "17.0.15" 2025-04-15'), "ok", "17 ("),
        (runs('openjdk version "21.0.8"'), "ok", "21 ("),
        (runs('java version "1.8.0_412"'), "fail", "8 ("),
        (runs('openjdk version "25" 2025-09-16'), "fail", "supports 17 and 21"),
        (runs('openjdk version "21.0.8"', "java.base"), "fail", "lacks the module"),
        (runs("Usage: java"), "fail", "does not print its version"),
        (not_there, "fail", "cannot be run: No such file"),
    ],
)
def test_java(run: Callable[[Sequence[str]], str], state: str, words: str) -> None:
    found = java(run)
    assert found.state == state
    assert words in found.found
    assert (found.todo == "") == (state == "ok")


def test_an_interpreter_that_runs_tasks_has_the_drivers_version_and_the_format() -> None:
    assert executor("e", {"python": VERSION, "format": "jetstream"}, "").state == "ok"
    other = executor("e", {"python": [3, 9, 1], "format": "jetstream"}, "do this")
    assert (other.state, other.todo) == ("fail", "do this")
    assert "3.9.1 is not" in other.found
    lacks = executor("e", {"python": VERSION, "format": "", "error": "ImportError: no"}, "")
    assert "does not have the format: ImportError: no" in lacks.found


def test_an_interpreter_that_cannot_be_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)

    def probe(command: str) -> dict[str, Any]:
        raise FileNotFoundError(2, "No such file or directory", command)

    found = list(interpreters(probe))
    assert [one.state for one in found] == ["ok", "fail"]
    assert "/no/python cannot be run" in found[1].found


def test_a_database_that_does_not_answer_is_told_and_the_password_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")
    monkeypatch.setattr(doctor, "TIME_LIMIT", 0.5)
    dsn = "postgresql://reader:hunter2@127.0.0.1:1/db?connect_timeout=1"
    (found,) = reach("read", {"dsn": dsn, "stream": "S", "timeout": "1ms"})
    assert found.state == "fail"
    assert "check the option dsn" in found.todo
    assert "hunter2" not in found.text()


def test_options_that_are_wrong_are_reported() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")
    (found,) = reach("read", {"dsn": "env:DSN", "stream": "S", "colums": "a"})
    assert (found.what, found.state) == ("options", "fail")
    assert "did you mean columns?" in found.found


def test_a_target_table_whose_database_is_away_is_reported_by_its_field() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")
    pytest.importorskip("adbc_driver_postgresql", reason="needs the driver: '.[all-tests]'")
    from pyspark_jetstream.pipelines.declaration import Materialize, Source, Table

    dsn = "postgresql://me:hunter2@127.0.0.1:1/no?connect_timeout=1"
    source = Source(("S",), {"dsn": "env:NOT_SET"})
    one = Materialize("m", source, Table(dsn, "t"), "/c")

    *_, found = doctor.declared([one])

    assert (found.what, found.state) == ("target.dsn of materialize m", "fail")
    assert "target.dsn is set, expected a database that can be reached" in found.found
    assert "hunter2" not in found.text()


AWAY = {"servers": "nats://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("kind", "options", "wording"),
    [
        ("transform", {"maxMessagesPerTrigger": "5"}, ""),
        ("transform", {"asOfExact": "true"}, "it is an option of spark.read"),
        ("transform", {"consumer": "c"}, "none without mode=consumer"),
        ("transform", {"jsonMode": "FAILFAST"}, "none without payload=json"),
        ("archive", {"maxMessagesPerTrigger": "5"}, "is an option of spark.readStream"),
        ("archive", {"minPartitions": "0"}, "a whole number of at least 1"),
        ("archive", {"minPartitions": "2"}, ""),
        ("archive", {"servers": "http://h"}, "expected nats://host:port"),
        ("archive", {"colums": "a"}, "did you mean columns?"),
    ],
)
def test_the_doctor_and_check_report_the_same_about_options(
    kind: str, options: dict[str, str], wording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One check of options is that of the doctor, of `check`, of `run` and of the source."""
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")
    from pyspark_jetstream.pipelines.declaration import pipeline
    from pyspark_jetstream.pipelines.queries import check
    from pyspark_jetstream.values import InvalidOption

    monkeypatch.setattr(doctor, "TIME_LIMIT", 0.01)
    fields: dict[str, Any] = {"kind": kind, "name": "p", "target": {"path": "/p"}}
    fields["source"] = {"stream": "S", "options": {**AWAY, **options}}
    if kind == "transform":
        fields |= {"checkpoint": "/c", "sql": "select 1"}
    one = pipeline(fields)
    try:
        check(one)
        checked = ""
    except InvalidOption as error:
        checked = str(error)

    found = [f for f in doctor.declared([one]) if f.what.startswith("options")]

    assert wording in checked
    assert bool(wording) == bool(checked)
    assert [one.found for one in found] == ([checked] if checked else [])


def test_a_finding_is_a_line_and_what_to_do() -> None:
    text = Finding("Java", "fail", "8", "install 17").text()
    assert text == "fail  Java: 8\n      -> install 17"
