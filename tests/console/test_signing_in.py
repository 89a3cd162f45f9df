"""Where the server has users: signing in, what one may not do, and a server that starts anew."""

from collections.abc import Iterator

import pytest

from tests.gateway.serving import GatewayServer
from tests.gateway.web import Web, basic
from tests.support.devtools import Browser
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

_USERS = """{ users: [
  {user: me, password: secret},
  {user: ann, password: "pass:word", permissions: {
    publish: ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*"]
    subscribe: ["_INBOX.>"]}}
]}"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Web]:
    with (
        NatsServer({"authorization": _USERS}) as nats,
        GatewayServer(nats.address, with_users=True) as server,
    ):
        web = Web(server.http)
        made = web.json(
            "PUT",
            "/v1/streams/ORDERS",
            {"subjects": ["orders.*"]},
            Authorization=basic("me", "secret"),
        )
        assert made.status == 201
        yield web
        assert server.failures == []


def _sign_in(page: Browser, user: str, password: str) -> None:
    page.write("User", user)
    page.write("Password", password, role="textbox")
    page.click("button", "Sign in")


def test_somebody_signs_in_looks_and_signs_out(page: Browser, guarded: Web) -> None:
    page.go("http://{}:{}/#/streams/ORDERS".format(*guarded.address))
    page.see("This server wants to know who looks.", "dialog")
    _sign_in(page, "me", "wrong")
    page.see("The server knows nobody with these credentials.", "dialog")
    _sign_in(page, "me", "secret")
    page.see("ORDERS holds no message.")
    page.see("me", ".me")
    page.call("Page.reload")
    page.see("ORDERS holds no message.")
    page.click("button", "Sign out")

    page.see("This server wants to know who looks.", "dialog")
    assert page.run("document.cookie") == ""


def test_what_somebody_may_not_do_is_said(page: Browser, guarded: Web) -> None:
    page.go("http://{}:{}/#/streams/ORDERS".format(*guarded.address))
    page.see("This server", "dialog")
    _sign_in(page, "ann", "pass:word")
    page.see("ORDERS holds no message.")
    page.click("button", "Delete…")
    page.click("button", "Delete ORDERS")
    page.see("not-permitted", "dialog")
    page.see("Sign in as somebody who may", "dialog")
    page.click("button", "Cancel")
    page.click("link", "Consumers")
    page.see("The consumers cannot be listed")


def test_the_view_goes_on_when_the_server_starts_anew(page: Browser) -> None:
    with JetgateServer("--user", "me", "--pass", "secret", in_memory=True) as server:
        web = Web(server.http)
        me = basic("me", "secret")
        web.json("PUT", "/v1/streams/S", {"subjects": ["s"]}, Authorization=me)
        page.go("http://{}:{}/#/streams/S/live".format(*server.http))
        page.see("This server", "dialog")
        _sign_in(page, "me", "secret")
        page.see("Following since")
        web.publish("s", b"before", Authorization=me)
        page.see("before", ".messages")

        server.kill()
        page.see("No connection to the server.")
        server.start()

        page.see("The session has ended", "dialog")
        web.publish("s", b"meanwhile", Authorization=me)
        _sign_in(page, "me", "secret")
        page.see("meanwhile", ".messages")
        page.see("Connected again since")
        eventually(lambda: page.text(".lost") == "")
        assert page.text(".messages").count("before") == 1
