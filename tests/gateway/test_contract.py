"""The contract: what is committed is what is served, whole, and about what is there."""

# Subject: HTTP, HTTP contract

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for
from openapi_spec_validator import validate

from core.model.api_errors import TABLE
from gateway.contract.examples import recorded
from gateway.contract.kinds import KINDS
from gateway.contract.openapi import problems_of
from gateway.contract.remedies import BY_STATUS, REMEDIES
from gateway.http.problems import PREFIX, kind_of
from gateway.routes import ROUTES
from tests.gateway import examples
from tests.gateway.web import Web

ROOT = Path(__file__).resolve().parents[2]
HINT = "run python -m gateway.contract"
FALLBACK = "jetstream"


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The OpenAPI document that is committed."""
    read: dict[str, Any] = json.loads((ROOT / "openapi" / "openapi.json").read_bytes())
    return read


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
def test_the_committed_contract_is_the_served_one(web: Web, name: str) -> None:
    answer = web.get(f"/{name}")

    assert answer.headers["content-type"] == "application/json"
    assert answer.body == (ROOT / "openapi" / name).read_bytes(), HINT


def test_the_document_is_openapi(document: dict[str, Any]) -> None:
    validate(document)


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
def test_every_reference_leads_somewhere_and_nothing_is_left_over(name: str) -> None:
    text = (ROOT / "openapi" / name).read_text()
    document = json.loads(text)
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', text))

    for reference in references:
        place = document
        for part in reference.split("/"):
            place = place[part]
    if name == "openapi.json":
        components = document["components"]
        kinds = ("schemas", "parameters", "responses", "headers")
        made = {f"components/{kind}/{each}" for kind in kinds for each in components[kind]}
        statuses = {each for each in made if each.startswith("components/responses/")}
        assert made - references - statuses == set()


def test_the_page_of_http_lists_every_status_of_a_problem() -> None:
    table = (ROOT / "docs" / "http.md").read_text().partition("| Status | Means |")[2]
    listed = {
        int(code)
        for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
        for code in row.split(", ")
    }

    assert listed >= {status for kind in KINDS.values() for status in kind.statuses}


def test_bodies_have_names(document: dict[str, Any]) -> None:
    for place, content in _contents(document):
        for media_type, said in content.items():
            assert set(said["schema"]) == {"$ref"}, (place, media_type)
    for name, schema in document["components"]["schemas"].items():
        for member, said in schema.get("properties", {}).items():
            assert "properties" not in said, (name, member)
            assert len(said.get("enum", ())) < 2, (name, member)


def _contents(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                yield f"{method} {path}", operation["requestBody"]["content"]
            for answer in operation["responses"].values():
                yield f"{method} {path}", answer.get("content", {})


def test_examples_are_what_they_are_examples_of(document: dict[str, Any]) -> None:
    components = {"components": document["components"]}
    shown = 0
    for place, content in _contents(document):
        for media_type, said in content.items():
            for example in said.get("examples", {}).values():
                shown += 1
                values = [example["value"]]
                schema = said["schema"]
                if "x-line" in said:
                    schema = said["x-line"]
                    values = [json.loads(line) for line in str(example["value"]).splitlines()]
                validator = validator_for({**schema, **components})
                for value in values:
                    assert validator.is_valid(value), (place, media_type, value)
    assert shown > 60


def test_examples_are_answered_so() -> None:
    with examples.server() as web:
        found = examples.answered(web)

    for example, answer in zip(recorded(), found, strict=True):
        assert answer.operation == example.operation
        assert answer.status == example.status, example.title
        assert answer.answer_type == example.answer_type, example.title
        assert examples.shape(answer.answer) == examples.shape(example.answer), example.title


def test_every_answer_may_have_the_rate_limit(document: dict[str, Any]) -> None:
    refusals = document["components"]["responses"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if operation.get("security") == []:
                continue
            for status, answer in operation["responses"].items():
                shown = refusals[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
                assert {"RateLimit", "RateLimit-Policy"} <= set(shown["headers"]), (path, status)


def test_operations_have_ids_that_stay(document: dict[str, Any]) -> None:
    found = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]

    assert sorted(found) == sorted(row.id for row in ROUTES)
    assert len(set(found)) == len(found)
    assert [each for each in found if not re.fullmatch("[a-z]+([A-Z][a-z]*)*", each)] == []


def test_the_kinds_of_problems_are_those_that_the_code_raises() -> None:
    raised = {kind for path in _sources() for kind in _raised(path)}
    refused = {kind_of(row.err_code) for row in TABLE.values()}

    assert set(KINDS) - refused - {FALLBACK} == raised - refused, "gateway/contract/kinds.py"
    assert refused <= set(KINDS)


def _sources() -> Iterator[Path]:
    for package in ("gateway", "jetgate"):
        for path in (ROOT / package).rglob("*.py"):
            if "contract" not in path.relative_to(ROOT).parts:
                yield path


def _raised(path: Path) -> Iterator[str]:
    """The kinds that are arguments of a Problem, or written out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = {"Problem": 1, "bad_request": 0, "unauthorized": 1}.get(node.func.id)
            if node.func.id == "unauthorized" and len(node.args) == 1:
                yield "unauthorized"
                continue
            if place is not None and isinstance(kind := node.args[place], ast.Constant):
                yield str(kind.value)
        elif (
            isinstance(node, ast.Constant)
            and str(node.value).startswith(PREFIX)
            and node.value != PREFIX
        ):
            yield str(node.value).removeprefix(PREFIX)


