"""What can be declared as a pipeline, and what is said of a mistake."""

# Subject: Spark rows, Spark pipelines

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.pipelines.declaration import (
    Analytics,
    Archive,
    Bucket,
    Lake,
    Limits,
    Materialize,
    Purge,
    Replay,
    Snapshot,
    Source,
    Table,
    Target,
    Transform,
    pipeline,
)
from pyspark_jetstream.pipelines.fields import DeclarationError, delay
from pyspark_jetstream.pipelines.load import load
from pyspark_jetstream.pipelines.queries import check

ROOT = Path(__file__).resolve().parents[3]

ARCHIVE: dict[str, Any] = {
    "kind": "archive",
    "name": "lake",
    "source": {"stream": ["A", "B"], "options": {"dsn": "env:DSN", "filterSubjects": ["a.>"]}},
    "target": {"path": "/lake"},
}
REPLAY: dict[str, Any] = {
    "kind": "replay",
    "name": "again",
    "source": {"path": "/lake", "stream": "A"},
    "target": {"stream": "C"},
    "checkpoint": "/state",
}
MATERIALIZE: dict[str, Any] = {
    "kind": "materialize",
    "name": "latest",
    "source": {"stream": "A"},
    "target": {"bucket": "LATEST", "key": "lower(subject)"},
    "checkpoint": "/state",
}
TRANSFORM: dict[str, Any] = {
    "kind": "transform",
    "name": "minutes",
    "source": {"stream": "A"},
    "target": {"stream": "B"},
    "checkpoint": "/state",
    "sql": "select subject, data from input",
}
ANALYTICS: dict[str, Any] = {
    "kind": "analytics",
    "name": "numbers",
    "source": {"stream": "A"},
    "target": {"path": "/numbers"},
}


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ("10 seconds", "10 seconds"),
        ("1 hour 30 minutes", "1 hour 30 minutes"),
        ("INTERVAL 2 Days", "INTERVAL 2 Days"),
        ("0 seconds", "0 seconds"),
        ("1.5s", "1500 milliseconds"),
        ("1 s", "1000 milliseconds"),
        ("7d", "604800000 milliseconds"),
    ],
)
def test_a_delay_is_in_the_words_of_spark(late: str, words: str) -> None:
    check(pipeline(TRANSFORM | _REACHED | {"watermark": {"delay": late}}))
    assert delay(late) == words


_REACHED = {
    "source": {"stream": "A", "options": {"servers": "nats://h"}},
    "target": {"stream": "B", "options": {"servers": "nats://h"}},
}


@pytest.mark.parametrize("late", ["nonsense", "10 parsecs", "seconds", "-1 second", "1", "9" * 400])
def test_a_delay_that_is_none_is_named_by_check(late: str) -> None:
    with pytest.raises(DeclarationError, match=r"watermark.delay: is .*; expected a duration such"):
        check(pipeline(TRANSFORM | _REACHED | {"watermark": {"delay": late}}))


def test_a_target_that_is_no_connection_string_is_named_by_check() -> None:
    source = {"source": _REACHED["source"]}
    for dsn in ("x", "1s", "drop table x"):
        one = pipeline(MATERIALIZE | source | {"target": {"dsn": dsn, "table": "t"}})
        with pytest.raises(DeclarationError, match=r"target.dsn: is set; expected postgresql://"):
            check(one)
    for dsn in ("postgresql://h/d", "host=h", "env:NOT_SET"):
        check(pipeline(MATERIALIZE | source | {"target": {"dsn": dsn, "table": "t"}}))


@pytest.mark.parametrize("speed", [10**400, float("inf"), float("nan"), 0, -1])
def test_a_speed_that_is_no_number_of_a_pace_is_named(speed: float) -> None:
    with pytest.raises(DeclarationError, match=r"speed: is .*; expected a number above 0"):
        pipeline(REPLAY | {"speed": speed})


@pytest.mark.parametrize(
    "values", [{"batch": 10**400}, {"every": "9" * 400 + "s"}, {"every": "40000d"}]
)
def test_a_number_that_is_larger_than_any_use_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"(batch|every): is .*; expected a"):
        pipeline(ARCHIVE | values)


def test_an_archive_has_defaults() -> None:
    source = Source(("A", "B"), {"dsn": "env:DSN", "filterSubjects": "a.>"})
    assert pipeline(ARCHIVE) == Archive("lake", source, "/lake")


