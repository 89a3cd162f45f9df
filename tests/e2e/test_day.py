"""A day of an operator: the commands of docs/operations, run as they stand there, in their order.

docs/operations/quickstart.md is the way through the pages. Nodes are started by the command of the
systemd unit and by that of compose; a publisher notes what was acknowledged to it, from the first
message to the end of the rolling restart.
"""

# Subject: deployment

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml

from tests.support.jetgate import ROOT
from tests.support.operator import OperatorPostgres
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.shell_blocks import Block, Documents, Instead

PAGES = ROOT / "docs/operations"
PAGES_RUN = (
    *("quickstart.md", "../operations.md", "availability.md", "backup.md", "database.md"),
    *("deployment.md", "dsn.md", "settings.md", "sizing.md"),
)
NOT_RUN = {
    "availability.md": 2,  # a standby; another node
    "backup.md": 1,  # a base backup: no right to replicate
    "database.md": 3,  # twice the same as elsewhere; roles of another database
    "quickstart.md": 7,  # variables; systemd
    "deployment.md": 4,  # systemd; Docker, twice; Kubernetes
    "dsn.md": 1,  # hosts that are nowhere
}
"""How many blocks of each page no test can run here; the pages have the reasons."""
_COMMAND = r"^    (?:\$ )?(?:jetgate|psql|curl|docker|kubectl|systemctl|install|pg_\w+) .*"


