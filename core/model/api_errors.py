"""The numbered errors of the JetStream API, found by the names that nats-server uses.

The table is `api_errors.json`: name, HTTP-like code, error code, description. A name has no `Err`
or `ErrF` ending. Clients compare codes and texts, so both are those of nats-server; `{...}` is a
placeholder that the caller fills in.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

from core.errors import ApiError


@dataclass(frozen=True, slots=True)
class ApiErrorRow:
    """One row of the table of errors: name, HTTP-like code, error code, text."""

    name: str
    code: int
    err_code: int
    description: str


def _load() -> dict[str, ApiErrorRow]:
    rows = json.loads(files("core.model").joinpath("api_errors.json").read_bytes())
    return {row["name"]: ApiErrorRow(**row) for row in rows}


TABLE = _load()


def err_code(name: str) -> int:
    """Return the error code of the error called `name`. Raises KeyError for an unknown name."""
    return TABLE[name].err_code


def api_error(name: str, /, **texts: object) -> ApiError:
    """Return the error called `name`, with its placeholders filled in from `texts`.

    Raises KeyError for an unknown name or a missing text: a bug of the caller.
    """
    row = TABLE[name]
    text = row.description
    if "{" in text:
        text = text.format(**texts)
    return ApiError(row.code, row.err_code, text)


def detailed(name: str, detail: str, /) -> ApiError:
    """Return the error called `name` with a detail after its text: `bad request: <detail>`."""
    row = TABLE[name]
    return ApiError(row.code, row.err_code, f"{row.description}: {detail}")
