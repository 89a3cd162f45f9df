"""The generated half of both SDKs is what their generators make of the contract."""

# Subject: SDKs

import ast
from importlib.util import find_spec
from pathlib import Path

import generate
import pytest

from tests.sdks.packages import tools
from tests.support.programs import EXTRA, node


def test_python(tmp_path: Path) -> None:
    """Compared as syntax trees: how the source is laid out depends on the version of ruff."""
    if find_spec("openapi_python_client") is None:
        pytest.skip(f"needs openapi-python-client: {EXTRA}")
    generate.python(tmp_path / "generated")

    fresh, kept = _python(tmp_path / "generated"), _python(generate.PYTHON)
    assert [at for at in fresh | kept if fresh.get(at) != kept.get(at)] == []
    assert len(kept) > 100


def test_typescript(tmp_path: Path) -> None:
    generate.typescript(tmp_path / "x", node=node(), modules=tools() / "node_modules")

    fresh, kept = _typescript(tmp_path / "x"), _typescript(generate.TYPESCRIPT)
    assert [at for at in fresh | kept if fresh.get(at) != kept.get(at)] == []
    assert len(kept) > 10


def _python(root: Path) -> dict[str, str]:
    return {
        str(at.relative_to(root)): ast.dump(ast.parse(at.read_text())) for at in root.rglob("*.py")
    }


def _typescript(root: Path) -> dict[str, str]:
    return {str(at.relative_to(root)): at.read_text() for at in root.rglob("*.ts")}
