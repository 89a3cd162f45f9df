"""Configuration files read by both servers: validity, digest, and every error message."""

# Subject: configuration

import os
import subprocess
from pathlib import Path

import pytest

from core.config.grammar import GrammarError
from core.errors import Contradiction
from dropin.command import check
from dropin.config.contradictions import refuse_contradictions
from dropin.config.files import included
from dropin.config.flags import parse_flags
from dropin.config.options import Options
from dropin.config.reader import Mistakes, read
from tests.support.natsserver import binary

FILES = (
    "port: 4222\n\nfoo: 1",
    "port: abc",
    'port: "4222"',
    "debug: 1",
    'max_payload: "abc"',
    "max_payload: 1MB\nmax_pending: 64mb",
    'ping_interval: "2x"',
    "ping_interval: 5",
    'write_deadline: "5s"',
    'jetstream { store_dir: "/tmp/x"\n max_mem: 1G\n bogus: 2 }',
    'jetstream { max_mem: "10Z" }',
    "jetstream: 5",
    "jetstream: maybe",
    "authorization { users: [ {user: a, bogus: 1} ] }",
    "port: $NOPE",
    "a: 1\nport: $a",
    "a {b: 1",
    "port: [1, 2",
    "port 4222 }",
    'host: "abc',
    'host: "a\\\\qb"',
    "x: (\n abc\n",
    "port:\n4222",
    "= 4",
    '"po rt": 4222',
    'port 4222; host "1.1.1.1", debug true',
    '{"port": 4222, "host": "127.0.0.1"}',
    "include nofile.conf",
    'listen: "127.0.0.1:abc"',
    "http_port: 1\nhttp_port: 2",
    "max_connections: -5",
    "port: 99999999999999999999999",
    "port: 4222x",
    "debug: maybe",
    'lame_duck_duration: "5s"',
    "PORT: 4222",
    "mappings { foo: bar }",
    *(
        f"port: 4222\nmappings {{\n {line} \n}}\n"
        for line in (
            '"a.*.*": "b.$2.{{wildcard(1)}}"',
            "foo: 3",
            "foo: true",
            'foo: "bar.>"',
            'foo: "b ar"',
            '"f oo": bar',
            '"foo..x": a',
            '"foo.*": "a.{{nofn(1)}}"',
            '"foo.*": "a.$2"',
            "foo: []",
            'foo: [ "a", "b" ]',
            "foo: {dest: a}",
            "foo: {dest: a, cluster: x}",
            "foo: {weight: 10}",
            "foo: {destination: a, weight: 50, cluster: x}",
            "foo: {dest: a, weight: 120}",
            'foo: {dest: a, weight: "120%"}',
            'foo: {dest: a, weight: "x%"}',
            'foo: {dest: a, weight: " 50 %"}',
            "foo: {dest: a, weight: -1}",
            "foo: {dest: a, weight: 0.5}",
            "foo: {dest: a, weight: true}",
            "foo: {dest: 3, weight: 50}",
            "foo: {dest: a, bogus: 1}",
            'foo: {dest: "a.*", weight: 50}',
            'goo: {dest: "b..c", weight: 5}',
            "foo: [ {dest: a, weight: 60%}, {dest: b, weight: 60%} ]",
            "foo: [ {dest: a, weight: 50}, {dest: a, weight: 50} ]",
            "foo: [ {dest: a, weight: 60%, cluster: x}, {dest: b, weight: 60%} ]",
        )
    ),
    "no_system: true",
    "no_sys_acc: true",
    "no_sublist_cache: true",
    "no_sublist_cache: 5",
    "max_subscription_tokens: 0",
    "max_sub_tokens: -1",
    "# nothing but a comment",
    "{\n}\n",
    "a: .5",
    'a: "\\x4"',
    'a: "\\xzz"',
    'a: "\\x4\n',
    'include "inc.conf',
    "include 'inc.conf\n",
    "a: 1\nport: $UNENDED",
    "server_name: $ITSELF",
    "mappings: 3",
    "maps: [ {a: b} ]",
    "websocket { port: 8080 }",
    "leafnodes { port: 7422 }",
    "cluster { port: 6222, name: x }",
    'server_name: "a b"',
    "authorization { user: a, pass: b, token: c }",
    "max_control_line: 1.5",
    "logfile_size_limit: 10MB\nserver_tags: [a, b]\nserver_metadata { a: b }",
    "max_subscription_tokens: 300",
    "write_timeout: foo",
    "feature_flags { x: true, js_ack_fc_v2: true }",
    "",
    "include inc.conf\nhost: x",
    'include "inc.conf"; foo: 1',
    "jetstream { include inc.conf }",
    "port: [1",
    "a: [1,,2]",
    "port: 4222 4223",
    "authorization { user: a b }",
    "server_name: $X",
    'jetstream: {store_dir: "/x", max_file: 10G, sync_interval: always, domain: d,'
    " limits { max_ack_pending: 5 } }",
    "jetstream { limits: 5 }",
    "jetstream { limits { foo: 1 } }",
    "jetstream { limits { batch { foo: 1 } } }",
    "jetstream { limits { MAX_ACK_PENDING: -1, duplicate_window: '-5s' } }",
    "listen: 4222",
    'listen: ":4222"',
    'listen: "0.0.0.0"',
    'http: ":x"',
    'ping_interval: "1m"; ping_max: 3; max_conn: 10; max_subs: 5; write_deadline: 5',
    "host: 5",
    'debug: yes\ntrace: On\nlogtime: off\nlog_file: "/tmp/x"',
    'server_name: "x" # c\n// y\nport = 1 // z',
    "max_payload: 5GB",
    "port:",
    "port",
    'lame_duck_grace_period: "-1s"',
    "date: 2026-01-02T15:04:05Z\nport: $date",
    "server_name: ( abc\n)\n",
    "max_payload: 64k\nmax_pending: 1gib\nserver_name: $2a$11$xyz",
    'server_tags: "a<b>&c"\nserver_metadata { "k": "v" } ',
    "server_name: a\\x41b",
    "a {\n b {\n c: 5 }\n d: $c\n}\nport: 4222",
    "a {\n c: 5\n b { d: $c }\n}\nport: 4222",
    "authorization {\n users = [\n {user: a, password: b}\n {user: c, password: d}\n ]\n}",
    'authorization { ADMIN = { publish = ">" }\n'
    " users = [ {user: a, password: b, permissions: $ADMIN} ] }",
)

