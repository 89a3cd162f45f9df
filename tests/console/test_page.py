"""What the page is made of, and what it may do."""

# Subject: console

import re
from importlib.resources import files

import pytest

from tests.gateway.web import Web
from tests.support.devtools import Browser

_FILES = sorted((files("gateway.console") / "page").iterdir(), key=lambda each: each.name)
_VIEWS = (
    "/streams",
    "/streams/{}",
    "/streams/{}/live",
    "/streams/{}/replay",
    "/streams/{}/subjects",
    "/streams/{}/consumers",
    "/streams/{}/consumers/reader",
    "/streams/{}/config",
    "/kv",
    "/objects",
    "/server",
)
_TOO_WIDE = """
[...document.querySelectorAll("main, main *:not(.scroll *):not(.tabs *):not(pre *)")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 100))
"""


def test_no_script_runs_but_those_of_the_console(web: Web) -> None:
    answer = web.get("/")

    policy = answer.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not [each for each in policy if "unsafe" in each or "*" in each or "http" in each]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/console.css", "/console/app.js"])
def test_a_browser_asks_whether_a_file_is_another_and_loads_it_only_then(
    web: Web, path: str
) -> None:
    answer = web.get(path)

    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-cache"
    assert web.get(path, If_None_Match=answer.headers["etag"]).status == 304
    assert web.get("/console/nothing.js").kind == "no-such-route"
    assert web.get("/console/index.html").kind == "no-such-route"


def test_the_files_are_small_and_load_nothing_from_elsewhere() -> None:
    sizes = {each.name: len(each.read_text().splitlines()) for each in _FILES}
    texts = {each.name: each.read_text() for each in _FILES}

    assert {name: size for name, size in sizes.items() if size > 400} == {}
    assert sum(len(each.read_bytes()) for each in _FILES) < 200_000
    for name, text in texts.items():
        outside = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text)
        assert set(outside) <= {"http://www.w3.org"}, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text), (
            name
        )


def test_every_view_fits_a_narrow_screen_and_names_its_controls(
    page: Browser, web: Web, at: str, name: str
) -> None:
    web.publish(f"{name}.{'a-subject-that-is-long-' * 8}", b"x" * 900)
    web.json("PUT", f"/v1/streams/{name}/consumers/reader", {"ack_policy": "explicit"})
    page.size(360, 740)
    page.go(at)
    for view in _VIEWS:
        page.run(f"location.hash = '#{view.format(name)}'")
        page.see({"streams": "jetgate", "kv": "Key-value"}.get(view.strip("/"), "jetgate"))
        page.find("heading", "")
        assert page.run(_TOO_WIDE) == [], view
        assert page.unnamed() == [], view
