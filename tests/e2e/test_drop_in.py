"""A script that was written for nats-server, run with either: only the path differs."""

# Subject: configuration

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import nats
import pytest

from core.storage.postgres.embedded.directory import processes_in
from tests.support.dropin import DropIn, config, run
from tests.support.eventually import eventually
from tests.support.wire import Wire


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test as a coroutine."""

    @wraps(test)
    def call(**fixtures: Any) -> None:
        async def main() -> None:
            await test(**fixtures)

        asyncio.run(main())

    return call


PLAIN = ("-a", "127.0.0.1", "-p", "-1")
NOBODY = (1 << 22) + 1  # no process of Linux has a greater number than 1 << 22


def greeting(server: DropIn) -> bytes:
    with socket.create_connection(server.address, timeout=30) as connection:
        return connection.recv(4096)


def receive_lines(connection: socket.socket, wanted: bytes) -> None:
    """Read lines up to one that has this in it."""
    seen = b""
    while wanted not in seen or not seen.endswith(b"\r\n"):
        more = connection.recv(4096)
        assert more, seen
        seen += more


# -- command line


@pytest.mark.parametrize(
    ("arguments", "code", "wording"),
    [
        (["-v"], 0, "nats-server: v2.15.1\n"),
        (["--version"], 0, "nats-server: v2.15.1\n"),
        (["version"], 0, "nats-server: v2.15.1\n"),
        (["-nosuch"], 0, "flag provided but not defined: -nosuch\n"),
        (["-p"], 0, "flag needs an argument: -p\n"),
        (["-p", "abc"], 0, 'invalid value "abc" for flag -p: parse error\n'),
        (["-js=maybe"], 0, 'invalid boolean value "maybe" for -js: parse error\n'),
        (["foo"], 1, 'nats-server: unrecognized command: "foo"\n'),
        (["-t"], 1, "nats-server: must specify [-c, --config] option to check configuration"),
        (["-c", "/nonexistent"], 1, "nats-server: open /nonexistent: no such file or directory\n"),
        (["--signal", f"ldm={NOBODY}"], 1, f'signal "ldm" {NOBODY}: no such process'),
        (["--signal", "foo=1"], 1, 'nats-server: unknown signal "foo"\n'),
    ],
)
def test_a_command_that_ends_at_once(
    name: str, arguments: list[str], code: int, wording: str
) -> None:
    ended = run(name, *arguments)

    assert ended.returncode == code
    assert wording in ended.stderr + ended.stdout


def test_help_is_the_usage_and_exit_code_0(name: str) -> None:
    ended = run(name, "--help")

    assert ended.returncode == 0
    assert ended.stdout.startswith("\nUsage: nats-server [options]")


def test_t_checks_a_configuration(name: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text("port: 4222\n")
    bad.write_text("port: 4222\nfoo: 1\n")

    valid = run(name, "-t", "-c", "good.conf", cwd=tmp_path)
    invalid = run(name, "-t", "-c", "bad.conf", cwd=tmp_path)

    assert valid.returncode == 0
    assert valid.stderr == (
        "nats-server: configuration file good.conf is valid"
        " (sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e)\n"
    )
    assert invalid.returncode == 1
    assert invalid.stderr == 'nats-server: bad.conf:2:1: unknown field "foo"\n\n'


# -- a life


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_logs_that_it_is_ready_and_stops(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    with DropIn(name, *PLAIN, "-P", str(pid), "-n", "alpha") as server:
        url = server.url
        assert greeting(server).startswith(b"INFO {")
        assert pid.read_text() == str(server.process.pid)
        server.until("[INF] Server is ready")  # clients are greeted a little before

        server.send(number)

        assert server.end() == 0
        assert not server.ports_file.exists()
        texts = server.texts()
        trapped = "interrupt" if number == signal.SIGINT else "terminated"
        for text in (
            "[INF] Starting nats-server",
            "[INF]   Version:  2.15.1",
            "[INF]   Name:     alpha",
            f"[INF] Listening for client connections on {url.removeprefix('nats://')}",
            "[INF] Server is ready",
            f'[INF] Trapped "{trapped}" signal',
            "[INF] Initiating Shutdown...",
            "[INF] Server Exiting..",
        ):
            assert text in texts


def test_a_port_that_is_taken_is_fatal(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run(name, "-a", "127.0.0.1", "-p", place.rpartition(":")[2])

    assert ended.returncode == 1
    reason = f'"listen tcp {place}: bind: address already in use"'
    assert ended.stderr.endswith(f"[FTL] Error listening on port: {place}, {reason}\n")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        (
            ["-p", "99999"],
            'FTL] Error listening on port: 127.0.0.1:99999, "listen tcp: address 99999:'
            ' invalid port"\n',
        ),
        (
            ["-p", "-5"],
            'FTL] Error listening on port: 127.0.0.1:-5, "listen tcp: address -5: invalid port"\n',
        ),
        (
            ["-p", "-1", "-m", "-5"],
            "FTL] Can't start monitoring: can't listen to the monitor port: listen tcp:"
            " address -5: invalid port\n",
        ),
        (
            ["-p", "-1", "-P", "/nonexistent/pid"],
            "FTL] Could not write pidfile: open /nonexistent/pid: no such file or directory\n",
        ),
        (
            ["-p", "-1", "-l", "/nonexistent/log"],
            " error opening file: open /nonexistent/log: no such file or directory\n",
        ),
        (["-p", "-1", "-n", "a b"], "nats-server: server name cannot contain spaces\n"),
    ],
)
def test_a_failed_start_prints_one_line(name: str, arguments: list[str], wording: str) -> None:
    ended = run(name, "-a", "127.0.0.1", *arguments)

    assert ended.returncode == 1
    assert ended.stderr.endswith(wording)
    assert [line for line in ended.stderr.splitlines() if "[INF]" not in line] == [
        ended.stderr.splitlines()[-1]
    ]


def test_a_configuration_without_a_value_is_reported_and_serves(name: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.conf"
    path.write_text("# nothing yet\n")

    with DropIn(name, *PLAIN, "-c", str(path)) as server:
        server.until(f"{path}: config has no values or is empty")
        server.until("Server is ready")
        server.send(signal.SIGINT)

        assert server.end() == 0


def test_a_ports_file_that_cannot_be_written_does_not_stop_the_server(name: str) -> None:
    with DropIn(name, *PLAIN, "--ports_file_dir", "/nonexistent") as server:
        server.until("no such file or directory")
        server.until("Server is ready")
        server.send(signal.SIGINT)

        assert server.end() == 0
        place = f"/nonexistent/{name}_{server.process.pid}.ports"
        assert (
            f"[ERR] Error writing ports file ({place}): open {place}: no such file or directory"
        ) in server.texts()


def test_a_password_in_clear_is_warned_of(name: str) -> None:
    with DropIn(name, *PLAIN, "--user", "a", "--pass", "b") as server:
        server.ports()

        assert "[WRN] Plaintext passwords detected, use nkeys or bcrypt" in server.texts()


def test_a_monitoring_port_that_is_taken_is_fatal(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(name, *PLAIN, "-m", port)

    assert ended.returncode == 1
    assert "[FTL] Can't start monitoring: can't listen to the monitor port: " in ended.stderr
    assert f"127.0.0.1:{port}: bind: address already in use" in ended.stderr


@in_a_loop
async def test_without_jetstream_its_api_has_no_responders(name: str) -> None:
    with DropIn(name, *PLAIN) as server:
        client = await nats.connect(server.url)
        subscription = await client.subscribe("a.*")
        await client.publish("a.b", b"x")
        assert (await subscription.next_msg(timeout=30)).data == b"x"
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$JS.API.INFO", b"", timeout=30)
        await client.close()


@in_a_loop
async def test_with_jetstream_messages_survive_a_stop_and_a_kill(name: str, tmp_path: Path) -> None:
    arguments = (*PLAIN, "-js", "-sd", str(tmp_path / "store"))
    with DropIn(name, *arguments) as server:
        client = await nats.connect(server.url)
        await client.jetstream(timeout=30).add_stream(name="S", subjects=["s.>"])
        await client.jetstream(timeout=30).publish("s.1", b"one")
        await client.close()
        server.send(signal.SIGTERM)
        assert server.end() == 0
    with DropIn(name, *arguments) as server:
        client = await nats.connect(server.url)
        await client.jetstream(timeout=30).publish("s.2", b"two")
        await client.close()
        server.send(signal.SIGKILL)
        server.end()
        eventually(lambda: not processes_in(tmp_path / "store" / "jetstream" / "pg"), within=60)
    with DropIn(name, *arguments) as server:
        client = await nats.connect(server.url)
        info = await client.jetstream(timeout=30).stream_info("S")
        assert info.state.messages == 2 or name == "nats-server"  # which forces nothing to disk
        await client.close()


# -- configuration


def answer(server: DropIn, credentials: str) -> bytes:
    """What the server says to a CONNECT with these members, and a PING."""
    with socket.create_connection(server.address, timeout=30) as connection:
        wording = b'CONNECT {"verbose":false%s}\r\nPING\r\n' % credentials.encode()
        connection.sendall(wording)
        seen = b""
        while not (b"PONG" in seen or b"-ERR" in seen) and (more := connection.recv(4096)):
            seen += more
        return seen


@pytest.mark.parametrize(
    ("line", "good", "bad"),
    [
        ("authorization { token: abc }", ',"auth_token":"abc"', ',"auth_token":"x"'),
        ("authorization { user: u, pass: p }", ',"user":"u","pass":"p"', ',"user":"u","pass":"q"'),
        ("authorization { users: [ {user: u, password: p} ] }", ',"user":"u","pass":"p"', ""),
    ],
)
def test_authorization_is_enforced(
    name: str, tmp_path: Path, line: str, good: str, bad: str
) -> None:
    with DropIn(name, "-c", config(tmp_path, line)) as server:
        assert b"PONG" in answer(server, good)
        assert b"-ERR 'Authorization Violation'" in answer(server, bad)


@in_a_loop
async def test_flags_win_over_the_configuration(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "server_name: one", "max_payload: 2KB", "debug: false")
    with DropIn(name, "-c", path, "-n", "two", "-D", "--auth", "secret") as server:
        client = await nats.connect(server.url, token="secret")
        assert client.connected_server_version is not None
        assert client.max_payload == 2048
        assert client._server_info["server_name"] == "two"
        await client.close()


def test_headers_are_not_served_where_they_are_not_wanted(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "no_header_support: true")
    with DropIn(name, "-c", path) as server:
        server.ports()
        assert b'"headers":false' in greeting(server)
        wanted = answer(server, ',"headers":true,"no_responders":true')
        assert b"-ERR 'no responders requires headers support'" in wanted
        with socket.create_connection(server.address, timeout=30) as connection:
            connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB a 1\r\n')
            connection.sendall(
                b"PUB a 2\r\nhi\r\nPING\r\nHPUB a 12 14\r\nNATS/1.0\r\n\r\nho\r\nPING\r\n"
            )
            wording = b"".join(iter(lambda: connection.recv(4096), b""))
        assert wording.partition(b"\r\n")[2] == b"MSG a 1 2\r\nhi\r\nPONG\r\n"

        config(tmp_path, "no_header_support: false")
        server.send(signal.SIGHUP)
        server.until("config reload not supported for NoHeaderSupport: old=true, new=false")


def test_hup_reads_the_configuration_again(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "max_payload: 1KB")
    with DropIn(name, "-c", path) as server:
        server.ports()
        config(tmp_path, "max_payload: 4KB", 'ping_interval: "10s"', "authorization { token: t }")
        server.send(signal.SIGHUP)
        server.until("[INF] Reloaded server configuration (sha256:")
        assert "[INF] Reloaded: max_payload = 4096" in server.texts()
        assert "[INF] Reloaded: ping_interval = 10s" in server.texts()
        assert "[INF] Reloaded: authorization users" in server.texts()
        eventually(lambda: b'"max_payload":4096' in greeting(server))
        eventually(lambda: b'"auth_required":true' in greeting(server))

        config(tmp_path, "max_payload: 4KB", "server_name: other")
        server.send(signal.SIGHUP)
        server.until("config reload not supported for ServerName: old=, new=other")
        config(tmp_path, "foo: 1")
        server.send(signal.SIGHUP)
        server.until('unknown field "foo"')
        assert b'"max_payload":4096' in greeting(server)


@in_a_loop
async def test_a_reload_takes_new_limits_of_jetstream(name: str, tmp_path: Path) -> None:
    def block(*limits: str) -> str:
        return config(tmp_path, f"jetstream {{ store_dir: '{tmp_path}/store'", *limits, "}")

    def reloaded(server: DropIn, times: int) -> bool:
        wording = ("Reloaded: JetStream limits", "Reloaded server conf")
        return all(server.log().count(line) == times for line in wording)

    path = block("limits { duplicate_window: '10s' }")
    with DropIn(name, "-c", path) as server:
        client = await nats.connect("nats://{}:{}".format(*server.address))
        windows = []
        for count, limits in enumerate(["", "limits { duplicate_window: '5s' }"], 1):
            windows.append(await window(client, f"A{count}"))
            block(limits)
            server.send(signal.SIGHUP)
            eventually(partial(reloaded, server, count))
        windows += [await window(client, "B"), await window(client, "A1", "INFO")]
        await client.close()

    assert windows == [10, 120, 5, 10]


async def window(client: Any, stream: str, verb: str = "CREATE") -> float:
    """Seconds of the window of duplicates of a stream that is made, or is there."""
    body = json.dumps({"name": stream, "subjects": [stream]}).encode() if verb == "CREATE" else b""
    answer = await client.request(f"$JS.API.STREAM.{verb}.{stream}", body, timeout=30)
    return float(json.loads(answer.data)["config"]["duplicate_window"] / 1e9)


def test_usr1_opens_the_log_file_anew(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with DropIn(name, *PLAIN, "-l", str(path)) as server:
        server.ports()
        eventually(lambda: "Server is ready" in path.read_text())
        path.rename(tmp_path / "log.1")

        server.send(signal.SIGUSR1)

        eventually(lambda: path.exists() and "re-opened" in path.read_text())


def test_usr2_sends_clients_away_and_ends(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, 'lame_duck_duration: "30s"', 'lame_duck_grace_period: "1s"')
    with DropIn(name, "-c", path, "-js", "-sd", str(tmp_path / "store")) as server:
        place = server.address
        with socket.create_connection(server.address, timeout=30) as connection:
            connection.sendall(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
            receive_lines(connection, b'"connect_info":true')

            server.send(signal.SIGUSR2)

            receive_lines(connection, b'"ldm":true')
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(place, timeout=30)
            assert "[INF] Entering lame duck mode, stop accepting new clients" in server.texts()
            rest = b"".join(iter(lambda: connection.recv(4096), b""))
            assert rest in (b"", b"PING\r\n")  # which comes after two seconds
        assert server.end() == 0


@pytest.mark.parametrize(
    ("place", "told"), [("me.example:5", ("me.example", 5)), ("me.example", ("me.example", 0))]
)
def test_clients_learn_the_advertised_address(name: str, place: str, told: tuple[str, int]) -> None:
    with DropIn(name, *PLAIN, "--client_advertise", place) as server:
        host, port = told
        info = greeting(server).decode()

        assert f'"host":"{host}","port":{port or server.address[1]},' in info


def test_an_advertised_address_that_is_none_is_fatal(name: str) -> None:
    ended = run(name, *PLAIN, "--client_advertise", "x:y")

    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "[FTL] Error setting server INFO with ClientAdvertise value of x:y,"
        ' err=strconv.Atoi: parsing "y": invalid syntax\n'
    )


def test_a_reload_moves_what_it_can_and_names_what_it_cannot(name: str, tmp_path: Path) -> None:
    with DropIn(name, "-c", config(tmp_path, "")) as server:
        server.ports()
        for line, what in (
            ("max_subscriptions: 3", "MaxSubs: old=0, new=3"),
            ("max_pending: 1MB", "MaxPending: old=67108864, new=1048576"),
            ('lame_duck_grace_period: "5s"', "LameDuckGracePeriod: old=10s, new=5s"),
            ("max_subscription_tokens: 4", "MaxSubTokens: old=0, new=4"),
            ("logfile_size_limit: 1MB", "LogSizeLimit: old=0, new=1048576"),
        ):
            config(tmp_path, line)
            server.send(signal.SIGHUP)
            server.until(f"config reload not supported for {what}")

        config(tmp_path, f'client_advertise: "me:7"\npid_file: "{tmp_path}/pid"')
        server.send(signal.SIGHUP)
        server.until("Reloaded server configuration")

        assert "[INF] Reload: client_advertise = me:7" in server.texts()
        assert b'"host":"me","port":7,' in greeting(server)
        assert (tmp_path / "pid").read_text() == str(server.process.pid)


# -- ours alone: what is not served


@pytest.mark.parametrize(
    ("line", "wording"),
    [
        ("accounts { A { users: [ {user: a, password: b} ] } }", "accounts are not served: A"),
        ("operator: /x", "operator is not served"),
        ("resolver: MEMORY", "resolver is not served"),
        ("tls { cert_file: a, key_file: b }", "tls is not served"),
        ('leafnodes { remotes: [ {url: "nats://x"} ] }', "leafnodes remotes are not served"),
        ("cluster { port: -1, tls { cert_file: a, key_file: b } }", "cluster tls is not served"),
        ("cluster { port: -1, permissions { import: a } }", "cluster permissions is not served"),
        ("cluster { port: -1, routes: [x] }", 'route url "x" has no host and port'),
        ("authorization { auth_callout { issuer: X } }", "auth_callout is not served"),
        ('jetstream { key: "secret" }', "jetstream.encryption_key is not served"),
    ],
)
def test_settings_that_guard_or_connect_out_are_refused(
    tmp_path: Path, line: str, wording: str
) -> None:
    ended = run("jetgate-nats-server", "-c", config(tmp_path, line))
    checked = run("jetgate-nats-server", "-t", "-c", config(tmp_path, line))

    assert checked.returncode == 1
    assert wording in checked.stderr
    assert ended.returncode == 1
    assert "[FTL] " in ended.stderr
    assert wording in ended.stderr


def test_unserved_settings_are_named_before_their_consequences(tmp_path: Path) -> None:
    accounts = "accounts { A { users: [ {user: a, password: b} ] } }"
    ended = run("jetgate-nats-server", "-c", config(tmp_path, accounts, "no_auth_user: a"))

    assert ended.returncode == 1
    assert ended.stderr.endswith("[FTL] accounts are not served: A\n")


def test_unserved_ports_are_bound_and_refuse_every_client(tmp_path: Path) -> None:
    path = config(tmp_path, "leafnodes { port: -1 }", 'gateway { listen: "127.0.0.1:-1" }')
    with DropIn("jetgate-nats-server", "-c", path) as server:
        server.ports()
        warnings = [text for text in server.texts() if text.startswith("[WRN] ")]
        assert len(warnings) == 2
        [line] = [text for text in server.texts() if "Listening for leafnode " in text]
        with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), 30) as peer:
            assert peer.recv(100) == b"-ERR 'leafnodes is not served'\r\n"
            assert peer.recv(100) == b""


def test_the_ports_file_lists_every_port_that_tools_look_for(name: str, tmp_path: Path) -> None:
    blocks = [f"{kind} {{ host: 127.0.0.1, port: -1 }}" for kind in ("cluster", "leafnodes")]
    websocket = "websocket { host: 127.0.0.1, port: -1, no_tls: true }"
    path = config(tmp_path, websocket, *blocks)
    with DropIn(name, "-c", path, "-m", "-1") as server:
        ports = server.ports()

        theirs = ["nats", "monitoring", "cluster", "websocket"]
        ours_too = ["leafnodes"] if name == "jetgate-nats-server" else []
        assert list(ports) == theirs + ours_too
        for urls in ports.values():
            host, _, port = urls[0].partition("://")[2].rpartition(":")
            socket.create_connection((host, int(port)), timeout=30).close()
        assert ports["cluster"][0].startswith("nats://127.0.0.1:")


def test_a_signal_reaches_the_process_of_a_pid_file(name: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with DropIn(name, *PLAIN, "-P", str(pid)) as server:
        server.ports()

        assert run(name, "--signal", f"quit={pid}").returncode == 0

        assert server.end() == 0


def test_websocket_clients_get_an_info_too(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "websocket { host: 127.0.0.1, port: -1, no_tls: true }")
    with DropIn(name, "-c", path) as server:
        [url] = server.ports()["websocket"]
        assert f"[INF] Listening for websocket clients on {url}" in server.texts()
        host, _, port = url.removeprefix("ws://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(
                b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            receive_lines(connection, b"INFO {")


def test_websockets_without_encryption_must_be_wanted(name: str, tmp_path: Path) -> None:
    ended = run(name, "-c", config(tmp_path, "websocket { port: -1 }"))

    assert ended.returncode == 1
    assert "websocket requires TLS configuration" in ended.stderr


def test_authors_need_permission_for_what_headers_ask_for_where_the_file_wants_it(
    tmp_path: Path,
) -> None:
    users = "authorization { users: [ { user: a, password: b, permissions: { publish: 'a.>' } } ] }"
    block = b"NATS/1.0\r\nNats-Schedule: @every 1h\r\nNats-Schedule-Target: sec.x\r\n\r\n"
    message = b"HPUB a.x %d %d\r\n%b\r\n" % (len(block), len(block), block)
    refusal = b"-ERR 'Permissions Violation for Publish to \"sec.x\"'"
    with DropIn("jetgate-nats-server", "-c", config(tmp_path, users)) as server:
        server.ports()
        with Wire(server.address) as wire:
            wire.hello(b'CONNECT {"verbose":false,"headers":true,"user":"a","pass":"b"}\r\n')
            wire.send(message)
            assert wire.flush() == []

            config(tmp_path, users, "author_permissions: true")
            server.send(signal.SIGHUP)
            server.until("Reloaded: author_permissions = true")
            server.until("Reloaded server configuration")

            wire.send(message)
            assert [frame.line for frame in wire.flush()] == [refusal]

    checked = run("jetgate-nats-server", "-t", "-c", config(tmp_path, "author_permissions: 3"))
    assert checked.returncode == 1
    assert "interface {} is int64, not bool" in checked.stderr
