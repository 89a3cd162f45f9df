"""The monitoring port: the same fields, in the same order, as nats-server's, page by page."""

# Subject: monitoring

import asyncio
import json
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import nats
import pytest

from tests.support.dropin import NAMES, DropIn
from tests.support.eventually import eventually

PAGES = (
    "/varz",
    "/connz",
    "/connz?subs=1",
    "/connz?subs=detail&auth=1",
    "/connz?state=closed",
    "/connz?state=any&sort=bytes_to",
    "/connz?cid=999999",
    "/connz?filter_subject=foo&acc=$G",
    "/connz?mqtt_client=x&state=any",
    "/connz?user=nobody",
    "/connz?acc=nope",
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?streams=1",
    "/jsz?consumers=1&config=1&acc=$G",
    "/jsz?acc=nope",
    "/subsz",
    "/subsz?test=foo",
    "/jsz?accounts=1&limit=-1",
    "/accountz",
    "/accstatz",
    "/routez",
    "/gatewayz",
    "/leafz",
)
TEXTS = (
    "/healthz",
    "/healthz?details=1",
    "/healthz?account=$G&stream=S",
    "/healthz?account=$G&stream=S&consumer=d",
    "/healthz?account=$G&stream=T",
    "/healthz?account=$G&stream=S&consumer=z",
    "/healthz?account=x",
    "/healthz?account=x&details=1",
    "/healthz?account=$G&stream=T&details=1",
    "/healthz?account=$G&stream=S&consumer=z&details=1",
    "/healthz?stream=x&details=1",
    "/healthz?stream=x",
    "/connz?sort=x",
    "/connz?limit=abc",
    "/connz?limit=1_0",
    "/connz?limit=9223372036854775808",
    "/connz?cid=abc",
    "/connz?cid=+1",
    "/connz?cid=18446744073709551616",
    "/connz?state=bogus",
    "/connz?sort=stop",
    "/accountz?acc=x",
    "/routez?subs=x",
    "/gatewayz?accs=x",
    "/leafz?subs=x",
    "/subsz?test=a..b",
    "/raftz",
    "/nosuch",
)
# What a server may have or not: limits of this machine, fields that are left out when empty.
OPTIONAL = frozenset(("subscriptions_list", "last_active", "gomemlimit"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DropIn]]:
    """Both servers with JetStream, after the same traffic; one client stays."""
    place = tmp_path_factory.mktemp("monitoring")
    servers = {
        name: DropIn(
            *(name, "-a", "127.0.0.1", "-p", "-1", "-m", "-1"),
            *("-n", "one", "-js", "-sd", str(place / name)),
        )
        for name in NAMES
    }
    loop = asyncio.new_event_loop()
    clients = [loop.run_until_complete(traffic(server)) for server in servers.values()]
    for server in servers.values():
        # A server learns of a client's end after the client.
        eventually(partial(closed, server))
    yield servers
    for client in clients:
        loop.run_until_complete(client.close())
    loop.close()
    for server in servers.values():
        server.__exit__()


async def traffic(server: DropIn) -> Any:
    client = await nats.connect(server.url, name="cli")
    stream = client.jetstream(timeout=30)
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.publish("s.1", b"x")
    pull = await stream.pull_subscribe("s.>", durable="d", stream="S")
    await pull.fetch(1, timeout=30)
    await client.subscribe("foo", "q")
    await client.subscribe("bar.*")
    await client.flush()
    other = await nats.connect(server.url)
    await other.publish("bar.x", b"hello")
    await other.flush()
    await other.close()
    return client


def closed(server: DropIn) -> dict[str, Any]:
    """A connection that was closed; nothing while there is none."""
    connections = server.page("/connz?state=closed")["connections"]
    return dict(connections[0]) if connections else {}


