"""Sessions of browsers: a cookie that lets in, who may use it for what, and how it ends."""

# Subject: HTTP sign-in, HTTP

import dataclasses
import http.client
import re
import threading
from collections.abc import Iterator
from http.cookies import SimpleCookie

import pytest

from core.units import Seconds
from gateway.routes import ROUTES
from tests.gateway.conftest import Stream
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web, basic, names
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer

ME = basic("me", "secret")


@pytest.fixture(scope="module")
def brief(nats_server: NatsServer) -> Iterator[Web]:
    """A façade whose sessions last a moment, two for each user."""
    users = "{ users: [{user: me, password: secret}] }"
    settings = dataclasses.replace(SETTINGS, session_seconds=Seconds(1.5), sessions_max=2)
    with (
        NatsServer({"authorization": users}) as nats,
        GatewayServer(nats.address, settings, with_users=True) as server,
    ):
        yield Web(server.http)
        assert server.failures == []


def _signed_in(web: Web) -> str:
    """Begin a session; return its cookie as a browser sends it."""
    answer = web.send("POST", "/v1/session", None, {"Authorization": ME})
    assert answer.status == 201, answer
    return answer.headers["set-cookie"].partition(";")[0]


def _own(web: Web) -> str:
    return "http://{}:{}".format(*web.address)


def _publish(web: Web, cookie: str, **headers: str) -> Answer:
    every = {"Cookie": cookie} | names(headers)
    return web.send("POST", "/v1/subjects/nobody.has.this", b"x", every)


def test_a_cookie_lets_in(guarded: Web) -> None:
    answer = guarded.send("POST", "/v1/session", None, {"Authorization": ME})

    assert answer.status == 201
    assert answer.headers["cache-control"] == "no-store"
    cookie = SimpleCookie(answer.headers["set-cookie"])["jetgate"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")
    assert cookie["max-age"] == "43200"
    assert not cookie["secure"], "it did not come over TLS"
    assert answer.json()["name"] == "me"
    session = guarded.get("/v1/session", Cookie=f"other=1; jetgate={cookie.value}")
    assert session.json() == answer.json() | {"max_payload": 1_048_576}
    assert guarded.get("/v1/streams", Cookie=f"jetgate={cookie.value}").status == 200


def test_it_is_not_given_to_strangers(guarded: Web) -> None:
    for headers in ({}, {"Authorization": basic("me", "wrong")}, {"Cookie": "jetgate=me"}):
        answer = guarded.send("POST", "/v1/session", None, headers)

        assert answer.status == 401
        assert answer.headers["set-cookie"] is None


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "{}x", "{} x", "x{}", '"{}"', "{}; jetgate={}", "{}; jetgate=x", "a" * 8000, "\xe9"],
)
def test_an_altered_session_cookie_is_refused(guarded: Web, cookie: str) -> None:
    value = _signed_in(guarded).partition("=")[2]

    answer = guarded.get("/v1/streams", Cookie="jetgate=" + cookie.format(value, value))

    assert answer.status == 401
    assert answer.kind in ("unauthorized", "session-ended")


def test_a_browser_shows_no_dialog_for_a_session_that_ended(guarded: Web) -> None:
    answer = guarded.get("/v1/streams", Cookie="jetgate=" + "a" * 43)

    assert answer.kind == "session-ended"
    assert answer.headers["www-authenticate"] == 'Bearer realm="jetgate"'


@pytest.mark.parametrize("headers", [{}, {"Authorization": basic("me", "wrong")}])
def test_nor_for_a_script_that_asks_for_credentials_itself(
    guarded: Web, headers: dict[str, str]
) -> None:
    plain = guarded.send("GET", "/v1/session", None, headers)
    script = guarded.send("GET", "/v1/session", None, headers | {"X-Requested-With": "x"})
    source = guarded.send("GET", "/v1/session", None, headers | {"Accept": "text/event-stream"})

    assert plain.headers["www-authenticate"].startswith("Basic ")
    assert script.headers["www-authenticate"] == 'Bearer realm="jetgate"'
    assert source.headers["www-authenticate"] == 'Bearer realm="jetgate"'


