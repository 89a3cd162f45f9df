"""The command `doctor`: checks the installation, options and servers, and suggests remedies.

The checks change nothing, and of streams they read only the state (`STREAM.INFO` or its SQL
equivalent). Each check yields a finding; a failed check does not prevent the others.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pyspark_jetstream.values import InvalidOption

if TYPE_CHECKING:
    from pyspark_jetstream.nats.settings import Settings
    from pyspark_jetstream.options import ConnectionOptions
    from pyspark_jetstream.pipelines.declaration import Pipeline

JAVA = (17, 21)
"""Versions of Java that Spark 4 supports."""

PACKAGES = {
    "pyspark": ("4.0", "pip install 'pyspark>=4.0,<5'"),
    "pyarrow": ("18.0", "pip install 'pyarrow>=18'"),
    "pandas": ("2.2", "pip install 'pandas>=2.2,<3'"),
}
"""Packages that every query needs: name to the oldest supported version and the pip command."""

SINCE = {
    (4, 1): "filter pushdown (option pushdown) and streaming writes in Arrow",
    (4, 2): "limits of a micro-batch, Trigger.AvailableNow, lag in the progress",
}
"""Features that need a newer PySpark: version that introduced them to their description."""

_NOBODY = "no-stream-of-this-name"
TIME_LIMIT = 5.0
"""Limit in seconds of one answer of a server, also if the options of a query allow more."""

_PROBE = """
import importlib.metadata as m, json, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return ""
found = {"python": list(sys.version_info[:3])}
found.update({n: version(n) for n in ("pyspark", "pyarrow", "pandas", "pyspark-jetstream")})
try:
    import pyspark_jetstream
    found["format"] = pyspark_jetstream.DefaultSource.name()
