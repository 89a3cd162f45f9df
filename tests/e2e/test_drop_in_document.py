"""What docs/drop-in.md says is served, refused or without effect: each word of it is tried."""

# Subject: configuration

import re
import socket
import subprocess
from pathlib import Path

import pytest

from dropin.config.flags import parse_flags
from tests.support.dropin import NAMES, DropIn, config, run
from tests.support.jetgate import ROOT
from tests.support.natsserver import binary

DOCUMENT = (ROOT / "docs" / "drop-in.md").read_text()

SERVED = {
    "jetstream": "jetstream { store_dir: DIR, max_mem: 1G, max_file: 10G, domain: d }",
    "jetstream limits": "jetstream { limits { max_ack_pending: 5, batch { max_msgs: 9 } } }",
    "authorization": "authorization { users: [{user: a, password: b, permissions: {publish: x}}] }",
    "authorization token": "authorization { token: t }",
    "no_auth_user": "authorization { users: [{user: a, password: b}] }\nno_auth_user: a",
    "websocket": "websocket { port: -1, no_tls: true, same_origin: true, compression: true }",
    "mappings": 'mappings { "a": "b", "c": [{dest: d, weight: 50%}] }',
    "server_tags": 'server_tags: ["x:y"]',
    "server_metadata": "server_metadata { region: here }",
    "limits": "max_payload: 1MB\nmax_connections: 5\nmax_subscriptions: 9\nmax_control_line: 4KB",
    "logging": "debug: false\ntrace: false\nlogtime: true\nlogfile_size_limit: 1MB",
    "monitoring": "http: -1\nhttp_base_path: /x",
    "cluster": 'cluster { name: a, port: -1, routes: ["nats://127.0.0.1:9"] }',
    "remotes": 'remotes { name: hub, url: "nats://127.0.0.1:9" }',
}
REFUSED = {
    "leafnodes remotes": 'leafnodes { remotes: [{url: "nats://127.0.0.1:9"}] }',
    "gateway gateways": 'gateway { name: a, gateways: [{name: b, url: "nats://127.0.0.1:9"}] }',
    "permissions of a cluster": "cluster { port: -1, permissions { import: a } }",
    "users of a listener": "leafnodes { port: -1, authorization { user: a, password: b } }",
    "TLS of a listener": "cluster { port: -1, tls { cert_file: a, key_file: b } }",
    "accounts": "accounts { A { users: [{user: a, password: b}] } }",
    "operator": "operator: /x",
    "resolver": "resolver: MEMORY",
    "trusted_keys": "trusted_keys: OABC",
    "tls": "tls { cert_file: a, key_file: b }",
    "https_port": "https_port: -1",
    "auth_callout": "authorization { auth_callout { issuer: X } }",
    "nkeys": "authorization { users: [{nkey: U}] }",
    "encryption keys": "jetstream { key: k }",
    "jwt_cookie": "websocket { port: -1, no_tls: true, jwt_cookie: c }",
    "proxy_protocol": "proxy_protocol: true",
}
LISTENS = {
    "leafnodes": "leafnodes { port: -1 }",
    "gateway": "gateway { name: a, port: -1 }",
    "mqtt": "mqtt { port: -1 }",
}
NOTED = {
    "queue limits": "request_queue_limit: 10\n  info_queue_limit: 10",
}


FLAGS = "feature_flags { js_ack_fc_v2: true, js_raft_delete_range: true, unknown: true }"


def written(path: Path, text: str) -> str:
    """A configuration in this folder, which DIR stands for."""
    return config(path, text.replace("DIR", str(path)))


def check(name: str, path: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run(name, "-t", "-c", written(path, text))


def test_every_flag_of_the_usage_is_known() -> None:
    usage = subprocess.run([binary(), "--help"], capture_output=True, text=True, check=False)
    rows = re.findall(r"^ +(-.*?)(?: {2}|$)", usage.stdout, re.MULTILINE)
    named = {flag for row in rows for flag in re.findall(r"(?:^|[ ,])--?([A-Za-z_]+)", row)}

    assert len(named) > 40
    for flag in sorted(named):
        parse_flags([f"-{flag}=1"])


@pytest.mark.parametrize("what", SERVED)
def test_served_settings_are_accepted(tmp_path: Path, what: str) -> None:
    checked = check("jetgate-nats-server", tmp_path, SERVED[what])

    assert checked.returncode == 0, checked.stderr
    if what != "remotes":
        assert check("nats-server", tmp_path, SERVED[what]).returncode == 0


@pytest.mark.parametrize("what", REFUSED)
def test_refused_settings_are_named(tmp_path: Path, what: str) -> None:
    checked = check("jetgate-nats-server", tmp_path, REFUSED[what])

    assert checked.returncode == 1
    assert re.search(r"not served|trusted keys configuration is required", checked.stderr)


def test_unserved_ports_are_bound_with_one_warning_each(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(LISTENS.values()))
    with DropIn("jetgate-nats-server", "-c", path) as server:
        server.ports()
        texts = server.texts()
        for kind in LISTENS:
            [_warning] = [t for t in texts if t.startswith(f"[WRN] {kind} is not served")]
        bound = [text for text in texts if re.search(r"Listening for \w+ .*:\d+$", text)]
        kinds = ("leafnode", "gateway", "mqtt")
        doors = [text for text in bound if any(f"for {kind} " in text for kind in kinds)]
        assert len(doors) == len(LISTENS)
        for door in doors:
            with socket.create_connection(("127.0.0.1", int(door.rpartition(":")[2])), 30) as peer:
                told = b"" if "for mqtt " in door else b"is not served"
                assert told in peer.recv(100)
                assert peer.recv(100) == b""


@pytest.mark.parametrize("name", NAMES)
def test_settings_without_effect_are_warned_of(tmp_path: Path, name: str) -> None:
    inner = "\n  ".join(NOTED.values())
    path = written(tmp_path, f"jetstream {{\n  store_dir: DIR/store\n  {inner}\n}}\n{FLAGS}")
    with DropIn(name, "-c", path) as server:
        server.ports()
        warned = [text for text in server.texts() if text.endswith("has no effect")]

    assert len(warned) == (3 if name == "jetgate-nats-server" else 0)


def test_every_word_of_the_document_is_tried() -> None:
    """A word that is added to the tables has to be added here."""
    table = DOCUMENT.split("## Not served")[1]
    table = table.split("\n\n## ")[0]
    tried = " ".join([*REFUSED, *LISTENS, *NOTED, FLAGS])
    for word in re.findall(r"`([^`]+)`", table):
        assert word in tried, word
    blocks = next(line for line in DOCUMENT.splitlines() if line.startswith("| blocks"))
    served = " ".join([*SERVED, *SERVED.values()])
    for word in re.findall(r"`([^`]+)`", blocks):
        assert word in served, word