def test_an_archive_with_every_field() -> None:
    values = ARCHIVE | {
        "source": {"stream": "A", "startingPosition": "seq:7", "recreated": "restart"},
        "target": {"path": "s3://b/l", "format": "delta", "table": "db.t", "compression": "gzip"},
        "batch": 500,
        "every": "1.5m",
        "purge": {"keep": 10, "waitForConsumers": False, "options": {"servers": "nats://h"}},
    }
    assert pipeline(values) == Archive(
        "lake",
        Source(("A",), {}, "seq:7", "restart"),
        "s3://b/l",
        "delta",
        "db.t",
        "gzip",
        Limits(500, 90.0),
        Purge(10, False, {"servers": "nats://h"}),
    )


def test_the_other_kinds() -> None:
    again = pipeline(REPLAY | {"speed": 10, "first": 3, "last": 9, "window": "500ms"})
    assert again == Replay(
        "again", Lake("/lake", "A"), Target("C"), "/state", 3, 9, 10.0, 0.5, "", Limits(100_000)
    )
    latest = pipeline(MATERIALIZE)
    assert latest == Materialize(
        "latest", Source(("A",)), Bucket("LATEST", "lower(subject)"), "/state"
    )
    minutes = pipeline(TRANSFORM | {"watermark": {"delay": "10 seconds"}, "every": "2s"})
    assert minutes == Transform(
        "minutes",
        Source(("A",)),
        Target("B"),
        "/state",
        "select subject, data from input",
        "",
        ("timestamp", "10 seconds"),
        2.0,
    )
    numbers = pipeline(ANALYTICS | {"bucket": "10s", "events": "EVENTS"})
    assert numbers == Analytics("numbers", Source(("A",)), "/numbers", 10.0, 2, "EVENTS")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"dsn": "env:DSN", "table": "public.t"}, Table("env:DSN", "public.t")),
        ({"path": "/latest"}, Snapshot("/latest")),
    ],
)
def test_tables_that_can_be_materialized(target: dict[str, str], expected: object) -> None:
    latest = pipeline(MATERIALIZE | {"target": target})
    assert isinstance(latest, Materialize)
    assert latest.target == expected


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        (ARCHIVE | {"kind": "copy"}, "pipeline.kind", "is 'copy'; expected one of archive, replay"),
        (ARCHIVE | {"name": "a b"}, "pipeline.name", "is 'a b'; expected a name"),
        (ARCHIVE | {"chekpoint": 1}, "pipeline.chekpoint", "is no field; expected one of batch"),
        (ARCHIVE | {"batch": 0}, "pipeline.batch", "is 0; expected a whole number of at least 1"),
        (ARCHIVE | {"batch": True}, "pipeline.batch", "is True; expected a whole number"),
        (ARCHIVE | {"every": 5}, "pipeline.every", "is 5; expected a duration such as"),
        (ARCHIVE | {"target": {}}, "pipeline.target.path", "is missing; expected a directory"),
        (ARCHIVE | {"target": []}, "pipeline.target", "is a list; expected a mapping"),
        (ARCHIVE | {"source": {}}, "pipeline.source.stream", "is missing; expected the name"),
        (ARCHIVE | {"source": {"stream": "a.b"}}, "pipeline.source.stream", "is 'a.b'; expected"),
        (
            ARCHIVE | {"source": {"stream": "A", "options": {"stream": "B"}}},
            "pipeline.source.options.stream",
            "is not an option here",
        ),
        (
            ARCHIVE | {"target": {"path": "/l", "format": "delta"}},
            "pipeline.target.table",
            "is missing; expected a table",
        ),
        (
            ARCHIVE | {"target": {"path": "/l", "table": "t"}},
            "pipeline.target.table",
            "is 't'; expected a table such as db.messages, exactly if not parquet",
        ),
        (REPLAY | {"speed": -1}, "pipeline.speed", "is -1; expected a number above 0"),
        (REPLAY | {"first": 9, "last": 3}, "pipeline.last", "is 3; expected a whole number of at"),
        (
            REPLAY | {"source": {"stream": ["A", "B"]}},
            "pipeline.source.stream",
            "expected the name",
        ),
        (MATERIALIZE | {"target": {}}, "pipeline.target", "has none of them; expected exactly one"),
        (
            MATERIALIZE | {"target": {"path": "/p", "bucket": "B"}},
            "pipeline.target",
            "has path and bucket; expected exactly one of dsn, path, catalog, bucket",
        ),
        (
            MATERIALIZE | {"target": {"dsn": "env:D", "table": "a; drop"}},
            "pipeline.target.table",
            "is 'a; drop'; expected the name of a table",
        ),
        (MATERIALIZE | {"json": "a int"}, "pipeline.json", "to be left out where the target"),
        (TRANSFORM | {"sql": " "}, "pipeline.sql", "is ' '; expected a query over the view"),
        (ANALYTICS | {"depth": 0}, "pipeline.depth", "is 0; expected a whole number of at least 1"),
        (7, "pipeline", "is a int; expected a mapping of fields"),
    ],
)
def test_a_mistake_names_field_value_and_what_was_expected(
    values: object, field: str, words: str
) -> None:
    with pytest.raises(DeclarationError) as error:
        pipeline(values)
    assert error.value.field == field
    assert words in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"stream": "S", "options": "postgresql://me:s3cret@host/db"}},
        {"source": "postgresql://me:s3cret@host/db"},
        {"target": {"dsn": ["postgresql://me:s3cret@host/db"], "table": "t"}},
    ],
)
def test_a_connection_string_in_the_wrong_place_is_not_shown(change: dict[str, object]) -> None:
    made = {"kind": "materialize", "name": "m", "source": {"stream": "S"}, "checkpoint": "c"}
    with pytest.raises(DeclarationError) as told:
        pipeline({**made, "target": {"path": "p"}, **change})
    assert "s3cret" not in str(told.value)