def shape(value: Any) -> Any:
    """The fields and the kinds of their values; lists by their fullest element."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items() if key not in OPTIONAL}
    if isinstance(value, list):
        return max((shape(member) for member in value), key=len, default=None)
    return "number" if type(value) in (int, float) else type(value).__name__


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_the_same_fields_in_the_same_order(both: dict[str, DropIn], path: str) -> None:
    ours, theirs = (shape(both[name].page(path)) for name in NAMES)

    ours.pop("http_req_stats", None)
    theirs.pop("http_req_stats", None)
    assert ours == theirs
    assert list(ours) == list(theirs)


@pytest.mark.parametrize(
    "path",
    [
        *(f"/connz?{query}" for query in ("limit=-1", "offset=-1", "offset=9", "cid=9&offset=2")),
        "/connz?acc=nope&limit=-1&offset=-1",
        "/subsz?limit=-1",
        "/subsz?offset=-1",
    ],
)
def test_a_page_of_a_list_begins_and_ends_alike(both: dict[str, DropIn], path: str) -> None:
    ours, theirs = (both[name].page(path) for name in NAMES)

    for name in ("offset", "limit", "num_connections"):
        assert ours.get(name) == theirs.get(name)


def test_the_same_requests_are_counted(both: dict[str, DropIn]) -> None:
    for name in NAMES:
        for path in ("/raftz", "/ipqueuesz", "/subscriptionsz", "/nosuch", "/varz/"):
            both[name].get(path)

    ours, theirs = (both[name].page("/varz")["http_req_stats"] for name in NAMES)

    assert set(ours) <= set(theirs)


@pytest.mark.parametrize("path", TEXTS)
def test_a_refusal_is_the_same_text(both: dict[str, DropIn], path: str) -> None:
    ours, theirs = (both[name].get(path) for name in NAMES)

    assert ours == theirs


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "DELETE"])
def test_every_method_is_answered_alike(both: dict[str, DropIn], method: str) -> None:
    request = f"{method} /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    said = []
    for name in NAMES:
        place = urlsplit(both[name].ports()["monitoring"][0])
        with socket.create_connection((place.hostname, place.port), timeout=30) as sock:
            sock.sendall(request)
            with sock.makefile("rb") as answer:
                lines = answer.read().splitlines()
            said.append((lines[0], lines[-1]))

    assert said[0] == said[1]


@pytest.mark.parametrize("target", ["http://[/varz", "varz", "x//["])
def test_unknown_paths_are_refused(both: dict[str, DropIn], target: str) -> None:
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    said = []
    for name in NAMES:
        place = urlsplit(both[name].ports()["monitoring"][0])
        with socket.create_connection((place.hostname, place.port), timeout=30) as sock:
            sock.sendall(request)
            said.append(sock.recv(15))

    assert said == [b"HTTP/1.1 400 Ba"] * 2


def test_the_numbers_of_a_client_are_the_same(both: dict[str, DropIn]) -> None:
    seen = []
    for name in NAMES:
        [client] = both[name].page("/connz?subs=detail")["connections"]
        subscriptions = sorted(
            (s["subject"].partition(".")[0], s.get("qgroup", ""), s["msgs"])
            for s in client["subscriptions_list_detail"]
        )
        counted = ("in_msgs", "out_msgs", "in_bytes", "subscriptions", "name", "lang", "kind")
        seen.append(([client[field] for field in counted], subscriptions))

    assert seen[0] == seen[1]


def test_connections_are_in_the_same_order(both: dict[str, DropIn]) -> None:
    for sort in ("cid", "start", "uptime", "subs", "msgs_from", "bytes_from"):
        pages = [both[name].page(f"/connz?state=any&sort={sort}") for name in NAMES]
        ours, theirs = ([c.get("name", "") for c in page["connections"]] for page in pages)

        assert ours == theirs, sort
        assert pages[0]["total"] == pages[1]["total"] == 2


def test_a_connection_that_was_closed_shows_what_it_had() -> None:
    for name in NAMES:
        with DropIn(name, "-a", "127.0.0.1", "-p", "-1", "-m", "-1") as server:
            with socket.create_connection(server.address, timeout=30) as client:
                client.sendall(b'CONNECT {"protocol":1}\r\nSUB foo 1\r\nPING\r\n')
                seen = b""
                while b"PONG" not in seen:
                    more = client.recv(4096)
                    assert more, seen
                    seen += more

            shown = eventually(partial(closed, server))
            assert shown["subscriptions"] == 1
            assert shown["rtt"].endswith("s")


def test_the_numbers_of_streams_are_the_same(both: dict[str, DropIn]) -> None:
    seen = []
    for name in NAMES:
        page = both[name].page("/jsz?consumers=1")
        [account] = page["account_details"]
        [stream] = account["stream_detail"]
        state = {k: v for k, v in stream["state"].items() if not k.endswith("_ts")}
        [consumer] = stream["consumer_detail"]
        fields = ("name", "num_ack_pending", "num_pending", "num_waiting", "num_redelivered")
        seen.append((page["streams"], page["bytes"], state, [consumer[f] for f in fields]))

    assert seen[0] == seen[1]


def test_pages_are_indented_json_that_any_page_may_read(both: dict[str, DropIn]) -> None:
    status, text = both["jetgate-nats-server"].get("/varz")

    assert status == 200
    assert text == json.dumps(json.loads(text), indent=2).replace(">", "\\u003e")
