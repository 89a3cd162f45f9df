"""Analyse the package index in Spark, and draw it beside the load of this machine.

    python examples/spark/report.py [--lake .jetgate/lake] [--svg report.svg]

The stream DEB (examples/packages.py) is read from the database that JETGATE_DSN names, in one batch
query; the windows of the stream HOSTS come from the Parquet files that the pipelines of host.yaml
have archived.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark_jetstream.pipelines.report import grid
from pyspark_jetstream.pipelines.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = "Package string, Section string, `Installed-Size` string, Depends string"
WIDTH, HEIGHT, LEFT = 880, 300, 150

Points = Sequence[tuple[str, float]]


def packages(spark: "SparkSession") -> "DataFrame":
    """The packages of the stream DEB, one row each."""
    options = {"dsn": "env:JETGATE_DSN", "stream": "DEB", "payload": "json", "jsonSchema": FIELDS}
    rows = spark.read.format("jetstream").options(**options).option("columns", "data").load()
    return rows.select("data.*")


def sections(index: "DataFrame") -> "DataFrame":
    """How many packages a section has, and how much room they take when installed."""
    size = f.sum(f.col("Installed-Size").cast("bigint")) * 1024 / 1e9
    grouped = index.groupBy(f.col("Section").alias("section"))
    found = grouped.agg(f.count("*").alias("packages"), f.round(size, 1).alias("gigabytes"))
    return found.orderBy(f.desc("gigabytes"), "section")


def needed(index: "DataFrame") -> "DataFrame":
    """The packages that the most other packages depend on."""
    entries = index.select("Package", f.explode(f.split("Depends", "[,|]")).alias("entry"))
    name = f.regexp_extract(f.trim("entry"), "^[^ :(]+", 0).alias("name")
    names = entries.select("Package", name)
    grouped = names.distinct().groupBy(f.col("name").alias("needed"))
    return grouped.agg(f.count("*").alias("by_packages")).orderBy(f.desc("by_packages"), "needed")


def load(spark: "SparkSession", lake: str, column: str) -> Points:
    """A column of the windows of the stream HOSTS, in order of time."""
    rows = spark.read.parquet(lake).where("stream = 'HOSTS'").select("data").collect()
    windows = [json.loads(row["data"]) for row in rows]
    return sorted((one["begin"], one[column]) for one in windows if column in one)


def bars(points: Points, title: str) -> list[str]:
    """Horizontal bars with their names and values, as lines of SVG."""
    most = max(value for _, value in points)
    step = (HEIGHT - 40) / len(points)
    lines = [f'<text x="0" y="16" class="title">{title}</text>']
    for place, (name, value) in enumerate(points):
        top = 32 + place * step
        width = (WIDTH - LEFT - 60) * value / most
        middle = top + step * 0.55
        lines += [
            f'<text x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{top:.0f}" width="{width:.0f}" height="{step * 0.7:.0f}"/>',
            f'<text x="{LEFT + width + 6:.0f}" y="{middle:.0f}">{value:,.1f}</text>',
        ]
    return lines


def line(points: Points, title: str) -> list[str]:
    """A line over time, as lines of SVG."""
    most = max(value for _, value in points)
    least = min(value for _, value in points)
    most += most == least
    across = (WIDTH - 90) / max(1, len(points) - 1)
    bottom, height = HEIGHT - 24, HEIGHT - 64
    places = [
        (60 + place * across, bottom - height * (value - least) / (most - least))
        for place, (_, value) in enumerate(points)
    ]
    lines = [f'<text x="0" y="16" class="title">{title}</text>']
    for part in (0, 0.5, 1):
        y, value = bottom - height * part, least + (most - least) * part
        lines.append(f'<text x="52" y="{y + 4:.0f}" text-anchor="end">{value:,.0f}</text>')
        lines.append(f'<path d="M60 {y:.0f}H{WIDTH - 20}" class="rule"/>')
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
    lines.append(f'<polyline points="{path}"/>')
    for (x, _), (begin, _) in list(zip(places, points, strict=True))[:: max(1, len(points) // 6)]:
        lines.append(f'<text x="{x:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{begin}</text>')
    return lines


def draw(above: list[str], below: list[str]) -> str:
    """Two drawings, one above the other, as a document of SVG."""
    style = (
        "text{font:12px sans-serif;fill:#444}.title{font-weight:bold}rect{fill:#3b7dd8}"
        "polyline{fill:none;stroke:#d8603b;stroke-width:2}.rule{stroke:#ddd}"
    )
    total = 2 * HEIGHT + 40
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 {WIDTH + 20} {total}">',
            f"<style>{style}</style>",
            f'<rect x="-10" y="-10" width="{WIDTH + 20}" height="{total}" style="fill:#fff"/>',
            *above,
            f'<g transform="translate(0 {HEIGHT + 20})">',
            *below,
            "</g></svg>\n",
        ]
    )


def show(rows: "DataFrame", count: int) -> None:
    """Print the first rows as a table."""
    shown = [
        [f"{value:,}" if isinstance(value, int) else str(value) for value in row]
        for row in rows.take(count)
    ]
    print("\n".join(grid(rows.columns, shown)) + "\n")


def main() -> None:
    """Print the tables and write the drawing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lake", default=".jetgate/lake")
    parser.add_argument("--svg", type=Path, default=Path("report.svg"))
    options = parser.parse_args()
    if "JETGATE_DSN" not in os.environ:
        parser.error("set JETGATE_DSN to the address that `jetgate dev` prints behind psql")
    if not Path(options.lake).is_dir():
        parser.error(f"--lake: {options.lake} is no directory: run the pipelines of host.yaml")
    if options.svg.is_dir() or not options.svg.absolute().parent.is_dir():
        parser.error(f"--svg: {options.svg} is no file in a directory that is there")
    spark = open_session("packages")
    index = packages(spark).cache()
    print(f"{index.count():,} packages\n")
    show(sections(index), 10)
    show(needed(index), 5)
    largest = [(row["section"], row["gigabytes"]) for row in sections(index).take(10)]
    busy = load(spark, options.lake, "busy_percent")
    free = load(spark, options.lake, "available_mb")
    spark.stop()
    print(f"{len(busy)} windows of five seconds, CPUs busy up to {max(v for _, v in busy)} %")
    above = bars(largest, "Installed size of Debian's packages by section, gigabytes")
    options.svg.write_text(
        draw(above, line(free, "Available memory, megabytes, by windows of five seconds"))
    )
    print(f"drawn into {options.svg}")


if __name__ == "__main__":
    main()
