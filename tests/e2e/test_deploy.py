"""The alerts, the dashboard and the document speak of the metrics that there are, and of all."""

# Subject: operations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.test_commands import ROOT, Process, request
from tests.e2e.test_operations import create_and_publish
from tests.support.pg import PostgresServer

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
_PARTS = ("lhs", "rhs", "expr", "args", "vector_selector")
_BY_PROMETHEUS = {"up"}
_METRIC = re.compile(r"`((?:jetgate|process)_\w+)`")


@pytest.fixture(scope="module")
def families(
    durable: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What `/metrics` of a node gives that leads and has stored something: name and type."""
    flags = ("--dsn", durable.fresh_database(), "--nats-port", "0", "--http-port", "0")
    with Process("serve", *flags, data=tmp_path_factory.mktemp("deploy")) as process:
        create_and_publish(process.ports)
        status, text = request(process.ports, "GET", "/metrics")
        assert status == 200
        yield {family.name: family.type for family in text_string_to_metric_families(text)}


def samples(families: dict[str, str]) -> set[str]:
    """The names that an expression may have."""
    return {name + end for name, kind in families.items() for end in _SUFFIXES.get(kind, ("",))}


def selected(node: Any) -> set[str]:
    """The metrics that a parsed expression names."""
    found: set[str] = set()
    if isinstance(node, promql_parser.VectorSelector) and node.name:
        found.add(node.name)
    for part in _PARTS:
        value = getattr(node, part, None)
        for each in value if isinstance(value, list) else [value] if value is not None else []:
            found |= selected(each)
    return found


def named(expression: str) -> set[str]:
    text = expression.replace("$__rate_interval", "5m").replace("$job", "jetgate")
    found = selected(promql_parser.parse(text))
    assert found, expression
    return found - _BY_PROMETHEUS


def test_alerts_name_metrics_that_there_are(families: dict[str, str]) -> None:
    [group] = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())["groups"]
    rules = group["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert named(rule["expr"]) <= samples(families), rule["alert"]


def test_the_dashboard_names_metrics_that_there_are(families: dict[str, str]) -> None:
    board = json.loads((ROOT / "deploy/grafana/jetgate.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            assert named(target["expr"]) <= samples(families), panel["title"]


def test_the_document_explains_every_metric(families: dict[str, str]) -> None:
    text = (ROOT / "docs/operations.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    explained = {name for row in rows for name in _METRIC.findall(row)}
    there = {f"{name}_total" if kind == "counter" else name for name, kind in families.items()}

    assert explained == there


def test_each_row_with_a_threshold_has_an_alert() -> None:
    [group] = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())["groups"]
    alerted = set().union(*(named(rule["expr"]) for rule in group["rules"]))
    lines = (ROOT / "docs/operations.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| `")]
    without = [
        row[1]
        for row in rows
        if re.match(r"`(jetgate|process)_", row[1])
        and not row[4].startswith(("–", "yours: "))
        and not any(
            metric.startswith(each) for each in _METRIC.findall(row[1]) for metric in alerted
        )
    ]

    assert without == []


def test_the_rules_and_the_dashboard_are_at_the_places_in_the_document() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    for path in ("deploy/prometheus/rules.yml", "deploy/grafana/jetgate.json"):
        assert f"../{path}" in text
        assert Path(ROOT / path).exists()