KINDS = (
    "authorization { user: a, timeout: x }",
    'authorization { user: a, timeout: "5s" }',
    "authorization { user: a, timeout: true }",
    "authorization { user: a, pass: b, users: [{user: c, pass: d}] }",
    "authorization { pass: b, token: t }",
    "authorization { pass: b }",
    "authorization { user: a }",
    "authorization { users: 5 }",
    "authorization { users: [] }",
    "authorization { users: [{}] }",
    "authorization { users: [{pass: b}] }",
    "authorization { users: [{user: 5}] }",
    "authorization { users: [{user: a, pass: 5}] }",
    "authorization { users: [{user: a, bogus: 5}] }",
    "authorization { users: [{user: a, nkey: 5}] }",
    "authorization { users: [{user: a, permissions: 5}] }",
    "authorization { users: [{user: a, permissions: {bogus: 5}}] }",
    "authorization { users: [{user: a, permissions: {pub: 5}}] }",
    'authorization { users: [{user: a, permissions: {pub: "a b"}}] }',
    'authorization { users: [{user: a, permissions: {pub: "a..b"}}] }',
    'authorization { users: [{user: a, permissions: {pub: ["a..b", "c"]}}] }',
    'authorization { users: [{user: a, permissions: {sub: "a b c"}}] }',
    'authorization { users: [{user: a, permissions: {sub: "a b"}}] }',
    'authorization { users: [{user: a, permissions: {sub: "a *.b"}}] }',
    "authorization { users: [{user: a, permissions: {pub: {allow: 5}}}] }",
    "authorization { users: [{user: a, permissions: {pub: {bogus: 5}}}] }",
    'authorization { users: [{user: a, permissions: {pub: {allow: "a..b"}}}] }',
    'authorization { users: [{user: a, permissions: {pub: {deny: ["b", "a..b"]}}}] }',
    'authorization { users: [{user: a, permissions: {pub: ""}}] }',
    "authorization { users: [{user: a, permissions: {pub: []}}] }",
    "authorization { users: [{user: a, permissions: {allow_responses: 5}}] }",
    'authorization { users: [{user: a, permissions: {allow_responses: "yes"}}] }',
    'authorization { users: [{user: a, permissions: {allow_responses: {max: "x"}}}] }',
    'authorization { users: [{user: a, permissions: {allow_responses: {expires: "x"}}}] }',
    "authorization { users: [{user: a, permissions: {allow_responses: {expires: 5}}}] }",
    "authorization { users: [{user: a, permissions: {allow_responses: {bogus: 5}}}] }",
    "authorization { default_permissions: 5 }",
    'authorization { default_permissions: {pub: "a..b"} }',
    'authorization { default_permission: {pub: "a"} }',
    "authorization { users: [{user: a, allowed_connection_types: 5}] }",
    'authorization { users: [{user: a, allowed_connection_types: "STANDARD"}] }',
    'authorization { users: [{user: a, allowed_connection_types: ["x", "STANDARD", "y"]}] }',
    "authorization { users: [{user: a, pass: b}, {user: a, pass: c}] }",
    "authorization { users: [{user: a, pass: b}, {user: b, pass: c}, {user: b, pass: c}] }",
    "authorization { bogus: 1 }",
    'authorization { token: "" }',
    'authorization { user: "", pass: "" }',
    "authorization { users: [{user: a, proxy_required: 5}] }",
    "authorization { proxy_required: true }",
    'authorization { users: [{user: "a b", pass: b}] }',
    'authorization { users: [{user: a, permissions: {pub: "$foo"}}] }',
    'authorization { users: [{user: a, permission: {publish: "a", subscribe: "b"}}] }',
    'authorization { users: [{user: a, permissions: {pub: {allow: "a", deny: "b"}}}] }',
    'authorization { users: [{user: a, permissions: {sub: {deny: "x y"}}}] }',
    "websocket: 5",
    "websocket { bogus: 1 }",
    'websocket { port: "x" }',
    'websocket { listen: "x" }',
    "websocket { no_tls: 5 }",
    "websocket { compression: 5 }",
    "websocket { same_origin: 5 }",
    "websocket { handshake_timeout: 5 }",
    'websocket { handshake_timeout: "x" }',
    "websocket { allowed_origins: 5 }",
    "websocket { authorization {users: []} }",
    "websocket { authorization {bogus: 5} }",
    "websocket { no_auth_user: 5 }",
    "websocket { headers: 5 }",
    "websocket { headers: {a: 5} }",
    "websocket { ping_interval: 5 }",
    'websocket { ping_interval: "x" }',
    "websocket { user_cookie: 5 }",
    'websocket { jwt_cookie: "x" }',
    "websocket { host: 5 }",
    "websocket { advertise: 5 }",
    "websocket { tls: 5 }",
    "connect_error_reports: x",
    "trace_headers: 5",
    "write_timeout: 5",
    "server_tags: 5",
    "server_metadata: 5",
    "feature_flags: 5",
    "jetstream { max_mem: true }",
    "jetstream { domain: 5 }",
    'jetstream { enabled: "yes" }',
    "jetstream { unique_tag: 5 }",
    'jetstream { limits { max_ack_pending: "x" } }',
    "jetstream { limits { duplicate_window: 5 } }",
    "listen: true",
    'listen: "a:b:c"',
    'listen: "[::1]:4222"',
    'server_name: "a\\tb"',
)

