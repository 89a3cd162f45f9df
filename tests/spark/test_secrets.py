"""No secret is where Spark shows or keeps what a query is: plans, UI, event log, checkpoint."""

# Subject: Spark cluster

import io
import json
import os
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

from pyspark_jetstream.pipelines.declaration import pipeline  # noqa: E402
from pyspark_jetstream.pipelines.load import load  # noqa: E402
from pyspark_jetstream.pipelines.report import as_json  # noqa: E402
from pyspark_jetstream.pipelines.run import run  # noqa: E402

from tests.spark.feeds import DSN, SECRET, TOKEN, Feed  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFERENCES = ["file", "env", "inline"]


def shown(spark: "SparkSession", since: int) -> str:
    """Every page of the UI, and every answer of its API, that tells of queries.

    Args:
        spark: The session.
        since: The number of the first query that is meant.
    """
    context = spark.sparkContext
    base = context.uiWebUrl
    assert base is not None
    api = f"{base}/api/v1/applications/{context.applicationId}"
    executions = _get(f"{api}/sql?details=true&planDescription=true&offset={since}&length=1000")
    count = executions.count('"planDescription"')
    pages = [f"{base}/SQL/execution/?id={since + number}" for number in range(count)]
    pages += [
        f"{base}/{page}/" for page in ("jobs", "stages", "SQL", "StreamingQuery", "environment")
    ]
    pages += [f"{api}/{answer}" for answer in ("jobs", "stages", "environment")]
    assert count > 2
    return executions + "".join(map(_get, pages))


def queries(spark: "SparkSession") -> int:
    """How many queries the session has run."""
    context = spark.sparkContext
    api = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    return _get(f"{api}/sql?details=false&length=100000").count('"planDescription"')


def reference(kind: str, name: str, place: Path) -> str:
    """A secret of the environment, as an option has it."""
    if kind == "env":
        return f"env:{name}"
    if kind == "inline":
        return os.environ[name]
    kept = place / name
    kept.write_text(os.environ[name])
    return f"file:{kept}"


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def files(*places: Path) -> str:
    """The bytes of all files below, as text."""
    found = [at.read_bytes() for place in places for at in place.rglob("*") if at.is_file()]
    assert found
    return b"\n".join(found).decode("latin-1")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.thorough) for kind in REFERENCES[:-1]] + ["inline"],
)
def test_a_password_is_nowhere(
    spark: "SparkSession",
    feed: Feed,
    kind: str,
    event_log: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    feed.put(*"abc")
    since = queries(spark)
    given = {
        "stream": feed.name,
        "dsn": reference(kind, DSN, tmp_path),
        "startingPosition": "earliest",
    }

    frame = spark.read.format("jetstream").options(**given).load()
    frame.createOrReplaceTempView("feed")
    spark.sql("select subject, count(*) from feed group by subject").collect()
    frame.explain("extended")
    frame.explain("formatted")
    plans = str(frame._jdf.queryExecution()) + frame._jdf.queryExecution().logical().toJSON()
    query = (
        spark.readStream.format("jetstream")
        .options(**given)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    query.explain(extended=True)
    with pytest.raises(Exception, match="was not found") as told:
        spark.read.format("jetstream").options(**{**given, "stream": "NOT_HERE"}).load().count()

    printed = capfd.readouterr()
    progress = "".join(one.json for one in query.recentProgress)
    assert SECRET not in plans + progress + str(told.value) + printed.out + printed.err
    assert SECRET not in shown(spark, since)
    assert SECRET not in files(tmp_path / "checkpoint", tmp_path / "out")
    assert SECRET not in files(event_log)


def declared(feed: Feed, other: Feed, by_sql: str, by_nats: dict[str, str], place: Path) -> Any:
    """Pipelines that read and write in every way that takes a secret."""

    def made(kind: str, name: str, options: dict[str, str], **fields: Any) -> dict[str, Any]:
        source = {"stream": feed.name, "options": options}
        if kind != "archive":
            fields["checkpoint"] = str(place / name)
        return {"kind": kind, "name": name, "source": source, **fields}

    written = {"stream": other.name, "options": by_nats}
    table = {"dsn": by_sql, "table": f"public.secret_{feed.name.lower()}"}
    kept = {"keep": 3, "options": by_nats}
    return [
        made("archive", "lake", {"dsn": by_sql}, target={"path": str(place / "lake")}, purge=kept),
        made("materialize", "table", by_nats, target=table),
        made(
            "transform",
            "copy",
            {"dsn": by_sql},
            target=written,
            sql=f"select '{other.name}.x' as subject, data from input",
        ),
    ]


@pytest.mark.parametrize("kind", ["env", pytest.param("inline", marks=pytest.mark.thorough)])
def test_a_secret_of_a_pipeline_is_nowhere(
    spark: "SparkSession",
    feed: Feed,
    jetgate_server: JetgateServer,
    kind: str,
    event_log: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    feed.put(*"abc")
    since, out = queries(spark), io.StringIO()
    by_nats = {
        "servers": "nats://{}:{}".format(*jetgate_server.address),
        "auth.token": reference(kind, TOKEN, tmp_path),
    }
    file, kept = tmp_path / "pipelines.yaml", tmp_path / "kept"
    with Feed(jetgate_server) as other:
        pipelines = declared(feed, other, reference(kind, DSN, tmp_path), by_nats, kept)
        file.write_text(json.dumps({"pipelines": pipelines}))
        reports = run(load(file), spark, out=out)
        assert [(one.failed, one.written) for one in reports] == [("", 3)] * 3
        assert other.info()["messages"] == 3

    told = as_json(reports) + "".join(one.text() for one in reports) + out.getvalue()
    printed = capfd.readouterr()
    assert SECRET not in told + repr(load(file)) + printed.out + printed.err
    assert SECRET not in shown(spark, since)
    assert SECRET not in files(kept)
    assert SECRET not in files(event_log)


def test_a_pipeline_that_fails_discloses_no_secret(
    spark: "SparkSession", feed: Feed, dsn: str, tmp_path: Path
) -> None:
    feed.put("a")
    source = {"stream": feed.name, "options": {"dsn": dsn}}
    away = {"servers": "nats://127.0.0.1:1", "auth.token": SECRET, "retries": 0, "timeout": "1s"}
    wrong: list[dict[str, Any]] = [
        {"source": {"stream": "NOT_HERE", "options": {"dsn": f"{dsn}&password={SECRET}"}}},
        {"source": {"stream": feed.name, "options": {"dsn": f"nothing {SECRET}", "timeout": "0s"}}},
        {"source": {"stream": feed.name, "options": away}},
        {"target": {"dsn": f"postgresql://me:{SECRET}@127.0.0.1:1/no", "table": "t"}},
        {"target": {"dsn": f"{SECRET} is no dsn", "table": "t"}},
    ]
    for place, fields in enumerate(wrong):
        made = {
            "kind": "materialize",
            "name": f"wrong{place}",
            "source": source,
            "target": {"path": str(tmp_path / "out")},
            "checkpoint": str(tmp_path / "checkpoint"),
            **fields,
        }
        (report,) = run([pipeline(made)], spark, out=io.StringIO())
        assert report.failed
        assert SECRET not in report.text() + as_json([report])
    assert SECRET not in files(tmp_path / "checkpoint")
