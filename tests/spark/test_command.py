"""The command as users run it: a process of its own, killed and started again."""

# Subject: Spark pipelines, Spark faults

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import spark as support

support.require()

import pyarrow.dataset as ds  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402

DECLARED = """
kind: archive
name: lake
source:
  stream: {stream}
  options: {{dsn: "env:ARCHIVE_DSN", maxMessagesPerPartition: 100}}
target: {{path: {lake}}}
batch: 200
"""
MESSAGES = 2000


@pytest.mark.thorough
def test_an_archive_holds_each_row_once_after_kill_9(feed: Feed, dsn: str, tmp_path: Path) -> None:
    feed.put(*(f"k.{n % 50}" for n in range(MESSAGES)))
    file, lake, report = tmp_path / "lake.yaml", tmp_path / "lake", tmp_path / "report.json"
    file.write_text(DECLARED.format(stream=feed.name, lake=lake))
    command = [sys.executable, "-m", "pyspark_jetstream", "run", str(file), "--report", str(report)]
    command += ["--master", "local[2]"]
    for name, value in support.SETTINGS.items():
        command += ["--conf", f"{name}={value}"]
    environment = support.environment() | {"ARCHIVE_DSN": dsn}
    journal = lake / "_jetstream/lake"
    with (tmp_path / "log").open("wb") as log:
        first = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            eventually(lambda: list(journal.glob("000000000003.*")), within=240)
        finally:
            os.killpg(first.pid, signal.SIGKILL)  # the driver, its Java and the tasks
            first.wait(30)
    assert not (journal / f"{MESSAGES // 200:012}.json").exists()

    second = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert second.returncode == 0, second.stdout + second.stderr
    assert "archive lake: done" in second.stdout
    assert dsn not in second.stdout + report.read_text()
    (told,) = json.loads(report.read_text())["reports"]
    assert told["positions"] == {feed.name: MESSAGES}
    assert 0 < told["read"] < MESSAGES
    rows = ds.dataset(lake, partitioning="hive", format="parquet").to_table(["seq"])
    assert sorted(rows["seq"].to_pylist()) == list(range(1, MESSAGES + 1))
    assert list(lake.rglob("*.staged")) == []