def test_a_cookie_changes_data_only_from_a_page_of_this_server(guarded: Web) -> None:
    cookie = _signed_in(guarded)

    assert _publish(guarded, cookie, Origin=_own(guarded)).kind == "no-stream"
    assert _publish(guarded, cookie, Sec_Fetch_Site="same-origin").kind == "no-stream"
    named = _publish(guarded, cookie, Origin="http://LOCALHOST:1", Host="localhost:1")
    assert named.kind == "cross-site", "browsers write origins in small letters"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "https://{}"},
        {"Origin": "http://{}.evil.example"},
        {"Origin": "http://{}/"},
        {"Origin": "http://{}, http://{}"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://{}"},
        {"Referer": "http://{}/page"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/subjects/a"),
        ("PUT", "/v1/streams/CSRF"),
        ("PATCH", "/v1/streams/CSRF"),
        ("DELETE", "/v1/streams/CSRF"),
        ("POST", "/v1/tickets"),
        ("DELETE", "/v1/session"),
    ],
)
def test_pages_of_others_change_nothing_with_a_cookie(
    guarded: Web, headers: dict[str, str], method: str, path: str
) -> None:
    address = "{}:{}".format(*guarded.address)
    cookie = _signed_in(guarded)
    every = {name: value.replace("{}", address) for name, value in headers.items()}

    answer = guarded.send(method, path, None, every | {"Cookie": cookie})

    assert (answer.status, answer.kind) == (403, "cross-site")
    assert guarded.get("/v1/streams", Cookie=cookie).status == 200, "reading is another matter"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
    ],
)
def test_no_operation_that_changes_something_is_open_to_pages_of_others(
    guarded: Web, headers: dict[str, str]
) -> None:
    """Neither with a cookie nor with what a browser's own dialog was told, which it adds too."""
    cookie = _signed_in(guarded)
    connection = http.client.HTTPConnection(*guarded.address, timeout=60)
    for operation in ROUTES:
        if operation.method in ("GET", "HEAD"):
            continue
        path = re.sub(r"\{\w+\}", "x", operation.path)
        for who in ({"Cookie": cookie}, {"Authorization": ME}):
            connection.request(operation.method, path, None, who | headers)
            answer = connection.getresponse()
            body = answer.read()
            if operation.id == "createTicket" and "Authorization" in who:
                assert answer.status == 201, "no page reads it, and it is for that page alone"
            else:
                assert (answer.status, b"cross-site" in body) == (403, True), (operation.id, body)
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://x"}],
)
def test_programs_and_pages_of_this_server_use_a_password(
    guarded: Web, headers: dict[str, str]
) -> None:
    answer = guarded.send(
        "POST", "/v1/subjects/nobody.has.this", b"x", {"Authorization": ME} | headers
    )
    assert (answer.status, answer.kind) == (404, "no-stream")
    own = {"Authorization": ME, "Origin": _own(guarded)}
    assert guarded.send("POST", "/v1/subjects/nobody.has.this", b"x", own).status == 404


def test_two_origins_are_none(guarded: Web) -> None:
    cookie, own = _signed_in(guarded), _own(guarded)
    head = f"POST /v1/subjects/a HTTP/1.1\r\nHost: {own[7:]}\r\nCookie: {cookie}\r\n"

    answer = guarded.raw(f"{head}Origin: {own}\r\nOrigin: {own}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 403 ")


