"""Loader of pipelines from a YAML or Python file."""

import runpy
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from pyspark_jetstream.pipelines.declaration import Pipeline, pipeline
from pyspark_jetstream.pipelines.fields import DeclarationError


def load(path: Path) -> tuple[Pipeline, ...]:
    """Load the pipelines of a file, in its order.

    A YAML file contains one pipeline, or a mapping with a list `pipelines`. A Python file assigns
    `pipelines`, a list of mappings or of declarations.

    Raises:
        DeclarationError: The file cannot be read, a field is invalid, or a name occurs twice; the
            message names it.
    """
    name = str(path)
    if path.suffix not in (".yaml", ".yml", ".py"):
        raise DeclarationError("file", f"is {name!r}", "a file that ends in .yaml, .yml or .py")
    try:
        found = _python(path) if path.suffix == ".py" else _yaml(path)
    except OSError as error:
        text = f"{name!r} cannot be read: {error.strerror}"
        raise DeclarationError("file", text, "a file that is there") from None
    except UnicodeDecodeError:
        raise DeclarationError("file", f"{name!r} is no text", "text in UTF-8") from None
    pipelines = tuple(found)
    seen: set[str] = set()
    for one in pipelines:
        if one.name in seen:
            raise DeclarationError("name", f"{one.name!r} is there twice", "a name of its own")
        seen.add(one.name)
    return pipelines


def _yaml(path: Path) -> Iterable[Pipeline]:
    text = path.read_text(encoding="utf-8")
    try:
        import yaml
    except ImportError:
        todo = "pip install pyyaml, or pipelines in a .py file"
        raise DeclarationError("file", f"{str(path)!r} needs pyyaml", todo) from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        problem = getattr(error, "problem", None) or "cannot be read"
        raise DeclarationError(str(path), f"{where}: {problem}", "YAML") from None
    except RecursionError:
        raise DeclarationError(str(path), "is nested too deeply", "YAML") from None
    except ValueError as error:  # of an impossible date
        raise DeclarationError(str(path), str(error), "YAML") from None
    if isinstance(values, dict) and set(values) == {"pipelines"}:
        return _listed(values["pipelines"])
    return (pipeline(values, "pipeline"),)


def _python(path: Path) -> Iterable[Pipeline]:
    path.stat()
    try:
        values = runpy.run_path(str(path)).get("pipelines")
    except DeclarationError:
        raise
    except Exception as error:
        text = f"{_line_of(path, error)}{type(error).__name__}: {error}"
        raise DeclarationError(str(path), " ".join(text.split()), "Python that runs") from error
    return _listed(values)


def _line_of(path: Path, error: Exception) -> str:
    """Return the line of the file that raised an error, as `line 7: `; "" if unknown."""
    if isinstance(error, SyntaxError):
        return ""  # its message contains the line
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)
    ]
    return f"line {frames[-1].lineno}: " if frames else ""


def _listed(values: Any) -> Iterable[Pipeline]:
    if not isinstance(values, list | tuple) or not values:
        raise DeclarationError("pipelines", "is no list with an entry", "a list of pipelines")
    return tuple(
        one if isinstance(one, get_args(Pipeline)) else pipeline(one, f"pipelines[{place}]")
        for place, one in enumerate(values)
    )