CLUSTERS = tuple(
    f"cluster {{ {line} }}"
    for line in (
        'name: "a b", port: -1',
        "name: 5",
        "bogus: 5, Other: x",
        'net: h, listen: ":55"',
        "routes: 5",
        'routes: [ "nats://a:1", " nats://a:1 ", "nats-route://u:p@[::1]:5", "h:1" ]',
        'routes: [ "%zz", "nats://[::1:5", "nats://a b:1", "1.2.3.4:5",\n5\n]',
        "authorization { user: a, password: b, timeout: 1.5 }",
        "authorization { user: a, pass: b, token: c }",
        "authorization { users: [], token: a, user: b }",
        "authorization { users: [{pass: a}] }",
        "authorization { user: a, permissions: {bogus: x} }",
        "authorization { token: a, permissions: {pub: x} }",
        "authorization { user: a, timeout: 70, bogus: 1 }",
        "permissions: { import: { allow: a }, export: 5 }",
        "accounts: 5",
        "accounts: [a, 5\n]",
        "compression: 5",
        'compression: { mode: s2_auto, rtt_thresholds: ["5ms", "x", "y"] }',
        "compression: { rtts: [5\n] }",
        "compression: { mode: true }",
        "compression: { bogus: 5 }",
        'ping_interval: "40s", write_deadline: 5',
        "advertise: 5",
        "connect_retries: x",
        "no_advertise: 5",
        "pool_size: -1, connect_backoff: true, ping_max: 3",
    )
)