def test_routes_name_kinds_that_there_are() -> None:
    named = {kind for row in ROUTES for kind in problems_of(row)}

    assert named - set(KINDS) == set()


def test_every_problem_has_a_page(web: Web) -> None:
    listed = web.get("/docs/problems").body.decode()

    for kind in KINDS:
        answer = web.get(f"/docs/problems/{kind}")
        assert answer.status == 200
        text = answer.body.decode()
        assert f"{PREFIX}{kind}" in text
        happened, todo = re.findall(r"<h2>What [^<]+</h2><p>(.+?)</p>", text)
        assert happened.endswith((".", ")")), kind
        assert todo.endswith("."), kind
        assert todo != happened, kind
        assert "{" not in happened + todo, kind
        assert f"/docs/problems/{kind}" in listed
    assert web.get("/docs/problems/no-such-kind").status == 404


class _Assets(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "link", "img", "iframe", "object", "embed"):
            self.loaded.append(tag)
        if tag == "a":
            self.links.append(values["href"] or "")
        if values.get("id"):
            self.ids.add(str(values["id"]))


def test_advice_is_about_kinds_that_there_are() -> None:
    assert set(REMEDIES) - set(KINDS) == set()
    assert {status for kind in KINDS.values() for status in kind.statuses} <= (
        set(BY_STATUS) | {KINDS[name].status for name in REMEDIES}
    )


def test_no_link_of_the_pages_is_dead(web: Web) -> None:
    pages: dict[str, _Assets] = {}
    waiting, fragments = ["/docs"], set[tuple[str, str]]()
    while waiting:
        path = waiting.pop()
        answer = web.get(path)
        assert answer.status == 200, path
        pages[path] = page = _Assets()
        if path.endswith(".json"):
            continue
        page.feed(answer.body.decode())
        for link in page.links:
            place, _, fragment = link.partition("#")
            place = place or path
            fragments |= {(place, fragment)} if fragment else set()
            if place not in pages and place not in waiting:
                waiting.append(place)

    assert {path.rpartition("/")[2] for path in pages} >= set(KINDS)
    assert [each for each in sorted(fragments) if each[1] not in pages[each[0]].ids] == []


@pytest.mark.parametrize("path", ["/docs", "/docs/problems", "/docs/problems/no-stream"])
def test_pages_load_nothing_and_lead_somewhere(web: Web, path: str) -> None:
    answer = web.get(path)
    text = answer.body.decode()
    page, reference = _Assets(), _Assets()
    page.feed(text)
    reference.feed(web.get("/docs").body.decode())

    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert page.loaded == []
    assert "url(" not in text
    assert "@import" not in text
    assert page.links
    for link in page.links:
        place, _, fragment = link.partition("#")
        assert place.startswith("/") or not place, link
        if fragment:
            assert fragment in (page if not place else reference).ids, link


def test_every_operation_is_on_the_page(web: Web) -> None:
    text = web.get("/docs").body.decode()

    assert [row.id for row in ROUTES if f"<details id='{row.id}'>" not in text] == []
