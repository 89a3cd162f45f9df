"""The page of compatibility: features of `features.toml`, and verdicts from a run of tests."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.model.release import SERVER_VERSION
from tests.support.jetgate import ROOT

TABLE = Path(__file__).parent / "features.toml"
PAGE = ROOT / "docs" / "compatibility.md"

SAME = f"same as nats-server {SERVER_VERSION}"
ALONE = "served; nothing to compare"
FAILS = "**fails**"

_TRANSCRIPT = "tests/wire/test_transcripts.py::test_transcript[*-{}]"
_CONFIGURED = "tests/wire/test_configured.py::test_transcripts[{}-*]"


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table.

    Args:
        name: The feature, in words.
        tests: Patterns of test ids; `pull/*` stands for transcripts, `configured/x` for transcripts
            of a server with a configuration.
        adr: Numbers of the architecture decision records (ADRs) of NATS.
        since: The first release of nats-server with the feature.
        document: The statement of an ADR from which the server differs.
        server: The behaviour of nats-server instead.
        differs: The reason why jetgate differs from nats-server.
        refused: True if jetgate does not serve the feature.
    """

    name: str
    tests: tuple[str, ...]
    adr: tuple[int, ...] = ()
    since: str = ""
    document: str = ""
    server: str = ""
    differs: str = ""
    refused: bool = False

    @property
    def patterns(self) -> Iterator[tuple[str, re.Pattern[str]]]:
        """Each pattern as written and as compiled."""
        for written in self.tests:
            full = written
            if written.startswith("configured/"):
                full = _CONFIGURED.format(written.removeprefix("configured/"))
            elif not written.startswith("tests/"):
                full = _TRANSCRIPT.format(written)
            elif "::" not in written:
                full = written + "*"
            yield written, re.compile(re.escape(full).replace(r"\*", ".*"))


@dataclass(slots=True)
class Section:
    """A heading with its rows."""

    title: str
    features: list[Feature] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """The results of a run of the tests.

    Args:
        outcomes: `passed`, `failed` or `skipped`, by test id.
        compared: Ids of the tests that use nats-server.
        refusals: Text of the refusal that a test observed, by test id.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    refusals: dict[str, str] = field(default_factory=dict)


class NotRun(Exception):
    """A feature whose tests did not run, or not all of them."""


def load() -> list[Section]:
    """Return the sections of the table, in order."""
    document: dict[str, list[dict[str, Any]]] = tomllib.loads(TABLE.read_text())
    return [Section(title, [_feature(row) for row in rows]) for title, rows in document.items()]


def _feature(row: Mapping[str, Any]) -> Feature:
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Feature(**given)


def verdict(feature: Feature, run: Run) -> str:
    """Return the verdict of a feature's tests. Raises NotRun when one of its patterns has none."""
    ids = _tests_of(feature, run)
    if any(run.outcomes[test] == "failed" for test in ids):
        return FAILS
    if feature.refused:
        output = sorted({run.refusals[test] for test in ids if test in run.refusals})
        if not output:
            raise NotRun(f"{feature.name}: no test tells what it is refused with")
        return "not served: " + "; ".join(output)
    if feature.differs:
        return f"differs: {feature.differs}"
    return SAME if run.compared.intersection(ids) else ALONE


def _tests_of(feature: Feature, run: Run) -> list[str]:
    ids: list[str] = []
    for written, pattern in feature.patterns:
        found = [
            t for t, output in run.outcomes.items() if output != "skipped" and pattern.fullmatch(t)
        ]
        if not found:
            raise NotRun(f"{feature.name}: {written}")
        ids += found
    return ids


def render(sections: Iterable[Section], run: Run) -> str:
    """Return the page. Raises NotRun when the run did not cover it."""
    lines = [*INTRODUCTION]
    for section in sections:
        lines += ["", f"## {section.title}", ""]
        if any(feature.document for feature in section.features):
            lines += ["| document | requirement | the server does | verdict | tests |"]
        else:
            lines += ["| feature | ADR | since | verdict | tests |"]
        lines += ["|---|---|---|---|---|"]
        lines += [row(feature, verdict(feature, run)) for feature in section.features]
    return "\n".join(lines) + "\n"


def row(feature: Feature, output: str) -> str:
    """Return one line of the page, with the verdict `said`."""
    adr = ", ".join(map(str, feature.adr))
    cells = [feature.name, adr, feature.since]
    if feature.document:
        cells = [f"ADR-{adr}" if adr else feature.name, feature.document, feature.server]
    return "| " + " | ".join([*cells, output, links(feature)]) + " |"


def links(feature: Feature) -> str:
    """Return links to the tests of a feature, each file once."""
    found: dict[str, str] = {}
    for written in feature.tests:
        if written.startswith("tests/"):
            place = written.split("::")[0]
            found.setdefault(place, Path(place).stem.removeprefix("test_"))
        elif written.startswith("configured/"):
            found.setdefault(f"tests/wire/{written}", written)
        else:
            folder, name = written.split("/")
            place = f"tests/wire/data/{folder}" + ("" if "*" in name else f"/{name}.txt")
            found.setdefault(place, written)
    return ", ".join(f"[`{label}`](../{place})" for place, label in found.items())


INTRODUCTION = (
    "# Compatibility",
    "",
    f"Each feature of jetgate, judged by nats-server {SERVER_VERSION}. `python -m tests.compat`",
    "runs the tests of each row and writes the verdicts. A complete `pytest` fails when this page",
    "differs from its results. *Same* means that the tests of the row passed with both servers.",
    "Transcripts must agree byte by byte; [coverage.toml](../tests/wire/coverage.toml) lists their",
    "required subjects, errors, statuses and headers.",
)