def test_without_sign_in_pages_of_other_origins_change_nothing_either(web: Web) -> None:
    """A page could reach a server on the machine, or in the network, of whoever looks at it."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = web.send("POST", "/v1/subjects/nobody.has.this", b"x", headers)
        assert (answer.status, answer.kind) == (403, "cross-site")

    assert web.publish("nobody.has.this", b"x").kind == "no-stream"
    assert web.publish("nobody.has.this", b"x", Origin=_own(web)).kind == "no-stream"
    assert web.send("POST", "/v1/tickets").status == 201
    assert web.send("POST", "/v1/session").status == 201
    assert web.get("/v1/session").json()["name"] == ""


def test_credentials_count_before_a_cookie(guarded: Web) -> None:
    cookie = _signed_in(guarded)

    served = _publish(guarded, cookie, Authorization=ME)
    refused = guarded.get("/v1/streams", Cookie=cookie, Authorization=basic("me", "wrong"))

    assert served.kind == "no-stream", "they are not sent by themselves: any page may have asked"
    assert refused.status == 401


def test_two_credentials_are_none(guarded: Web) -> None:
    head = "GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n" + f"Authorization: {ME}\r\n" * 2

    assert guarded.raw(f"{head}\r\n".encode()).startswith(b"HTTP/1.1 401 ")


def test_a_session_does_not_begin_another(guarded: Web) -> None:
    cookie = _signed_in(guarded)

    answer = guarded.send("POST", "/v1/session", None, {"Cookie": cookie, "Origin": _own(guarded)})

    assert answer.status == 401


def test_signing_out_ends_it(guarded: Web) -> None:
    cookie = _signed_in(guarded)

    answer = guarded.send(
        "DELETE", "/v1/session", None, {"Cookie": cookie, "Origin": _own(guarded)}
    )

    assert answer.status == 204
    assert answer.headers["set-cookie"].startswith("jetgate=; Path=/; Max-Age=0; HttpOnly")
    assert guarded.get("/v1/streams", Cookie=cookie).kind == "session-ended"
    again = guarded.send("DELETE", "/v1/session", None, {"Authorization": ME})
    assert again.status == 204, "there was none to end"


def test_signing_in_again_ends_the_session_before(guarded: Web) -> None:
    cookie = _signed_in(guarded)

    guarded.send("POST", "/v1/session", None, {"Cookie": cookie, "Authorization": ME})

    assert guarded.get("/v1/streams", Cookie=cookie).kind == "session-ended"


def test_it_expires(brief: Web) -> None:
    cookie = _signed_in(brief)

    assert eventually(lambda: brief.get("/v1/session", Cookie=cookie).status == 401)


def test_the_oldest_of_too_many_ends(brief: Web) -> None:
    def begun() -> bool:
        cookies = [_signed_in(brief) for _ in range(3)]
        statuses = [brief.get("/v1/session", Cookie=cookie).status for cookie in cookies]
        return statuses == [401, 200, 200]

    eventually(begun)  # or the second has expired meanwhile


def _poll(web: Web, path: str, answers: list[bytes], **headers: str) -> threading.Thread:
    """Ask for a message of an empty stream in a thread, and keep what was answered."""

    def wait() -> None:
        connection = http.client.HTTPConnection(*web.address, timeout=60)
        every = {"Content-Type": "application/json"} | names(headers)
        connection.request("POST", path, b'{"expires": "60s"}', every)
        response = connection.getresponse()
        try:
            answers.append(response.read())
        except (http.client.IncompleteRead, ConnectionError):
            answers.append(b"cut")
        connection.close()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_waiting_requests_end_with_their_session_alone(guarded: Web, accept: str) -> None:
    mine = {"Authorization": ME}
    headers = mine | {"Content-Type": "application/json"}
    guarded.send("PUT", "/v1/streams/ENDS", b'{"subjects": ["ends"]}', headers)
    path = "/v1/streams/ENDS/consumers/C"
    guarded.send("PUT", path, b'{"ack_policy": "explicit"}', headers)
    cookie, own = _signed_in(guarded), _own(guarded)
    of_session: list[bytes] = []
    of_header: list[bytes] = []
    first = _poll(guarded, path + ":fetch", of_session, Cookie=cookie, Origin=own, Accept=accept)
    second = _poll(guarded, path + ":fetch", of_header, Authorization=ME, Accept=accept)

    def waiting(count: int) -> bool:
        answer = guarded.send("GET", path, None, mine)
        return bool(answer.json()["num_waiting"] == count)

    eventually(lambda: waiting(2))
    guarded.send("DELETE", "/v1/session", None, {"Cookie": cookie, "Origin": own})
    first.join(30)
    eventually(lambda: waiting(1))  # no pull request is left behind
    assert of_header == []
    guarded.send("POST", "/v1/subjects/ends", b"for the other", mine)
    second.join(30)
    guarded.send("DELETE", "/v1/streams/ENDS", None, mine)

    assert b"for the other" in of_header[0]
    assert b"session-ended" in of_session[0] or of_session == [b"cut"]


def test_a_browser_caches_answers_for_their_caller_alone(stream: Stream) -> None:
    stream.publish("a")

    headers = stream.web.get(f"{stream.path}/messages/1").headers

    assert headers["cache-control"].startswith("private, ")
    assert {"Authorization", "Cookie"} < set(headers["vary"].split(", "))
