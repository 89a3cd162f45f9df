"""Where the server has users: signing in, what one may not do, and a server that starts anew."""

# Subject: console

from collections.abc import Iterator

import pytest

from tests.gateway.web import Web, basic
from tests.support.devtools import Browser
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

_ME = basic("me", "secret")


@pytest.fixture(scope="module")
def server() -> Iterator[JetgateServer]:
    with JetgateServer(module="tests.console.with_users", in_memory=True) as started:
        web = Web(started.http)
        made = web.json("PUT", "/v1/streams/ORDERS", {"subjects": ["orders.*"]}, Authorization=_ME)
        assert made.status == 201, made
        yield started


@pytest.fixture
def at(server: JetgateServer) -> str:
    return "http://{}:{}/#".format(*server.http)


def _sign_in(page: Browser, user: str, password: str) -> None:
    page.write("User", user)
    page.write("Password", password, role="textbox")
    page.click("button", "Sign in")


def test_a_user_signs_in_looks_and_signs_out(page: Browser, at: str) -> None:
    page.go(f"{at}/streams/ORDERS")
    page.see("This server wants to know who looks.", "dialog")
    _sign_in(page, "me", "wrong")
    page.see("The server knows nobody with these credentials.", "dialog")
    _sign_in(page, "me", "secret")
    page.see("ORDERS holds no message.")
    page.see("me", ".me")
    page.call("Page.reload")
    page.see("ORDERS holds no message.")
    assert page.run("document.cookie") == "", "no script can read it"
    page.click("button", "Sign out")

    page.see("This server wants to know who looks.", "dialog")


def test_a_denied_action_is_reported(page: Browser, at: str) -> None:
    page.go(f"{at}/streams/ORDERS")
    page.see("This server", "dialog")
    _sign_in(page, "ann", "pass:word")
    page.see("ORDERS holds no message.")
    page.click("button", "Publish")
    page.write("Subject", "orders.other")
    page.click("button", "Publish")
    page.see("this user may not publish to this subject", "dialog .trouble")
    page.see("have this user permitted to publish", "dialog .trouble")
    page.key("Escape")
    page.click("button", "Delete…")
    page.click("button", "Delete ORDERS")
    page.see("$JS.API.STREAM.DELETE.ORDERS", "dialog .trouble")
    page.click("button", "Cancel")
    page.click("link", "Consumers")
    page.see("The consumers cannot be listed")


def test_an_event_source_has_the_session_of_its_page_and_ends_with_it(
    page: Browser, at: str, server: JetgateServer
) -> None:
    page.go(f"{at}/streams/ORDERS")
    page.see("This server", "dialog")
    _sign_in(page, "me", "secret")
    page.see("ORDERS holds")
    page.run(
        "window.seen = [], window.source = new EventSource('/v1/streams/ORDERS/tail');"
        "source.onmessage = (event) => seen.push(JSON.parse(event.data).text);"
        "new Promise((begun) => source.addEventListener('position', begun)).then(() => 1)"
    )
    Web(server.http).publish("orders.1", b"followed", Authorization=_ME)
    eventually(lambda: page.run("seen.join()") == "followed")
    assert page.run("fetch('/v1/session', {method: 'DELETE'}).then((it) => it.status)") == 204

    eventually(lambda: page.run("source.readyState === EventSource.CLOSED"))


def test_the_view_goes_on_when_the_server_starts_anew(
    page: Browser, at: str, server: JetgateServer
) -> None:
    web = Web(server.http)
    page.go(f"{at}/streams/ORDERS/live")
    page.see("This server", "dialog")
    _sign_in(page, "me", "secret")
    page.see("Following since")
    web.publish("orders.1", b"before", Authorization=_ME)
    page.see("before", ".messages")

    server.kill()
    page.see("No connection to the server.")
    server.start()

    page.see("The session has ended", "dialog")
    web.publish("orders.1", b"meanwhile", Authorization=_ME)
    _sign_in(page, "me", "secret")
    page.see("meanwhile", ".messages")
    page.see("Connected again since")
    eventually(lambda: page.text(".lost") == "")
    assert page.text(".messages").count("before") == 1
