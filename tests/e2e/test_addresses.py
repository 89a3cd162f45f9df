"""Which addresses of the machine reach a server: the same for each of its ports, IPv6 too."""

# Subject: configuration

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dropin import DropIn, config, run
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT
from tests.support.pg import PostgresServer

LOOPBACKS = ("127.0.0.1", "::1")


def has_ipv6() -> bool:
    """Whether this machine has it; without it everything is served over IPv4."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def reached(port: int) -> list[str]:
    """The loopback addresses at which something listens."""
    found = []
    for host in LOOPBACKS:
        try:
            socket.create_connection((host, port), timeout=30).close()
        except OSError:
            continue
        found.append(host)
    return found


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def info(host: str, port: int) -> dict[str, object]:
    with socket.create_connection((host, port), timeout=30) as peer, peer.makefile("rb") as lines:
        return dict(json.loads(lines.readline().removeprefix(b"INFO ")))


@pytest.mark.parametrize("flags", [(), ("-a", "0.0.0.0"), ("-a", "::")])
def test_all_addresses_are_those_of_ipv6_too(
    name: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    if "::" in flags and not has_ipv6():
        pytest.skip("no IPv6 on this machine: enable it")
    path = tmp_path / "server.conf"
    path.write_text("websocket { port: -1, no_tls: true }")
    everywhere = [*LOOPBACKS] if has_ipv6() else [LOOPBACKS[0]]

    with DropIn(name, "-p", "-1", "-m", "-1", "-c", str(path), *flags) as server:
        ports = {kind: port_of(urls[0]) for kind, urls in server.ports().items()}

        assert {kind: reached(port) for kind, port in ports.items()} == dict.fromkeys(
            ("nats", "monitoring", "websocket"), everywhere
        )
        for host in everywhere:
            assert info(host, ports["nats"])["client_ip"] == host
            assert (
                f"nats://{f'[{host}]' if ':' in host else host}:{ports['nats']}"
                in (server.ports()["nats"])
            )


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine: enable it")
def test_an_address_is_no_other(name: str) -> None:
    for host, others in (("127.0.0.1", ["127.0.0.1"]), ("::1", ["::1"]), ("::", [*LOOPBACKS])):
        with DropIn(name, "-a", host, "-p", "-1") as server:
            assert reached(port_of(server.url)) == others


def test_a_name_is_its_ipv4_address(name: str) -> None:
    with DropIn(name, "-a", "localhost", "-p", "-1") as server:
        assert server.url.startswith("nats://127.0.0.1:")
        assert reached(port_of(server.url)) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_serve_takes_all_addresses_for_all_ports(
    host: str, durable: PostgresServer, tmp_path: Path
) -> None:
    if host == "::" and not has_ipv6():
        pytest.skip("no IPv6 on this machine: enable it")
    flags = ("--host", host, "--nats-port", "0", "--http-port", "0", "--ws-port", "0")
    command = ["serve", "--dsn", durable.fresh_database(), "--data", str(tmp_path), *flags]
    process = subprocess.Popen(
        [sys.executable, "-m", "jetgate", *command], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        file = tmp_path / "ports.json"
        eventually(lambda: file.exists() or process.poll() is not None, within=120)
        ports = json.loads(file.read_text())

        assert {kind: reached(port_of(url)) for kind, url in ports.items()} == dict.fromkeys(
            ("nats", "http", "ws"), [*LOOPBACKS] if has_ipv6() else [LOOPBACKS[0]]
        )
    finally:
        process.terminate()
        process.wait(60)


# -- the flag for a cluster


@pytest.mark.parametrize(
    "url",
    ["nats-route://127.0.0.1:-1", "nats://u:p@127.0.0.1:-1", "tls://127.0.0.1:-1"],
)
def test_routes_are_listened_for_at_the_place_of_a_url(name: str, url: str, tmp_path: Path) -> None:
    path = config(tmp_path, 'cluster { name: x, listen: "127.0.0.1:70000" }')
    with DropIn(name, "-c", path, "--cluster", url) as server:
        server.ports()
        [line] = [text for text in server.texts() if "Listening for route connections" in text]
        place = line.rpartition(" ")[2]

        assert place.startswith("127.0.0.1:")
        assert reached(port_of(place)) == ["127.0.0.1"]


@pytest.mark.parametrize("url", ["", "nats://127.0.0.1:0"])
def test_no_place_is_no_cluster(name: str, url: str, tmp_path: Path) -> None:
    path = config(tmp_path, 'cluster { name: x, listen: "127.0.0.1:70000" }')
    with DropIn(name, "-c", path, "--cluster", url) as server:
        server.ports()
        assert not [text for text in server.texts() if "route connections" in text]


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:6297",
        ":6296",
        "6295",
        "nats-route://127.0.0.1",
        "nats://u:p@127.0.0.1",
        "nats://127.0.0.1:abc",
        "nats://h:1:2",
        "nats://h:-2",
        "tls://127.0.0.1:-1/x",
        "nats://u@127.0.0.1:6293",
        "foo bar",
        "a b://x:1",
        "%zz",
    ],
)
def test_a_bad_address_is_reported_as_by_nats_server(url: str) -> None:
    ours, theirs = (
        run(name, "-a", "127.0.0.1", "-p", "-1", "--cluster", url)
        for name in ("jetgate-nats-server", "nats-server")
    )

    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)
    assert ours.returncode == 1