except Exception as error:
    found["format"] = ""
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of the installation.

    Attributes:
        `what`: Subject of the check.
        state: `ok`, `warn` (a feature is missing) or `fail` (queries fail).
        found: Observed state.
        todo: Remedy; empty if none is needed.
    """

    what: str
    state: str
    found: str
    todo: str = ""

    def text(self) -> str:
        """Return the finding as printed: one line, and a second line with the remedy, if any."""
        line = f"{self.state:<4}  {self.what}: {' '.join(self.found.split())}"
        return line + (f"\n      -> {self.todo}" if self.todo else "")


def examine(
    pipelines: Sequence["Pipeline"] = (),
    *,
    dsn: str = "",
    servers: str = "",
    spark: tuple[str, Mapping[str, str]] | None = ("", {}),
) -> Iterator[Finding]:
    """Run all checks in order; yield the finding of each as soon as it is known.

    Args:
        pipelines: Pipelines whose options, streams and tables are checked.
        dsn: A database to check in addition, as a connection string, `env:NAME` or `file:PATH`.
        servers: NATS servers to check in addition, separated by commas.
        spark: Master URL and settings of a Spark session to start; None starts none.
    """
    yield from packages(_installed)
    yield java(_java_output)
    yield from interpreters(_probe)
    yield from declared(pipelines)
    if dsn:
        yield from reach("read", {"dsn": dsn, "stream": _NOBODY})
    if servers:
        yield from reach("read", {"servers": servers, "stream": _NOBODY})
    if not (pipelines or dsn or servers):
        yield Finding("streams", "warn", "no server was checked", "name a file, --dsn or --servers")
    if spark is not None:
        yield from session(*spark)


def packages(installed: Callable[[str], str]) -> Iterator[Finding]:
    """Check the versions of required and optional packages in this Python.

    A missing optional package is a warning that names the features it disables.

    Args:
        installed: Returns the version of a package, empty if it is not installed.
    """
    for name, (oldest, todo) in PACKAGES.items():
        version = installed(name)
        if not version:
            yield Finding(name, "fail", "is not installed", todo)
        elif numbers(version) < numbers(oldest):
            yield Finding(name, "fail", f"{version} is older than {oldest}", todo)
        elif name == "pandas" and numbers(version) >= (3,):
            yield Finding(name, "warn", f"{version}: PySpark 4 is made for pandas 2", todo)
        elif name == "pyspark":
            yield _pyspark(version)
        else:
            yield Finding(name, "ok", version)
    for name, what in (
        ("adbc-driver-postgresql", "transport=sql"),
        ("crc32c", "verify=true and transactional writes"),
        ("pyyaml", "pipelines in YAML"),
    ):
        version = installed(name)
        todo = f"pip install {name}, if you need {what}"
        yield (
            Finding(name, "ok", version)
            if version
            else Finding(name, "warn", f"is not installed: no {what}", todo)
        )


def _pyspark(version: str) -> Finding:
    if numbers(version) >= (5,):
        return Finding("pyspark", "warn", f"{version} is newer than this release was tested with")
    missing = [what for since, what in SINCE.items() if numbers(version) < since]
    if missing:
        found = f"{version}, without " + "; without ".join(missing)
        return Finding("pyspark", "warn", found, "pip install 'pyspark>=4.2,<5' for all of it")
    return Finding("pyspark", "ok", version)


def java(run: Callable[[Sequence[str]], str]) -> Finding:
    """Check version and modules of the Java that Spark will start (`JAVA_HOME`, else the path).

    Args:
        run: Runs a command and returns its output; raises OSError if the command cannot start.
    """
    home = os.environ.get("JAVA_HOME", "")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java") or "java"
    todo = "install Java 17 or 21 and set JAVA_HOME, for instance apt-get install openjdk-17-jre"
    try:
        match = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', run([command, "-version"]))
        modules = run([command, "--list-modules"])
    except OSError as error:
        return Finding("Java", "fail", f"{command} cannot be run: {error.strerror}", todo)
    if match is None:
        return Finding("Java", "fail", f"{command} does not print its version", todo)
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    found = f"{version} ({command})"
    if version not in JAVA:
        return Finding("Java", "fail", f"{found}: Spark 4 supports 17 and 21", todo)
    if "jdk.incubator.vector" not in modules:
        return Finding(
            "Java",
            "fail",
            f"{found} lacks the module jdk.incubator.vector, which Spark names",
            todo,
        )
    return Finding("Java", "ok", found)


def interpreters(probe: Callable[[str], Mapping[str, Any]]) -> Iterator[Finding]:
    """Check the Python of this process, and the Pythons that Spark starts.

    Spark starts one Python on the driver to find formats, and one on executors to run tasks. The
    environment names both (`PYSPARK_DRIVER_PYTHON`, `PYSPARK_PYTHON`). The default is `python3` on
    the path, which may differ from the Python of this process.

    Args:
        probe: Runs `_PROBE` in an interpreter and returns its output. Raises OSError if the
            interpreter cannot start, ValueError if its output is not that of `_PROBE`.
    """
    here = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok", f"{here} ({sys.executable})")
    tasks = os.environ.get("PYSPARK_PYTHON", "python3")
    formats = os.environ.get("PYSPARK_DRIVER_PYTHON", tasks)
    places = {tasks: ("Python of executors", "PYSPARK_PYTHON")}
    if formats != tasks:
        places[formats] = ("Python that finds formats", "PYSPARK_DRIVER_PYTHON")
    for command, (what, variable) in places.items():
        todo = f"set {variable}={sys.executable}, or install pyspark-jetstream there"
        where = shutil.which(command) or command
        try:
            found = probe(where)
        except (OSError, ValueError) as error:
            yield Finding(what, "fail", f"{where or variable} cannot be run: {error}", todo)
            continue
        yield executor(what, found, todo, where)


def executor(what: str, found: Mapping[str, Any], todo: str, where: str = "") -> Finding:
    """Check that another Python has the major and minor version of this one and finds `jetstream`.

    Args:
        `what`: Subject of the finding.
        found: Output of `_PROBE` in that Python.
        todo: Remedy if the check fails.
        where: Path of that Python, for the finding.
    """
    version = tuple(found["python"])
    text = ".".join(map(str, version)) + (f" ({where})" if where else "")
    if version[:2] != tuple(sys.version_info[:2]):
        mine = ".".join(map(str, sys.version_info[:2]))
        return Finding(what, "fail", f"{text} is not {mine}, the driver's", todo)
    if found.get("format") != "jetstream":
        why = found.get("error") or "the package is not installed"
        return Finding(what, "fail", f"{text} does not have the format: {why}", todo)
    return Finding(what, "ok", f"{text}, with the format jetstream")


def declared(pipelines: Sequence["Pipeline"]) -> Iterator[Finding]:
    """Check the options of pipelines, and the connections to their streams and target tables."""
    from pyspark_jetstream.pipelines.declaration import Table
    from pyspark_jetstream.pipelines.fields import DeclarationError

    try:
        from pyspark_jetstream.pipelines.queries import queries
    except ModuleNotFoundError as error:
        yield _lacking("pipelines", error)
        return
    for one in pipelines:
        try:
            found = list(queries(one))
        except (DeclarationError, InvalidOption) as error:
            yield Finding(f"{one.kind} {one.name}", "fail", str(error), "change the field")
            continue
        for query in found:
            yield from reach(query.use, query.options, of=f" of {one.kind} {one.name}")
        target = getattr(one, "target", None)
        if isinstance(target, Table):
            yield _table(target.dsn, f" of {one.kind} {one.name}")


def reach(use: str, given: Mapping[str, str], *, of: str = "") -> Iterator[Finding]:
    """Check the options of one query, and whether its servers and streams can be reached.

    Args:
        use: Kind of the query: `read`, `readStream`, `write` or `writeStream`.
        given: Options of the query.
        of: Suffix of the findings that names the pipeline, such as ` of archive NAME`.
    """
    try:
        from pyspark_jetstream.queries import Query, connection_of, streams_of

        checked = Query(use, given).checked()
    except ModuleNotFoundError as error:
        yield _lacking("options", error)
        return
    except InvalidOption as error:
        yield Finding(f"options{of}", "fail", str(error), "change the option")
        return
    connection = _impatient(connection_of(checked))
    streams = streams_of(checked)
    if use in ("read", "readStream"):
        found = list(_heads(connection, streams))
        yield from found
        if any(one.what == "nats" and one.state == "fail" for one in found):
            return
    if connection.nats is not None:
        wanted = getattr(checked, "transactional", False)
        name = streams[0] if streams else _NOBODY
        finding = transactions(connection.nats, name, is_needed=wanted)
        yield finding
        if use not in ("read", "readStream") and finding.what != "nats":
            yield from _targets(connection, streams)


def _impatient(connection: "ConnectionOptions") -> "ConnectionOptions":
    """Return the connection with each time limit reduced to at most `TIME_LIMIT`."""
    from pyspark_jetstream.nats.tries import tries_within

    nats = connection.nats
    if nats is not None:
        nats = replace(
            nats,
            connect_timeout=min(TIME_LIMIT, nats.connect_timeout),
            timeout=TIME_LIMIT,
            retries=tries_within(TIME_LIMIT),
            reconnect_limit=TIME_LIMIT,
        )
    return replace(connection, timeout=TIME_LIMIT, nats=nats)


def _lacking(what: str, error: ModuleNotFoundError) -> Finding:
    found = f"not checked: the package {error.name} is not installed"
    return Finding(what, "fail", found, f"pip install {error.name}")


def _heads(connection: "ConnectionOptions", streams: Sequence[str]) -> Iterator[Finding]:
    from pyspark_jetstream.transport import open_transport
    from pyspark_jetstream.transport.errors import StreamNotFound

    way = connection.transport
    try:
        transport = open_transport(connection)
    except Exception as error:
        yield unreachable(way, error)
        return
    try:
        for stream in streams:
            try:
                head = transport.head(stream)
            except StreamNotFound as error:
                if stream == _NOBODY:
                    yield Finding(way, "ok", "reached")
                else:
                    todo = "check the name, the account and the rights of the user"
                    yield Finding(f"stream {stream}", "fail", str(error), todo)
                continue
            found = f"{head.messages:,} messages, sequences {head.first_seq} to {head.last_seq}"
            yield Finding(f"stream {stream}", "ok", f"{found}, by {way}")
    except Exception as error:
        yield unreachable(way, error)
    finally:
        transport.close()


def _targets(connection: "ConnectionOptions", streams: Sequence[str]) -> Iterator[Finding]:
    """Report the streams that a query writes to and that do not exist.

    Other refusals are ignored: a user with the right to write may lack the right to read infos.
    """
    from pyspark_jetstream.transport import open_transport
    from pyspark_jetstream.transport.errors import JetStreamError, StreamNotFound

    transport = open_transport(replace(connection, transport="nats"))
    try:
        for stream in streams:
            try:
                transport.head(stream)
            except StreamNotFound as error:
                todo = "create it, or change the target; the stream of bucket B is KV_B"
                yield Finding(f"stream {stream}", "fail", str(error), todo)
            except JetStreamError:
                continue
    finally:
        transport.close()


def _table(dsn: str, of: str) -> Finding:
    """Check that the database of a target table can be reached."""
    what = f"target.dsn{of}"
    try:
        from pyspark_jetstream.pipelines.postgres import connected

        connected(dsn).close()
    except ModuleNotFoundError as error:
        return _lacking(what, error)
    except Exception as error:
        return Finding(what, "fail", str(error), "change the field, or create the database")
    return Finding(what, "ok", "reached")


def transactions(settings: "Settings", stream: str, *, is_needed: bool = False) -> Finding:
    """Check that a NATS server supports jetgate's transactions, which exactly-once writes need.

    Args:
        settings: Servers and credentials.
        stream: Name of a stream for the request; it need not exist.
        is_needed: True if missing support is a failure, False if it is a warning.
    """
    from pyspark_jetstream.nats.connection import Connection
    from pyspark_jetstream.nats.errors import NatsError, NoResponders, Refused
    from pyspark_jetstream.nats.requests import Requests

    what = "transactional writes"
    try:
        with Connection(settings) as connection:
            where = connection.server
            # An API error also proves that the API is served, such as an unknown stream
            with contextlib.suppress(Refused):
                Requests(connection).api(f"$JG.API.TXN.INFO.{stream}")
    except NoResponders:
        found = "the server has none, as every JetStream server but jetgate"
        state = "fail" if is_needed else "warn"
        return Finding(what, state, found, "write with delivery=at-least-once")
    except NatsError as error:
        return unreachable("nats", error)
    return Finding(what, "ok", f"served by {where}")


def unreachable(way: str, error: Exception) -> Finding:
    """Return the failed finding for a server whose connection or answer raised `error`.

    Args:
        way: `sql` or `nats`, which selects the remedy.
        error: The exception, shown in the finding.
    """
    todo = {
        "sql": "check the option dsn: host, port, user, rights on schema jetgate (docs/sql.md)",
        "nats": "check the option servers: host, port, credentials, JetStream enabled",
    }.get(way, "check the options")
    return Finding(way, "fail", f"{type(error).__name__}: {error}", todo)


def session(master: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check that Spark starts, that its executors have the format, and which table formats exist.

    Args:
        master: Master URL of Spark; empty for `local[*]`.
        settings: Settings of the Spark session.
    """
    from pyspark_jetstream.pipelines.session import LOCAL, open_session

    try:
        spark = open_session("pyspark_jetstream doctor", master, settings)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        todo = "check the findings above, and the master"
        yield Finding("Spark", "fail", f"{master or LOCAL} does not start: {first}", todo)
        return
    try:
        yield Finding("Spark", "ok", f"{spark.version} on {spark.conf.get('spark.master')}")
        rows = spark.range(0, 8, 1, 4).mapInArrow(_executor_probe, "found string").collect()
        for text in sorted({row.found for row in rows}):
            todo = "install the package on every executor, in the Python that PYSPARK_PYTHON names"
            yield executor("an executor", json.loads(text), todo)
        yield from formats(spark)
    except Exception as error:
        line = str(error).strip().splitlines()[0]
        yield Finding("an executor", "fail", f"cannot run Python: {line}", "check its log")
    finally:
        spark.stop()


def formats(spark: Any) -> Iterator[Finding]:
    """Check whether Spark has the table formats Delta and Iceberg, which archives can use."""
    for name in ("delta", "iceberg"):
        try:
            spark.read.format(name).load("/nowhere/at/all")
        except Exception as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                found = "is missing: archives are Parquet"
                yield Finding(name, "ok", found)
                continue
        yield Finding(name, "ok", "is there")


def _executor_probe(batches: Iterable[Any]) -> Iterator[Any]:
    import io

    import pyarrow

    for _ in batches:
        pass
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(_PROBE, {})
    yield pyarrow.RecordBatch.from_pydict({"found": [out.getvalue().strip()]})


def numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version text, such as (4, 1, 0), for comparison."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _java_output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def _probe(command: str) -> Mapping[str, Any]:
    if not command:
        raise ValueError("it is empty")
    try:
        done = subprocess.run(
            [command, "-c", _PROBE], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError("it does not end") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        raise ValueError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it fails"
        )
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or "python" not in found:
        raise ValueError("it is no Python")
    return found
