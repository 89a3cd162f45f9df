"""What runs behind a pipeline that failed."""

# Subject: Spark rows

import io
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.pipelines import run as running
from pyspark_jetstream.pipelines.context import Context
from pyspark_jetstream.pipelines.declaration import Pipeline, pipeline
from pyspark_jetstream.pipelines.order import depends
from pyspark_jetstream.pipelines.report import Report


def archive(name: str, stream: str, path: str) -> Pipeline:
    return pipeline(
        {"kind": "archive", "name": name, "source": {"stream": stream}, "target": {"path": path}}
    )


def replay(name: str, source: dict[str, str], stream: str) -> Pipeline:
    to = {"target": {"stream": stream}, "checkpoint": "/c"}
    return pipeline({"kind": "replay", "name": name, "source": source, **to})


def transform(name: str, stream: str, target: dict[str, str], sql: str = "select 1") -> Pipeline:
    to = {"target": target, "checkpoint": "/c", "sql": sql}
    return pipeline({"kind": "transform", "name": name, "source": {"stream": stream}, **to})


def materialize(name: str, stream: str, target: dict[str, Any]) -> Pipeline:
    to = {"target": target, "checkpoint": "/c"}
    return pipeline({"kind": "materialize", "name": name, "source": {"stream": stream}, **to})


LAKE = archive("lake", "A", "/srv/lake")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (replay("r", {"path": "/srv/lake", "stream": "A"}, "B"), LAKE, True),
        (replay("r", {"path": "/srv/lake/", "stream": "A"}, "B"), LAKE, True),
        (replay("r", {"path": "/srv/lake2", "stream": "A"}, "B"), LAKE, False),
        (replay("r", {"stream": "A"}, "B"), LAKE, False),
        (archive("a", "B", "/x"), replay("r", {"stream": "A"}, "B"), True),
        (archive("a", "C", "/x"), replay("r", {"stream": "A"}, "B"), False),
        (archive("a", "KV_b", "/x"), materialize("m", "A", {"bucket": "b"}), True),
        (transform("t", "B", {"path": "/y"}), transform("s", "A", {"stream": "B"}), True),
        (transform("t", "C", {"path": "/y"}, "select * from parquet.`/srv/lake`"), LAKE, True),
        (
            transform("t", "C", {"path": "/y"}, "select * from latest"),
            materialize("m", "A", {"dsn": "env:D", "table": "public.latest"}),
            True,
        ),
        (
            pipeline(
                {
                    "kind": "analytics",
                    "name": "n",
                    "source": {"stream": "A"},
                    "target": {"path": "/n"},
                    "events": "B",
                }
            ),
            transform("s", "A", {"stream": "B"}),
            True,
        ),
    ],
)
def test_a_pipeline_depends_on_what_it_reads(
    one: Pipeline, other: Pipeline, expected: bool
) -> None:
    assert depends(one, other) == expected


def reports(
    patch: pytest.MonkeyPatch, pipelines: list[Pipeline], fails: set[str], *, keep_going: bool
) -> list[Report]:
    def dispatch(one: Pipeline, context: Context) -> None:
        if one.name in fails:
            raise ValueError("no server")

    patch.setattr(running, "_dispatch", dispatch)
    out = io.StringIO()
    return running.run(pipelines, cast(Any, None), keep_going=keep_going, out=out)


FILE = [
    archive("first", "X", "/x"),
    LAKE,
    replay("again", {"path": "/srv/lake", "stream": "A"}, "B"),
    archive("more", "B", "/b"),
    archive("other", "C", "/c"),
]


def test_those_behind_a_failure_are_reported_as_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reports(monkeypatch, FILE, {"lake"}, keep_going=False)

    assert [one.pipeline for one in found] == ["first", "lake", "again", "more", "other"]
    assert [one.text().splitlines()[0] for one in found] == [
        "archive first: done",
        "archive lake: failed: no server",
        "replay again: not run, because lake failed",
        "archive more: not run, because lake failed",
        "archive other: not run, because lake failed",
    ]
    assert found[2].values()["not_run"] == "because lake failed"


def test_those_that_do_not_depend_on_it_run_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = reports(monkeypatch, FILE, {"lake"}, keep_going=True)

    assert [one.text().splitlines()[0] for one in found][2:] == [
        "replay again: not run, because lake failed",
        "archive more: not run, because lake failed",
        "archive other: done",
    ]