TERMINATORS = (
    "a {b: 1",
    "a {b: 1\n",
    "a {b: 1,",
    "a {b: 1 ",
    "a {",
    "a {\n",
    "a {\n\n",
    "a { b: 1 # x",
    "a { b: 1 # x\n",
    "a {b: {c: 1}",
    "a {b: {c: 1}\n",
    "a {b: x",
    "a {b: x\n",
    'a {b: "x"',
    'a {b: "x"\n',
    "a: [1, 2\n",
    "a: [1,",
    "a: [",
    "a: [\n",
    "a: [x\n",
    "a: [x",
    'a: ["x"',
    'a: ["x"\n',
    "a: [[x]\n",
    'a: "x\n\n\n',
    'a: "x\n',
    "a: 'x\n\n",
    'port: 1\na: "x\n\n',
    "port: -1\n; server_name: x\n",
    "port: -1; server_name: x\n",
    "port: -1;\nserver_name: x\n",
    ";port: -1\n",
    ",port: -1\n",
    "{port: -1}\n",
    "{port: -1}; a",
    "a { ; b: 1 }\nport: $a",
    "port: -1\n  ; server_name: x\n",
    'X: 5\ninclude "port_of_x.conf"',
    'X: 5\na { include "port_of_x.conf" }',
    'include "port_of_x.conf"\nX: 5',
    'mappings { "a.*": [ {destination: b} ] }',
    "include deep.conf",
)


FOUND_BY_CHANCE = (
    "websocket\n{\n}",
    "a: 1..2",
    "a: 1.5k",
    "server_tags: [1]",
    "server_tags: [1k]\nserver_name: 1]",
    "a: 1kbb",
    "a {b:}\nc 1",
    "x {a {b:}}",
    "a: [{b:}]",
    "{}port: -1",
    "{{}port: -1",
    "{port: -1",
    "{{port: -1};debug: true}",
    "a: ['",
    "port: -1\n'",
    "server_name: (\nabc\n)",
    "authorization {timeout: 1.0}",
    "authorization {timeout: 61}",
    "authorization {timeout: 1234567.5}",
    "authorization {timeout: 0.0000001}",
    "authorization { users: [ true ] }",
    "authorization { users: [\n x\n  'y\nz' ] }",
    "server_tags: [5 ]",
    "server_metadata { a 5 }",
    "feature_flags { a: b}",
    "cluster 5",
    "cluster { listen: 'nats-route://h:1' }",
    "leafnodes { port: 'x' }",
    "include /inc.conf",
    "include inc.conf'",
    "include ''",
    "include inc.conf,a:1",
    "a 1\rb 2",
    "'a\nb': 1",
    "a: $SUCH",
)


