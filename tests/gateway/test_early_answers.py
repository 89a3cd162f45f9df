"""Answers that are there before the body has come: the usual clients get to see them."""

# Subject: HTTP, HTTP framing

import http.client
import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.gateway.web import Web
from tests.support.programs import node, node_environment

MIB = 1 << 20
_FETCH = """
const [url, kind] = process.argv.slice(1);
const body = kind === "bytes" ? new Uint8Array(40 << 20) : new ReadableStream({
  pull(controller) {
    this.sent = (this.sent ?? 0) + 1;
    if (this.sent > 40) controller.close(); else controller.enqueue(new Uint8Array(1 << 20));
  },
});
const headers = {"Content-Type": "application/json"};
const answer = await fetch(url, {method: "POST", body, duplex: "half", headers});
console.log(JSON.stringify({status: answer.status, type: (await answer.json()).type}));
"""
TOO_LARGE = "urn:jetgate:problem:body-too-large"


@pytest.mark.parametrize("size", [MIB + 1, 20 * MIB, 100 * MIB])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_client_that_sends_everything_before_reading_is_answered(
    web: Web, size: int, is_chunked: bool
) -> None:
    """As http.client and what is built on it do."""
    connection = http.client.HTTPConnection(*web.address, timeout=60)
    pieces = (bytes(MIB) for _ in range(size // MIB))
    headers = {"Content-Type": "application/json"}
    if is_chunked:
        connection.request("POST", "/v1/streams", pieces, headers, encode_chunked=True)
    else:
        connection.request("POST", "/v1/streams", bytes(size), headers)
    answer = connection.getresponse()

    if size > MIB + 1 or not is_chunked:
        assert (answer.status, json.loads(answer.read())["type"]) == (413, TOO_LARGE)
        assert answer.headers["connection"] == "close"
    connection.close()


def test_other_answers_arrive_as_well(web: Web) -> None:
    """Nobody has asked for the body: the path is none, or the method."""
    for method, path, status in (
        ("POST", "/v1/none", 404),
        ("PUT", "/v1/objects/none/o", 404),
        ("DELETE", "/metrics", 405),
        ("GET", "/healthz", 200),
    ):
        answer = web.send(method, path, bytes(20 * MIB))

        assert (answer.status, answer.headers["connection"]) == (status, "close"), path


@pytest.mark.parametrize("kind", ["bytes", "stream"])
def test_fetch_is_answered(web: Web, kind: str) -> None:
    url = "http://{}:{}/v1/streams".format(*web.address)
    command = [node(), "--input-type=module", "-e", _FETCH, url, kind]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=node_environment()
    )

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {"status": 413, "type": TOO_LARGE}


@pytest.mark.parametrize("expect", ["Expect: 100-continue", "Expect:"])
def test_curl_is_answered(web: Web, tmp_path: Path, expect: str) -> None:
    (tmp_path / "body").write_bytes(bytes(20 * MIB))
    url = "http://{}:{}/v1/streams".format(*web.address)
    command = ["curl", "-sS", "-H", expect, "-H", "Content-Type: application/json"]
    command += ["--data-binary", f"@{tmp_path / 'body'}", "-w", "%{size_upload}", url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 0, run.stderr
    body, _, uploaded = run.stdout.rpartition("\n")
    assert json.loads(body)["type"] == TOO_LARGE
    if expect.endswith("continue"):
        assert uploaded == "0"


def test_a_client_that_waits_for_100_continue_is_refused_before_it_sends(web: Web) -> None:
    head = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(head + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        received = b"".join(iter(lambda: caller.recv(65536), b""))

    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close\r\n" in received


@pytest.mark.parametrize("body", [b"abc", b"0\r\n\r\n"])
def test_a_body_that_is_there_ends_no_connection(web: Web, body: bytes) -> None:
    """An error is no reason to connect again where nothing more comes."""
    length = b"Content-Length: 3" if body == b"abc" else b"Transfer-Encoding: chunked"
    sent = b"POST /v1/none HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n%b" % (length, body)
    with socket.create_connection(web.address, timeout=30) as caller:
        for _ in range(3):
            caller.sendall(sent)
            received = caller.recv(65536)
            while b"}" not in received:  # the problem may come in a read of its own
                received += caller.recv(65536)
            assert received.startswith(b"HTTP/1.1 404 ")
            assert b"connection: close" not in received