class Day:
    """The machine on which the commands are run.

    Attributes:
        environment: the variables of the pages.
        printed: by all commands so far.
        actions: what the pages say that is done instead of a block.
    """

    def __init__(self, operator: OperatorPostgres, place: Path) -> None:
        self.place = place
        self.operator = operator
        self.dsn = f"postgresql://jetgate_app@localhost:{operator.port}/jetgate_app"
        self.tls = {"sslmode": "verify-full", "sslrootcert": str(operator.root)}
        self.ports = [(free_port(), free_port()) for _ in range(2)]
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.publisher: Publisher | None = None
        self.printed = ""
        programs = self._programs()
        self.environment = {
            "PATH": f"{programs}:{operator.installation.root / 'bin'}:{os.environ['PATH']}",
            "HOME": str(place),
            "ADMIN": operator.server.dsn,
            "DSN": self.dsn,
            "NEW": self.dsn.removesuffix("/jetgate_app") + "/new",
            "BACKUPS": str(place),
            **{f"PG{name.upper()}": value for name, value in self.tls.items()},
            "PGPASSFILE": str(place / "pgpass"),
            "HTTP": f"http://127.0.0.1:{self.ports[0][1]}",
            "HTTP2": f"http://127.0.0.1:{self.ports[1][1]}",
        }
        self.actions: dict[str, Callable[[], None]] = {
            "start a node by the unit's ExecStart": self._start_by_unit,
            "start a node by compose's command": self._start_by_compose,
            "publish from here on, whatever happens to the nodes": self._publish,
            "restart the second node": self._restart_second,
            "restart the first node": self._restart_first,
            "nothing that was acknowledged is lost": self._check,
            "end all nodes by SIGTERM": self._end_all,
        }

    def _programs(self) -> Path:
        """A directory with `jetgate`, and beside it what the commands name of the repository."""
        programs = self.place / "bin"
        programs.mkdir()
        program = programs / "jetgate"
        python = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)}"
        program.write_text(f'#!/bin/sh\n{python} -m jetgate "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self.place / "deploy").symlink_to(ROOT / "deploy")
        return programs

    def run(self, block: Block) -> None:
        """Run a block as it stands."""
        done = subprocess.run(
            ["bash", "-c", f"set -eu -o pipefail\n{block.text}"],
            cwd=self.place,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        told = f"{block.place}\n{block.text}\n{done.stdout}{done.stderr}{self.logs()}"
        assert done.returncode == block.code, told
        self.printed += done.stdout

    def logs(self) -> str:
        return "".join(path.read_text()[-2000:] for path in sorted(self.place.glob("*.log")))

    # -- nodes

    def _start_by_unit(self) -> None:
        [line] = re.findall(
            r"^ExecStart=/opt/jetgate/bin/jetgate (.+)$",
            (ROOT / "deploy/systemd/jetgate.service").read_text(),
            re.MULTILINE,
        )
        dsn = self.dsn.replace("jetgate_app@", f"jetgate_app:{self._password()}@")
        (self.place / "dsn").write_text(f"{dsn}?{urlencode(self.tls)}")
        self._start(0, shlex.split(line.replace("%d", str(self.place))), {})

    def _start_by_compose(self) -> None:
        service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["jetgate"]
        assert set(service["environment"]) == {"JETGATE_DSN", "JETGATE_DSN_PASSWORD_FILE"}
        (self.place / "password").write_text(self._password())
        variables = {
            "JETGATE_DSN": f"{self.dsn}?{urlencode(self.tls)}",
            "JETGATE_DSN_PASSWORD_FILE": str(self.place / "password"),
        }
        self._start(1, service["command"], variables)

    def _password(self) -> str:
        return (self.place / "pgpass").read_text().strip().rpartition(":")[2]

    def _start(self, number: int, command: list[str], variables: dict[str, str]) -> None:
        nats, http = self.ports[number]
        flags = ["--nats-port", str(nats), "--http-port", str(http)]
        flags += ["--cluster-listen", "127.0.0.1:0"]  # both are on one machine
        with (self.place / f"node{number + 1}.log").open("ab") as log:
            self.nodes[number] = subprocess.Popen(
                ["jetgate", *command, *flags],
                cwd=self.place,
                env={"PATH": self.environment["PATH"], "HOME": str(self.place), **variables},
                stdout=log,
                stderr=log,
            )

    def _end(self, number: int) -> None:
        node = self.nodes.pop(number)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0, self.logs()

    def _end_all(self) -> None:
        for number in list(self.nodes):
            self._end(number)

    def _restart_first(self) -> None:
        self._end(0)
        self._start_by_unit()

    def _restart_second(self) -> None:
        self._end(1)
        self._start_by_compose()

    # -- the load

    def _publish(self) -> None:
        self.publisher = Publisher(tuple(nats for nats, _ in self.ports))
        self.publisher.wait_for_more()

    def _check(self) -> None:
        assert self.publisher is not None
        self.publisher.wait_for_more()  # the other node has answered
        self.publisher.stop()
        admin = self.environment["ADMIN"].replace("/jetgate?", "/jetgate_app?")
        self.publisher.check(admin)

    def close(self) -> None:
        """End what still runs."""
        if self.publisher is not None:
            self.publisher.stop()
        for node in self.nodes.values():
            node.kill()
            node.wait(60)


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not there: the lines cannot be run")
    with OperatorPostgres() as operator:
        # The servers of tests have but one template, roles.sql takes the other one.
        operator.server.execute("create database template0 template template1")
        found = Day(operator, tmp_path)
        try:
            yield found
        finally:
            found.close()


@pytest.mark.thorough
def test_a_day(day: Day) -> None:
    documents = Documents()
    run = 0
    for step in documents.steps(PAGES / "quickstart.md"):
        match step:
            case Block():
                day.run(step)
                run += 1
            case Instead(place, action):
                assert action in day.actions, place
                day.actions[action]()

    assert {(PAGES / page).resolve() for page in PAGES_RUN} <= set(documents.seen)
    assert run > 15
    assert "ok    TLS: verify-full\n" in day.printed


def test_commands_that_are_not_run_are_counted_and_have_a_reason() -> None:
    documents = Documents()
    assert all(step.place for step in documents.steps(PAGES / "quickstart.md"))

    found = Counter(place.partition(":")[0] for place in documents.not_run)
    print(*(f"{place}: {reason}" for place, reason in documents.not_run.items()), sep="\n")

    assert {page: found[page] for page in NOT_RUN} == NOT_RUN
    assert all(documents.not_run.values())


@pytest.mark.parametrize("page", PAGES_RUN)
def test_no_command_stands_outside_of_what_is_run(page: str) -> None:
    assert re.findall(_COMMAND, (PAGES / page).read_text(), re.MULTILINE) == []
