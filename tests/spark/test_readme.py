"""The lines about Spark in docs/examples.md, run as they stand."""

# Subject: Spark cluster

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import spark as support
from tests.support.jetgate import ROOT, JetgateServer

support.require()

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = ROOT / "tests/e2e/data/dumpavail.txt"


def test_the_lines_of_the_examples_print_a_table_of_sections(
    jetgate_server: JetgateServer, spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    url = "nats://{}:{}".format(*jetgate_server.address)
    example = [sys.executable, "examples/packages.py", "--server", url, "--file", str(RECORDED)]
    subprocess.run(example, cwd=ROOT, check=True, capture_output=True, timeout=120)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/examples.md").read_text(), re.DOTALL)
    (lines,) = (block for block in blocks if "pyspark" in block)

    exec(lines.replace("nats://127.0.0.1:4222", url), {})

    printed = capsys.readouterr().out
    assert re.search(r"\| *section\|packages\|mib\|", printed)
    counted = spark.sql("select count(*), count(data.Package) from packages").first()
    assert counted is not None
    assert counted[0] == counted[1] == RECORDED.read_text().count("\nPackage: ") + 1
