"""A browser for the suite, and a page of it for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.gateway.web import Web
from tests.support.devtools import Browser
from tests.support.jetgate import JetgateServer

_numbers = count(1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """A new page; afterwards nothing was thrown in it, and nothing refused by its policy."""
    browser.fresh()
    yield browser
    browser.run("1")  # what was said until now is heard
    assert browser.complaints == []


@pytest.fixture
def web(jetgate_server: JetgateServer) -> Web:
    return Web(jetgate_server.http)


@pytest.fixture
def at(web: Web) -> str:
    """The address of the console, for a hash."""
    return "http://{}:{}/#".format(*web.address)


@pytest.fixture
def name(web: Web) -> Iterator[str]:
    """A stream of one test that stores what is below its name, deleted afterwards."""
    made = f"C{next(_numbers)}"
    config = {"subjects": [f"{made}.>"], "allow_direct": True}
    assert web.json("PUT", f"/v1/streams/{made}", config).status == 201
    yield made
    web.delete(f"/v1/streams/{made}")