def test_the_value_of_an_option_is_never_shown() -> None:
    options = {"auth.password": ["hunter2", 7], "dsn": "postgresql://u:hunter2@h/db"}
    with pytest.raises(DeclarationError) as error:
        pipeline(ARCHIVE | {"source": {"stream": "A", "options": options}})
    assert "auth.password: is a list" in str(error.value)
    assert "hunter2" not in str(error.value)
    del options["auth.password"]
    good = pipeline(ARCHIVE | {"source": {"stream": "A", "options": options}})
    assert "hunter2" not in repr(good)


def test_a_yaml_file_holds_one_pipeline_or_a_list(tmp_path: Path) -> None:
    one = tmp_path / "one.yaml"
    one.write_text("kind: archive\nname: a\nsource: {stream: A}\ntarget: {path: /lake}\n")
    assert load(one) == (Archive("a", Source(("A",)), "/lake"),)
    many = tmp_path / "many.yml"
    body = one.read_text().replace("\n", "\n    ")
    many.write_text(f"pipelines:\n  - {body}\n  - {body.replace('name: a', 'name: b')}\n")
    assert [p.name for p in load(many)] == ["a", "b"]


def test_a_python_file_names_mappings_or_classes(tmp_path: Path) -> None:
    file = tmp_path / "both.py"
    file.write_text(
        "from pyspark_jetstream.pipelines.declaration import Archive, Source\n"
        "pipelines = [Archive('a', Source(('A',)), '/lake'),\n"
        "  dict(kind='archive', name='b', source={'stream': 'A'}, target={'path': '/lake'})]\n"
    )
    assert [p.name for p in load(file)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.toml", "", "expected a file that ends in .yaml, .yml or .py"),
        ("p.yaml", "a: [", "line 1, column 5"),
        ("p.yaml", "pipelines: []", "pipelines: is no list with an entry"),
        ("p.yaml", "pipelines: [{kind: archive}]", "pipelines[0].name: is missing"),
        ("p.py", "other = 1", "pipelines: is no list with an entry"),
    ],
)
def test_a_file_that_declares_nothing_is_refused(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(DeclarationError) as error:
        load(file)
    assert words in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(DeclarationError, match="cannot be read: No such file"):
        load(tmp_path / "none.py")


def test_two_pipelines_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    file.write_text(f"pipelines = [{ARCHIVE!r}, {ARCHIVE!r}]")
    with pytest.raises(DeclarationError, match="'lake' is there twice"):
        load(file)


def test_pipelines_of_the_documents_can_be_run(tmp_path: Path) -> None:
    names = [one.name for one in load(ROOT / "examples/spark/host.yaml")]
    readme = (ROOT / "spark/README.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    assert (len(names), len(blocks)) == (2, 1)
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        for one in (*load(file), *load(ROOT / "examples/spark/host.yaml")):
            check(one)
