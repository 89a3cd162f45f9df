"""What a pipeline says about its run."""

# Subject: Spark rows, Spark pipelines

import io
import json

from pyspark_jetstream.pipelines.progress import Progress
from pyspark_jetstream.pipelines.report import Report, as_json, grid


def test_a_report_counts_messages_read_written_and_skipped() -> None:
    report = Report("lake", "archive", 1500, 1490, batches=2, seconds=0.5)
    report.skip("removed before they were read", 10)
    report.skip("nothing", 0)
    report.positions["DEB"] = 63666
    report.notes.append("the lake holds 2 files")
    report.tables.append(("rates", ["stream", "messages"], [["DEB", "63,666"], ["M", "7"]]))
    assert report.text().splitlines() == [
        "archive lake: done",
        "  read            1,500 in 2 batches, 0.5 s, 3,000 a second",
        "  written         1,490",
        "  skipped            10: 10 removed before they were read",
        "  DEB: done through sequence 63666",
        "  the lake holds 2 files",
        "",
        "  rates",
        "  stream  messages",
        "  DEB       63,666",
        "  M              7",
    ]
    assert json.loads(as_json([report]))["reports"][0]["skipped"] == {
        "removed before they were read": 10
    }


def test_a_failed_run_gives_the_reason() -> None:
    assert Report("a", "replay", failed="no server").text().startswith("replay a: failed: no ser")


def test_an_empty_table_has_its_columns() -> None:
    assert grid(["a", "bc"], []) == ["a  bc"]


def test_progress_prints_one_line_in_two_seconds() -> None:
    out, now = io.StringIO(), [100.0]
    progress = Progress("lake", out, lambda: now[0])
    for second in range(1, 7):
        now[0] = 100.0 + second
        progress.rows = 1000 * second
        progress.write("batch 1")
    assert out.getvalue().splitlines() == [
        "lake: 2,000 messages, 1,000 a second; batch 1",
        "lake: 4,000 messages, 1,000 a second; batch 1",
        "lake: 6,000 messages, 1,000 a second; batch 1",
    ]
