"""How scripts start and stop servers: with streams that are closed or full, and any directory."""

# Subject: configuration

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.e2e.test_drop_in import in_a_loop
from tests.support.dropin import DropIn, command, environment, run
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT

PLAIN = ("-a", "127.0.0.1", "-p", "-1")
OURS = "jetgate-nats-server"
FULL = "/dev/full"
NO_MOUNT = "no file system can be mounted here: run as root, with CAP_SYS_ADMIN"


@contextlib.contextmanager
def broken_pipe() -> Iterator[int]:
    """The end to write of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def closing(*handles: int) -> Callable[[], None]:
    """What a child does before it becomes the server."""

    def close() -> None:
        for handle in handles:
            os.close(handle)

    return close


def last_line(text: str) -> str:
    """The last line without process id and time."""
    return "[" + text.splitlines()[-1].partition(" [")[2]


# -- standard streams


def serves_and_stops(server: DropIn, number: signal.Signals = signal.SIGINT) -> int:
    server.ports()
    server.send(number)
    return server.end()


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)])
def test_closed_streams_are_no_reason_not_to_serve(name: str, closed: tuple[int, ...]) -> None:
    with DropIn(name, *PLAIN, preexec_fn=closing(*closed)) as server:
        assert serves_and_stops(server) == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_for_the_output_is_no_reason_not_to_serve(name: str, stream: str) -> None:
    with Path(FULL).open("wb") as full, DropIn(name, *PLAIN, **{stream: full}) as server:
        assert serves_and_stops(server) == 0


def test_a_log_file_on_a_full_disk_is_no_reason_not_to_serve(name: str) -> None:
    with DropIn(name, *PLAIN, "-l", FULL) as server:
        assert serves_and_stops(server) == 0
        assert server.log() == ""


def test_closed_output_does_not_stop_the_server(name: str) -> None:
    with broken_pipe() as pipe, DropIn(name, *PLAIN, stdout=pipe) as server:
        assert serves_and_stops(server) == 0


def test_a_closed_log_does_not_stop_jetgate() -> None:
    """The reference server ends by SIGPIPE."""
    with broken_pipe() as pipe, DropIn(OURS, *PLAIN, stderr=pipe) as server:
        assert serves_and_stops(server) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_ignored_before_stops_it(name: str, number: signal.Signals) -> None:
    with DropIn(name, *PLAIN, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as server:
        assert serves_and_stops(server, number) == 0


def ended(name: str, *arguments: str, **how: Any) -> int:
    """The exit code of a command that ends by itself."""
    done = subprocess.run(
        [*command(name), *arguments], env=environment(), timeout=60, check=False, **how
    )
    return done.returncode


def test_a_command_whose_output_is_lost_ends_as_ever(name: str) -> None:
    with Path(FULL).open("wb") as full:
        assert ended(name, "-v", stdout=full) == 0
        assert ended(name, "nonsense", stderr=full) == 1
    assert ended(name, "-v", preexec_fn=closing(1)) == 0
    assert ended(name, "nonsense", preexec_fn=closing(2)) == 1


def test_a_command_whose_output_is_closed_ends_by_sigpipe(name: str) -> None:
    with broken_pipe() as pipe:
        assert ended(name, "-h", stdout=pipe) == -signal.SIGPIPE
        assert ended(name, "nonsense", stderr=pipe) == -signal.SIGPIPE


def test_an_error_goes_nowhere_else_when_its_stream_is_closed() -> None:
    printed = subprocess.run(
        [*command(OURS), "nonsense"],
        env=environment(),
        stdout=subprocess.PIPE,
        preexec_fn=closing(2),
        check=False,
        timeout=60,
    )

    assert printed.stdout == b""


@pytest.mark.parametrize("broken", ["closed", "unread", "full"])
def test_dev_serves_whatever_its_output_is(broken: str, tmp_path: Path) -> None:
    flags = ("--nats-port", "0", "--http-port", "0", "--data", str(tmp_path / "data"))
    with broken_pipe() as pipe, Path(FULL).open("wb") as full:
        chosen: dict[str, dict[str, Any]] = {
            "closed": {"preexec_fn": closing(0, 1, 2)},
            "unread": {"stdout": pipe, "stderr": pipe},
            "full": {"stdout": full, "stderr": full},
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "jetgate", "dev", *flags], cwd=ROOT, **chosen[broken]
        )
    ports = tmp_path / "data" / "ports.json"
    try:
        eventually(lambda: ports.exists() or process.poll() is not None, within=120)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)

    assert process.wait(60) == 0


# -- directories


def refusals(directory: Path) -> list[tuple[int, str]]:
    """Exit code and last line of both over a directory that they cannot use."""
    found = []
    for name in (OURS, "nats-server"):
        done = run(name, *PLAIN, "-js", "-sd", str(directory))
        found.append((done.returncode, last_line(done.stderr)))
    return found


def test_a_file_in_place_of_the_directory_is_reported_as_by_nats_server(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "jetstream").write_text("")

    for place in (tmp_path / "file", tmp_path / "store", tmp_path / "file" / "deeper"):
        ours, theirs = refusals(place)
        assert ours == theirs
        assert ours == (1, "[FTL] Can't start JetStream: storage directory is not a directory")


def test_a_directory_that_cannot_be_made_is_reported_as_by_nats_server() -> None:
    ours, theirs = refusals(Path("/proc/nowhere"))

    assert ours == theirs
    assert ours[0] == 1


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A file system in memory, of root's making."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip(NO_MOUNT)
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(NO_MOUNT)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_read_only_file_system_is_reported_as_by_nats_server(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m"):
        (tmp_path / "disk" / "made" / "jetstream").mkdir(parents=True)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        for place in ("made", "missing"):
            ours, theirs = refusals(tmp_path / "disk" / place)
            assert ours == theirs
            assert ours[0] == 1


@pytest.mark.parametrize("size", ["64k", "4m"])
def test_a_full_file_system_is_one_line(size: str, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", f"size={size}"):
        if size == "64k":
            with contextlib.suppress(OSError):
                (tmp_path / "disk" / "filled").write_bytes(bytes(1 << 20))
        done = run(OURS, *PLAIN, "-js", "-sd", str(tmp_path / "disk" / "store"))

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert last_line(done.stderr).startswith("[FTL] Can't start JetStream: ")
    assert re.search("no space left on device|bytes written", last_line(done.stderr), re.I)


def test_a_directory_that_is_in_use_is_refused_by_name(tmp_path: Path) -> None:
    """The reference server starts, and both write."""
    arguments = (*PLAIN, "-js", "-sd", str(tmp_path))
    with DropIn(OURS, *arguments) as server:
        server.ports()
        second = run(OURS, *arguments)

        assert second.returncode == 1
        assert last_line(second.stderr) == (
            f"[FTL] Can't start JetStream: data directory {tmp_path}/jetstream is in use by"
            f" another jetgate (process {server.process.pid})"
        )
        assert serves_and_stops(server) == 0


@pytest.mark.thorough
@in_a_loop
async def test_a_copy_made_while_the_server_was_down_is_served(name: str, tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    with DropIn(name, *PLAIN, "-js", "-sd", str(first)) as server:
        client = await nats.connect(server.url)
        await client.jetstream(timeout=30).add_stream(name="S", subjects=["s.>"])
        await client.jetstream(timeout=30).publish("s.1", b"kept")
        await client.close()
        assert serves_and_stops(server) == 0

    # Without owners, as `cp -r` copies.
    shutil.copytree(first, copy)

    with (
        DropIn(name, *PLAIN, "-js", "-sd", str(copy)) as server,
        DropIn(name, *PLAIN, "-js", "-sd", str(first)) as other,
    ):
        for each in (server, other):
            client = await nats.connect(each.url)
            message = await client.jetstream(timeout=30).get_msg("S", 1)
            assert message.data == b"kept"
            await client.close()
