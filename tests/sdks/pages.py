"""Scenarios in a page of a headless Chromium."""

import shutil
from pathlib import Path
from typing import Any

from tests.support.chromium import Pages, chromium
from tests.support.jetgate import JetgateServer

_HERE = Path(__file__).parent / "typescript"
_PAGE = Path(__file__).parents[1] / "clients/javascript/browser/page.html"


def passed_in_a_page(sdk: Path, into: Path, which: str) -> Any:
    """Run scenarios over a server of another origin, which allows that of the page."""
    chromium()
    shutil.copytree(sdk.parent, into / "sdk")
    for name in ("feeds.mjs", "scenarios.mjs"):
        shutil.copy(_HERE / name, into)
    shutil.copy(_HERE / "page.mjs", into / "page.js")
    with (
        Pages(_PAGE, into) as pages,
        JetgateServer("--http-cors-origin", pages.origin, in_memory=True) as server,
    ):
        url = "http://{}:{}".format(*server.http)
        pages.jobs = [{"script": "page", "url": url, "prefix": "PAGE", "which": which}]
        [job] = pages.run()
    return job["passed"]
