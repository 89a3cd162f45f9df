"""TLS on the HTTP port, and the errors of its files."""

# Subject: HTTP sign-in

import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.gateway.web import basic
from tests.support.jetgate import ROOT, JetgateServer

ME = {"Authorization": basic("me", "secret")}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with certificates, keys, and files that are neither."""
    at = tmp_path_factory.mktemp("tls")
    for name in ("own", "other"):
        issued = ca.issue_cert("127.0.0.1", "localhost")
        issued.private_key_pem.write_to_path(at / f"{name}.key")
        for blob in issued.cert_chain_pems:
            blob.write_to_path(at / f"{name}.pem", append=True)
    (at / "text").write_text("no certificate")
    (at / "jetgate.conf").write_text("http { json_body_max: 100, session_seconds: 60 }")
    (at / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    sealed = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    (at / "sealed.key").write_text(sealed)
    return at


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[JetgateServer]:
    flags = ["--http-tls-cert", str(files / "own.pem"), "--http-tls-key", str(files / "own.key")]
    flags += ["--user", "me", "--pass", "secret", "--config", str(files / "jetgate.conf")]
    flags += ["--http-cors-origin", "https://app.example", "--http-rate-limit", "60000/60"]
    flags += ["--http-trusted-proxy", "127.0.0.0/8", "--http-trusted-proxy", "::1"]
    with JetgateServer(*flags, in_memory=True) as served:
        yield served


def _ask(
    server: JetgateServer,
    ca: trustme.CA,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None = None,
) -> tuple[int, http.client.HTTPMessage, bytes]:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    connection = http.client.HTTPSConnection(*server.http, context=context, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = response.status, response.headers, response.read()
    connection.close()
    return answer


def test_everything_is_served_over_tls(server: JetgateServer, ca: trustme.CA) -> None:
    address = json.loads((server.data / "ports.json").read_text())["http"]
    json_body = ME | {"Content-Type": "application/json"}
    stream = "/v1/streams/TLS"
    assert address.startswith("https://127.0.0.1:")
    assert _ask(server, ca, "PUT", stream, json_body, b'{"subjects": ["tls"]}')[0] == 201
    assert _ask(server, ca, "POST", "/v1/subjects/tls", ME, b"x" * 1_000_000)[0] == 201
    assert _ask(server, ca, "GET", stream + "/messages/1", ME)[2] == b"x" * 1_000_000


def test_a_session_is_for_tls_alone(server: JetgateServer, ca: trustme.CA) -> None:
    _, headers, _ = _ask(server, ca, "POST", "/v1/session", ME)
    cookie = headers["set-cookie"]
    assert cookie.startswith("__Host-jetgate=")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} < set(cookie.split("; "))
    assert "Domain" not in cookie
    value = cookie.partition(";")[0]
    own = "https://{}:{}".format(*server.http)
    for origin, status in ((own, 201), (own.replace("https", "http"), 403), ("null", 403)):
        every = {"Cookie": value, "Origin": origin}
        assert _ask(server, ca, "POST", "/v1/tickets", every)[0] == status
    plain = {"Cookie": value.replace("__Host-", "")}
    assert _ask(server, ca, "GET", "/v1/session", plain)[0] == 401


@pytest.mark.parametrize(
    "sent", [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0" * 500, b"\x16"]
)
def test_a_connection_without_tls_is_closed(
    server: JetgateServer, ca: trustme.CA, sent: bytes
) -> None:
    with socket.create_connection(server.http, timeout=30) as sock:
        sock.sendall(sent)
        if len(sent) > 1:
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP/1.1 200" not in sock.recv(1000)
        assert _ask(server, ca, "GET", "/healthz", {})[0] == 200


def test_old_versions_are_refused(server: JetgateServer, ca: trustme.CA) -> None:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(server.http, timeout=30) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("cert", "key", "wording"),
    [
        (
            "own.pem",
            "",
            "--http-tls-key: --http-tls-cert and --http-tls-key must be given together",
        ),
        (
            "",
            "own.key",
            "--http-tls-cert: --http-tls-cert and --http-tls-key must be given together",
        ),
        ("none", "own.key", "--http-tls-cert: cannot read {}/none: no such file or directory"),
        ("own.pem", "none", "--http-tls-key: cannot read {}/none: no such file or directory"),
        ("text", "own.key", "--http-tls-cert: {}/text is no PEM file"),
        ("own.pem", "text", "--http-tls-key: {}/text is no PEM file"),
        ("broken.pem", "own.key", "--http-tls-cert: {}/broken.pem with {}/own.key: "),
        ("own.pem", "other.key", "--http-tls-key: {}/other.key is not the key of {}/own.pem"),
        (
            "own.pem",
            "sealed.key",
            "--http-tls-key: {}/sealed.key is encrypted; expected a key without a passphrase",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    files: Path, cert: str, key: str, wording: str
) -> None:
    code = "from jetgate.http_tls import tls_of; import sys; tls_of(*sys.argv[1:])"
    paths = [str(files / name) if name else "" for name in (cert, key)]

    ended = subprocess.run(
        [sys.executable, "-c", code, *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode
    assert wording.replace("{}", str(files)) in ended.stderr


def test_the_command_ends_with_one_line(files: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jetgate", "dev", "--data", str(tmp_path), "--http-port", "0"]
    command += ["--nats-port", "0", "--http-tls-cert", str(files / "none"), "--http-tls-key", "x"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"jetgate: --http-tls-cert: cannot read {files}/none: no such file or directory"
    )
