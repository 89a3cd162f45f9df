"""The command line of the Spark format: `run` pipelines, `check` them, or call the `doctor`."""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Imported lazily: `doctor` names a missing package only if its own import succeeds
if TYPE_CHECKING:
    from pyspark_jetstream.pipelines.declaration import Pipeline

FAILED = 1
WRONG = 2
"""Exit codes. `FAILED`: a pipeline or check failed. `WRONG`: an argument or declaration is bad."""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code: 0, `FAILED` (1) or `WRONG` (2)."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "doctor":
            return _doctor(options)
        from pyspark_jetstream.pipelines.load import load
        from pyspark_jetstream.pipelines.queries import check

        pipelines = _chosen(load(options.file), options.only)
        for one in pipelines:
            _check(one, check)
        if options.command == "run":
            _check_report(options.report)
    except ValueError as error:  # DeclarationError, InvalidOption
        print(error, file=sys.stderr)
        return WRONG
    except ModuleNotFoundError as error:
        return _missing(error)
    if options.command == "check":
        for one in pipelines:
            print(f"{one.kind} {one.name}: can be run")
        return 0
    return _run(pipelines, options)


def _check(one: "Pipeline", check: "Callable[[Pipeline], None]") -> None:
    """Check a pipeline. Raises ValueError with the pipeline's name if the declaration is
    invalid.
    """
    try:
        check(one)
    except ValueError as error:
        raise ValueError(f"{one.kind} {one.name}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pyspark_jetstream", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    text = {
        "run": "run the pipelines that a file declares, in order",
        "check": "check a file for errors, without Spark",
        "doctor": "check the installation, and print remedies",
    }
    made = {name: commands.add_parser(name, help=line) for name, line in text.items()}
    for name in ("run", "check"):
        made[name].add_argument("file", type=Path, help="pipelines, in .yaml or .py")
        made[name].add_argument("--only", action="append", default=[], metavar="NAME")
    for name in ("run", "doctor"):
        made[name].add_argument("--master", default="", help="of Spark; local[*] without it")
        made[name].add_argument(
            "--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark"
        )
    made["run"].add_argument(
        "--keep-going",
        action="store_true",
        help="after a failure, run the pipelines that do not depend on it",
    )
    made["run"].add_argument("--report", type=Path, help="file for the reports, as JSON")
    doctor = made["doctor"]
    doctor.add_argument(
        "file", type=Path, nargs="?", help="check the requirements of these pipelines"
    )
    doctor.add_argument("--dsn", default="", help="PostgreSQL to reach: env:NAME or file:PATH")
    doctor.add_argument("--servers", default="", help="NATS servers to reach")
    doctor.add_argument("--no-spark", action="store_true", help="start no session")
    return parser


def _missing(error: ModuleNotFoundError) -> int:
    """Print which package is missing; return the exit code.

    Raises `error` again if the missing module belongs to this package.
    """
    name = (error.name or str(error)).partition(".")[0]
    if name in ("", "pyspark_jetstream"):
        raise error
    todo = f"pip install {name}; `python -m pyspark_jetstream doctor` checks all of them"
    print(f"{name}: is not installed; expected {todo}", file=sys.stderr)
    return FAILED


def _check_report(path: Path | None) -> None:
    """Raise DeclarationError if the report cannot be written to `path` after the run."""
    from pyspark_jetstream.pipelines.fields import DeclarationError

    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise DeclarationError("--report", f"is {str(path)!r}", "a file in an existing directory")


def _chosen(pipelines: "tuple[Pipeline, ...]", names: Sequence[str]) -> "tuple[Pipeline, ...]":
    from pyspark_jetstream.pipelines.fields import DeclarationError

    known = [one.name for one in pipelines]
    for name in names:
        if name not in known:
            raise DeclarationError("--only", f"is {name!r}", "one of " + ", ".join(known))
    return tuple(one for one in pipelines if not names or one.name in names)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    from pyspark_jetstream.pipelines.fields import DeclarationError

    settings = {}
    for text in options.conf:
        name, equals, value = text.partition("=")
        if not equals:
            raise DeclarationError("--conf", f"is {text!r}", "KEY=VALUE")
        settings[name] = value
    return settings


def _run(pipelines: "tuple[Pipeline, ...]", options: argparse.Namespace) -> int:
    from pyspark_jetstream.pipelines.report import as_json

    try:
        from pyspark_jetstream.pipelines.run import run

        settings = _settings(options)
    except ModuleNotFoundError as error:
        return _missing(error)
    except ValueError as error:
        print(error, file=sys.stderr)
        return WRONG
    stop = threading.Event()
    spark = _session(", ".join(one.name for one in pipelines), options.master, settings)
    if spark is None:
        return FAILED
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        reports = run(pipelines, spark, keep_going=options.keep_going, stop=stop)
    finally:
        spark.stop()
    print("\n\n".join(one.text() for one in reports), flush=True)
    if options.report:
        try:
            options.report.write_text(as_json(reports), encoding="utf-8")
        except OSError as error:
            print(f"--report: cannot write {options.report}: {error.strerror}", file=sys.stderr)
            return FAILED
    return FAILED if any(one.failed for one in reports) else 0


def _session(name: str, master: str, settings: dict[str, str]) -> Any:
    """Start Spark; print the reason and return None if it does not start."""
    from pyspark_jetstream.pipelines.session import LOCAL, open_session

    try:
        return open_session(name, master, settings)
    except ModuleNotFoundError as error:
        _missing(error)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        todo = "ask `python -m pyspark_jetstream doctor`"
        print(f"Spark: {master or LOCAL} does not start: {first}; {todo}", file=sys.stderr)
    return None


def _doctor(options: argparse.Namespace) -> int:
    from pyspark_jetstream.doctor import examine
    from pyspark_jetstream.pipelines.load import load

    findings = examine(
        load(options.file) if options.file else (),
        dsn=options.dsn,
        servers=options.servers,
        spark=None if options.no_spark else (options.master, _settings(options)),
    )
    failed = 0
    for one in findings:
        print(one.text(), flush=True)
        failed += one.state == "fail"
    return FAILED if failed else 0