def lines_of(wording: str) -> list[str]:
    """Return sorted lines, because nats-server reports several errors in a random order."""
    return sorted(wording.removeprefix("nats-server: ").splitlines())


def our_error(text: str) -> str:
    options = Options()
    try:
        read(text, "c.conf", options, included, os.environ)
    except (GrammarError, Mistakes) as error:
        return f"nats-server: {error}\n"
    if options.oddities:
        return "nats-server: " + "\n".join(options.oddities) + "\n\n"
    return f"nats-server: configuration file c.conf is valid ({options.digest})\n"


@pytest.mark.parametrize("text", [*FILES, *KINDS, *CLUSTERS, *TERMINATORS, *FOUND_BY_CHANCE])
def test_both_servers_report_the_same_about_a_configuration_file(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNENDED", "a b")
    monkeypatch.setenv("ITSELF", "$ITSELF")
    Path("inc.conf").write_text("port: 4223\n")
    Path("port_of_x.conf").write_text("port: $X\n")
    Path("deep.conf").write_text("include port_of_x.conf\n")
    Path("c.conf").write_bytes(text.encode())

    wording = subprocess.run(
        [binary(), "-t", "-c", "c.conf"], capture_output=True, text=True, check=False, timeout=60
    )

    assert lines_of(our_error(text)) == lines_of(wording.stderr)


def test_two_directories_of_the_store_are_one_too_many() -> None:
    for text in ("store_dir: a; jetstream { store_dir: b }", "jetstream { store: a }; storedir: a"):
        assert our_error(text).endswith(": Duplicate 'store_dir' configuration\n\n")


CONTRADICTIONS = (
    "max_payload: 100MB",
    "no_auth_user: a",
    "authorization { user: a, pass: b }; no_auth_user: a",
    "authorization { users: [{user: a, password: b}] }; no_auth_user: c",
    'lame_duck_duration: "30s"; lame_duck_grace_period: "1m"',
    'jetstream { domain: "a.b" }',
    'jetstream { domain: "a b" }',
    "cluster { compression: bogus }",
    'cluster { compression: { mode: s2_auto, rtt_thresholds: ["10ms", "5ms"] } }',
    'cluster { compression: { mode: auto, rtt_thresholds: ["0ms"] } }',
    "cluster { pool_size: -1, accounts: [A] }",
    "cluster { accounts: [B, A, A] }",
    "cluster { name: x, port: -1 }; jetstream: true",
    "cluster { port: -1 }; jetstream: true; server_name: a",
    "websocket { port: -1 }",
    'websocket { port: -1, no_tls: true, allowed_origins: ["x.com"] }',
    'websocket { port: -1, no_tls: true, allowed_origins: "ftp://x.com" }',
    "websocket { port: -1, no_tls: true, no_auth_user: a }",
    "authorization { users: [{user: a, password: b}] }\n"
    "websocket { port: -1, no_tls: true, no_auth_user: c }",
    "authorization { users: [{user: a, password: b}] }\n"
    "websocket { port: -1, no_tls: true, authorization { user: c, pass: d } }",
    "authorization { users: [{user: a, password: b}] }\n"
    "websocket { port: -1, no_tls: true, authorization { token: c } }",
)


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_both_refuse_the_same_contradictions(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.conf"
    path.write_text(text)
    options = Options()
    read(text, "c.conf", options, included, os.environ)
    options.complete()

    with pytest.raises(Contradiction) as ours:
        refuse_contradictions(options)

    started = subprocess.run(
        [binary(), "-p", "-1", "-c", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert started.stderr == f"nats-server: {ours.value}\n"


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_a_check_of_the_file_does_not_speak_of_them(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.conf").write_text(text)

    wording = subprocess.run(
        [binary(), "-t", "-c", "c.conf"], capture_output=True, text=True, check=False, timeout=60
    )
    code = check(parse_flags(["-t", "-c", "c.conf"]))

    assert (code, capsys.readouterr().err) == (0, wording.stderr)
