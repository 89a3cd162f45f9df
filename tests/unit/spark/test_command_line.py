"""What `python -m pyspark_jetstream` says of wrong input: one line, and no traceback."""

# Subject: Spark rows, Spark pipelines

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream import doctor
from pyspark_jetstream.command import main
from pyspark_jetstream.pipelines import session

from tests.support.jetgate import ROOT

LAKE = (
    "kind: archive\nname: lake\nsource: {stream: S, options: {dsn: env:X}}\ntarget: {path: lake}\n"
)
FILES: dict[str, tuple[bytes, str]] = {
    "bytes.yaml": (b"\xff\xfe\x80", "is no text; expected text in UTF-8"),
    "open.yaml": (b"a: [1\n b: {", "line 2, column 3: "),
    "empty.yaml": (b"", "pipeline: is a NoneType"),
    "list.yaml": (b"[1, 2]", "pipeline: is a list"),
    "tag.yaml": (b"!!python/object:os.system x\n", "line 1, column 1: "),
    "nul.yaml": (b"a: \x00", "nul.yaml: "),
    "date.yaml": (b"a: 2024-99-99\n", "date.yaml: month must be in 1..12"),
    "deep.yaml": (b"[" * 20_000, "deep.yaml: is nested too deeply"),
    "open.py": (b"pipelines = [\n", "open.py: SyntaxError: "),
    "raises.py": (
        b"x = 1\nraise RuntimeError('no\\nway')\n",
        "raises.py: line 2: RuntimeError: no way",
    ),
    "imports.py": (b"import not_there_at_all\n", "line 1: ModuleNotFoundError: "),
    "bytes.py": (b"\xff\xfe\x80\x00", "bytes.py: SyntaxError: "),
    "nothing.py": (b"x = 1\n", "pipelines: is no list with an entry"),
    "text": (b"hello", "expected a file that ends in .yaml, .yml or .py"),
}
Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs the command; returns its exit code and the one line that it prints to stderr."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        return code, said.strip()

    return run


@pytest.mark.parametrize("command", ["check", "run", "doctor"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_wrong_is_named(told: Told, tmp_path: Path, name: str, command: str) -> None:
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)

    code, line = told(command, str(tmp_path / name))

    assert code == 2
    assert words in line
    assert name in line or line.startswith("pipeline")


@pytest.mark.parametrize("name", ["absent.yaml", "absent/lake.yaml", "directory.yaml", "absent.py"])
def test_a_file_that_cannot_be_read_is_named(told: Told, tmp_path: Path, name: str) -> None:
    (tmp_path / "directory.yaml").mkdir()

    code, line = told("check", str(tmp_path / name))

    assert code == 2
    assert "cannot be read: " in line


@pytest.mark.parametrize("command", ["check", "run", "doctor"])
def test_yaml_without_pyyaml_is_reported(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "lake.yaml").write_text(LAKE)

    code, line = told(command, str(tmp_path / "lake.yaml"))

    assert code == 2
    assert line.endswith("needs pyyaml; expected pip install pyyaml, or pipelines in a .py file")


@pytest.mark.parametrize("missing", ["pyarrow", "numpy", "pyspark"])
def test_a_package_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    (tmp_path / "lake.yaml").write_text(LAKE)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "spark")]),
        "X": "postgresql://nobody@127.0.0.1:1/x",
    }
    command = [sys.executable, "-m", "pyspark_jetstream", "run", "lake.yaml"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"{missing}: is not installed; expected pip install {missing}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("report", ["absent/report.json", "."])
def test_a_report_that_could_not_be_written_is_reported_before_anything_runs(
    told: Told, tmp_path: Path, report: str
) -> None:
    (tmp_path / "lake.yaml").write_text(LAKE)

    code, line = told("run", str(tmp_path / "lake.yaml"), "--report", str(tmp_path / report))

    assert code == 2
    assert line.startswith("--report: is ")


def test_a_spark_that_does_not_start_is_one_line(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited\nstack")

    monkeypatch.setattr(session, "open_session", refuse)
    (tmp_path / "lake.yaml").write_text(LAKE)

    code, line = told("run", str(tmp_path / "lake.yaml"), "--master", "local[2]")

    assert code == 1
    assert line.startswith("Spark: local[2] does not start: [JAVA_GATEWAY_EXITED]")


def test_the_doctor_looks_at_the_pythons_that_spark_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def probe(command: str) -> dict[str, Any]:
        asked.append(command)
        return {"python": list(sys.version_info[:3]), "format": "jetstream"}

    def commands() -> list[str]:
        asked.clear()
        list(doctor.interpreters(probe))
        return [Path(command).name for command in asked]

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    assert commands() == ["python3"]
    monkeypatch.setenv("PYSPARK_PYTHON", "/a/tasks")
    assert commands() == ["tasks"]
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/a/driver")
    assert commands() == ["tasks", "driver"]


@pytest.mark.parametrize("program", ["", "/no/python", "/bin/true", "/bin/false", "/bin/echo", "/"])
def test_a_file_that_is_no_python_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", program)

    _, found = doctor.interpreters(doctor._probe)

    assert found.state == "fail"
    assert "cannot be run: " in found.found
    assert "\n" not in found.found
    assert found.todo.startswith(f"set PYSPARK_PYTHON={sys.executable}")
